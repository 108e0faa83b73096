"""A Dockerfile as a list of instructions, in stages."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `RUN`, and what follows it."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """What follows, in its JSON form or as words. Flags such as `--from=build` come first."""
        return json.loads(self.text) if self.text.startswith("[") else self.text.split()


def instructions(text: str) -> Iterator[Instruction]:
    """Comments and continued lines are dealt with as Docker does."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield Instruction(name.upper(), rest.strip())


def stages(text: str) -> list[list[Instruction]]:
    """The instructions of each stage, from its FROM on. What comes before the first is the first of the list."""
    found: list[list[Instruction]] = [[]]
    for each in instructions(text):
        if each.name == "FROM":
            found.append([])
        found[-1].append(each)
    return found


def of(stage: Sequence[Instruction], name: str) -> list[Instruction]:
    return [each for each in stage if each.name == name]


def environment(stage: Sequence[Instruction]) -> dict[str, str]:
    """What ENV sets, each as NAME=value."""
    return {word.partition("=")[0]: word.partition("=")[2] for each in of(stage, "ENV") for word in each.words}
