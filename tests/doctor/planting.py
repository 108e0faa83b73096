"""How problems are planted, and what `mcp-subagents doctor` is to say of them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

TOOLBENCH = str(Path(__file__).parent.parent / "equipment/toolbench.py")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where problems are planted: an empty home, which is also where the command is run."""

    home: Path
    monkeypatch: pytest.MonkeyPatch
    names: dict[str, object]
    """What stands for what in the lines that are expected."""
    keep: Callable[[AbstractContextManager[object]], object]
    """Keeps something open until the test ends."""

    def put(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def configure(self, **said: object) -> None:
        self.put("subagents.yaml", yaml.safe_dump(said))

    def set(self, name: str, value: str) -> None:
        self.monkeypatch.setenv(name, value)


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A planted problem."""

    check: str
    plant: Callable[[Ground], object]
    says: str
    """The line, from its level on; `{home}` and `{python}` stand for what they are."""
    fix: str
    arguments: tuple[str, ...] = ()
    slow: bool = False

    @property
    def code(self) -> int:
        return 1 if self.says.startswith("problem") else 0

    def lines(self, names: Mapping[str, object]) -> tuple[str, str]:
        level, _, what = _filled(self.says, names).partition(" ")
        symbol = {"problem": "\N{BALLOT X}", "warning": "!"}[level]
        return (
            f"{symbol} {level:<7}  {self.check:<6}  {what}",
            f"{'':9}  {'fix':<6}  {_filled(self.fix, names)}",
        )


def _filled(text: str, names: Mapping[str, object]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


Plants = Mapping[str, Plant]
