"""What an app starts when this bundle is installed: the server, on standard input and output."""

import sys

from mcp_subagents.cli import main

if __name__ == "__main__":
    sys.exit(main())
