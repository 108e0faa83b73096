"""What a check has found: a value, and what follows from many of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mcp_subagents.redact import redact
from mcp_subagents.texts import plain


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    """Everything works, and somebody should look at this."""
    PROBLEM = "problem"
    """Something will not work."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that a check has found. Its texts are fit to be shown: no secrets, no escapes, one line each."""

    check: str
    """The subject, such as `store`."""
    level: Level
    what: str
    fix: str = ""
    """What to do about it; there is one unless all is well."""


def fine(check: str, what: str) -> Finding:
    return Finding(check=check, level=Level.OK, what=shown(what))


def warning(check: str, what: str, fix: str) -> Finding:
    return Finding(check=check, level=Level.WARNING, what=shown(what), fix=shown(fix))


def problem(check: str, what: str, fix: str) -> Finding:
    return Finding(check=check, level=Level.PROBLEM, what=shown(what), fix=shown(fix))


def shown(text: str) -> str:
    """`text` in one line, without secrets, escapes and control characters."""
    return " ".join(redact(plain(text)).split())


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all findings come to."""

    problems: int
    warnings: int
    next_step: str
    """The fix of what matters most; empty if there is nothing to do."""

    @property
    def exit_code(self) -> int:
        """0 if nothing stands in the way, 1 if something will not work."""
        return 1 if self.problems else 0


def verdict_on(findings: Sequence[Finding]) -> Verdict:
    """Problems come before warnings; of the same level, what others depend on comes first, as the checks do."""
    found = counted(findings)
    first = next((each for level in (Level.PROBLEM, Level.WARNING) for each in findings if each.level is level), None)
    return Verdict(found[Level.PROBLEM], found[Level.WARNING], "" if first is None else first.fix)


def counted(findings: Iterable[Finding]) -> Mapping[Level, int]:
    levels = [each.level for each in findings]
    return {level: levels.count(level) for level in Level}
