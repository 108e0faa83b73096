"""What is stored with a task: its subagent, and all whom that may reach by delegating, so that no other file counts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig

_DELEGATES = "delegates"
"""Beside the keys of the subagent itself; a definition of the time before delegates were stored has none."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A subagent among those that it, and they, may delegate to."""

    name: str
    subagents: Mapping[str, SubAgentConfig]

    @classmethod
    def of(cls, name: str, known: Mapping[str, SubAgentConfig], close: "Close | None" = None) -> "Definition":
        """The one that is `known` by that name with all whom it may reach, each as `close` makes it."""
        found: dict[str, SubAgentConfig] = {}
        todo = [name]
        while todo:
            each = todo.pop()
            if each in known and each not in found:
                found[each] = known[each] if close is None else close(known[each])
                todo += known[each].get("subagents") or ()
        return cls(name, found)

    @classmethod
    def loaded(cls, text: str) -> "Definition":
        """The one that was dumped. Raises: `pydantic.ValidationError`."""
        data: dict[str, Any] = json.loads(text)
        others: dict[str, Any] = data.pop(_DELEGATES, {})
        found = [SubAgentSpec.model_validate(each) for each in (data, *others.values())]
        return cls(found[0].name, {spec.name: spec.to_config() for spec in found})

    def dumped(self) -> str:
        """The same as JSON. Raises: `pydantic.ValidationError`, if it holds what no file can."""
        data = _plain(self.config)
        if self.config.get("subagents"):
            others = {name: _plain(each) for name, each in self.subagents.items() if name != self.name}
            data = {**data, _DELEGATES: others}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

    @property
    def config(self) -> SubAgentConfig:
        return self.subagents[self.name]


Close = Callable[[SubAgentConfig], SubAgentConfig]
"""Makes of a subagent one that means the same wherever it is run."""


def _plain(config: SubAgentConfig) -> dict[str, Any]:
    return SubAgentSpec.from_config(config).model_dump(mode="json", exclude_none=True)
