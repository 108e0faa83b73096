"""The commands beside `serve`, and where each of them lives."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast


class Module(Protocol):
    """What the module of a command offers."""

    def parser(self) -> argparse.ArgumentParser:
        """What the command understands, after its name."""
        ...

    def run(self, arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
        """Do it, and return the exit code. Raises: `SubagentsError`, which is told with exit code 2."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it does in a line, and the module that does it, loaded when it is called."""

    purpose: str
    module: str

    def load(self) -> Module:
        """Its module. Not before it is called for: `serve` shall not pay for what people look at."""
        return cast(Module, import_module(f"mcp_subagents.cli.{self.module}"))


COMMANDS: Mapping[str, Command] = {
    "agents": Command("the subagents of a server here, and what became of agent files", "agents"),
    "demo": Command("see everything happen, with no key and no network", "demo"),
    "install": Command("add this server to the apps on this machine", "install"),
    "uninstall": Command("take it out of them again", "uninstall"),
    "run": Command("delegate a task from here, and wait for its result", "run"),
    "tasks": Command("look at tasks, answer them, steer them, stop them", "tasks"),
    "doctor": Command("whatever would keep it from working here, and what to do about it", "doctor"),
    "schema": Command("the JSON schema of subagents.yaml, for editors", "schema"),
    "completion": Command("what your shell needs to complete all this", "completion"),
}


def listed() -> str:
    """The commands, a line each, as `--help` shows them."""
    width = max(len(name) for name in COMMANDS)
    return "\n".join(f"  {name:<{width}}  {command.purpose}" for name, command in COMMANDS.items())
