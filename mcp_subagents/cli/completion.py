"""`mcp-subagents completion`: what a shell needs to complete commands, options and files."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import cast

from mcp_subagents.cli.arguments import add_serving, new_parser
from mcp_subagents.cli.commands import COMMANDS

DESCRIPTION = "Print what your shell needs to complete mcp-subagents: its commands, options, choices and files."

EPILOG = """\
to install it, once:
  bash        mkdir -p ~/.local/share/bash-completion/completions
              mcp-subagents completion bash \\
                > ~/.local/share/bash-completion/completions/mcp-subagents
  zsh         mkdir -p ~/.zfunc
              mcp-subagents completion zsh > ~/.zfunc/_mcp-subagents
              and in ~/.zshrc, before compinit: fpath+=~/.zfunc
  fish        mcp-subagents completion fish \\
                > ~/.config/fish/completions/mcp-subagents.fish
  tcsh        mcp-subagents completion tcsh >> ~/.tcshrc
  powershell  mcp-subagents completion powershell >> $PROFILE

or in the shell you are in: eval "$(mcp-subagents completion bash)"
"""

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_FILES = {"--config", "--store", "path"}
_FOLDERS = {"--agents"}


def parser() -> argparse.ArgumentParser:
    """What `completion` understands."""
    command = new_parser("completion", DESCRIPTION, EPILOG)
    command.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="the shell that is to complete")
    return command


def run(arguments: argparse.Namespace, _env: Mapping[str, str]) -> int:
    """Print it."""
    import shtab  # it has no types that could be checked, and nobody else needs it

    tree = whole()
    for action in _actions(tree):
        names = {*action.option_strings, action.dest}
        if names & _FILES:
            action.complete = shtab.FILE  # pyright: ignore[reportAttributeAccessIssue]  # that is how shtab is told
        elif names & _FOLDERS:
            action.complete = shtab.DIRECTORY  # pyright: ignore[reportAttributeAccessIssue]  # the same
    sys.stdout.write(shtab.complete(tree, arguments.shell))
    return 0


def whole() -> argparse.ArgumentParser:
    """Everything that the command understands, as one tree: `serve`, which may be left out, beside the others."""
    tree = argparse.ArgumentParser(prog="mcp-subagents", allow_abbrev=False)
    add_serving(tree)
    below = tree.add_subparsers(dest="command")
    add_serving(below.add_parser("serve", help="serve an app; may be left out"))
    for name, command in COMMANDS.items():
        below.add_parser(name, help=command.purpose, parents=[command.load().parser()], add_help=False)
    return tree


def _actions(tree: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All options and arguments, of all commands."""
    for action in tree._actions:  # pyright: ignore[reportPrivateUsage]  # argparse shows them to nobody else
        yield action
        below: object = action.choices
        if isinstance(below, dict):
            for each in cast("dict[str, argparse.ArgumentParser]", below).values():
                yield from _actions(each)
