"""`python -m mcp_subagents` is `mcp-subagents`."""

import sys

from mcp_subagents.cli import main

if __name__ == "__main__":
    sys.exit(main())
