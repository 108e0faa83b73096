"""What the command understands."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from mcp_subagents.cli.commands import COMMANDS, listed

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000
LISTENERS = "--host and --port need --transport http or --transport sse"

DESCRIPTION = """\
Hand work to subagents from any MCP app. They run in the background, ask when
unsure, stay inside a budget, survive crashes, and never lose a result.

Without arguments it serves one app on standard input and output, which is how
MCP apps start it."""

EPILOG = f"""\
environment:
  MCP_SUBAGENTS_CONFIG         the configuration file
  MCP_SUBAGENTS_STORE          where tasks are kept
  MCP_SUBAGENTS_MODEL          the model of subagents that name none
  MCP_SUBAGENTS_SYNC_PATIENCE  seconds that a call may last
  MCP_SUBAGENTS_LOG_LEVEL      what is logged
  MCP_SUBAGENTS_TOKEN          over the network, the secret that callers must know
  MCP_SUBAGENTS_ALLOWED_HOSTS  over the network, names by which it is called
  MCP_SUBAGENTS_TELEMETRY      on exports traces over OTLP, content with what was said

Options win over the environment, the environment over the file.

other commands (each has a --help):
{listed()}

examples:
  mcp-subagents --config team.yaml
  mcp-subagents --agents auto                  # with the agents of the project and of your home
  mcp-subagents --transport http --port 8000   # serves http://127.0.0.1:8000/mcp
"""


def parse(argv: Sequence[str] | None, env: Mapping[str, str]) -> argparse.Namespace:
    """The arguments of the command. Says what is wrong with them, or what was asked for, and exits."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        given = COMMANDS[words[0]].load().parser().parse_args(words[1:])
        given.command = words[0]
        return given
    parser = serve_parser()
    given = parser.parse_args(words)
    if given.command != "serve":
        parser.error(f"{given.command} comes first: mcp-subagents {given.command} ...")
    if given.transport == "stdio" and (given.host is not None or given.port is not None):
        parser.error(LISTENERS)
    level = given.log_level or env.get("MCP_SUBAGENTS_LOG_LEVEL", "").lower() or "warning"
    if level not in LEVELS:
        parser.error(f"MCP_SUBAGENTS_LOG_LEVEL: {level!r} is not one of {', '.join(LEVELS)}")
    given.log_level = level
    return given


def new_parser(name: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """A parser for the command of that name. It keeps the lines of both texts, and takes no option cut short."""
    return argparse.ArgumentParser(
        prog=f"mcp-subagents {name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def serve_parser() -> argparse.ArgumentParser:
    """What `serve` understands, and the command as a whole."""
    parser = argparse.ArgumentParser(
        prog="mcp-subagents",
        usage="%(prog)s [serve] [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=["serve", *COMMANDS],
        default="serve",
        metavar="serve",
        help="serve; may be left out",
    )
    add_serving(parser)
    return parser


def add_serving(parser: argparse.ArgumentParser) -> None:
    """The options of `serve`."""
    add_sources(parser)
    add_store(parser)
    parser.add_argument(
        "--transport",
        choices=["stdio", "http", "streamable-http", "sse"],
        metavar="NAME",
        help="stdio (the default), http for Streamable HTTP at /mcp, or sse for the older SSE at /sse beside it",
    )
    parser.add_argument(
        "--host", help=f"address to listen on; one that others can reach needs a token (default: {DEFAULT_HOST})"
    )
    parser.add_argument("--port", type=_port, help=f"port to listen on, 0 for any free one (default: {DEFAULT_PORT})")
    parser.add_argument(
        "--log-level",
        type=str.lower,
        choices=LEVELS,
        metavar="LEVEL",
        help="debug, info, warning (the default) or error; the log goes to standard error",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"mcp-subagents {version('mcp-subagents')}",
        help="say which version this is",
    )


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Where subagents and settings come from."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="subagents and settings, YAML or JSON (default: ./subagents.yaml, "
        "or subagents.yaml in the user's configuration directory)",
    )
    parser.add_argument(
        "--agents",
        metavar="WHERE",
        action="append",
        default=[],
        help="agent files of other apps: auto for those of the project and of the user, or a folder; may be repeated",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Where the tasks are."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help="where tasks are kept: sqlite:///FILE (default: a file in the user's data directory)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Whether a program reads it."""
    parser.add_argument("--json", action="store_true", help="JSON for programs")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return int(text)
