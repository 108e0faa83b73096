"""Whether a JSON Schema can describe the result of a subagent. Loads its library only when there is a schema."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from mcp_subagents.errors import ConfigError

Schema = Mapping[str, Any]


def require_result_schema(schema: object) -> None:
    """Accept a JSON Schema of an object that stands by itself.

    Raises:
        ConfigError: it is no schema, not of an object, or points outside of itself or back at itself.
    """
    if not isinstance(schema, Mapping):
        raise ConfigError(f"output_schema must be a JSON Schema, not {schema!r}")
    whole = cast("Schema", schema)
    if whole.get("type") != "object":
        raise ConfigError(f"output_schema must be of type object (`type: object`), not {whole.get('type')!r}")
    _require_valid(whole)
    _follow(whole, whole, ())


def _require_valid(schema: Schema) -> None:
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for  # pyright: ignore[reportUnknownVariableType]  # it has no types

    try:
        kind: Any = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
    except SchemaError as why:
        where = ".".join(str(step) for step in why.absolute_path)
        at = f" at {where}" if where else ""
        raise ConfigError(f"output_schema is not valid JSON Schema{at}: {why.message}") from why


def _follow(node: object, whole: Schema, above: tuple[str, ...]) -> None:
    """Go through `node`, and through what it points at."""
    if isinstance(node, Mapping):
        schema = cast("Schema", node)
        pointer = schema.get("$ref", schema.get("$dynamicRef"))
        if isinstance(pointer, str):
            if pointer in above:
                raise ConfigError(f"output_schema refers back to itself ({pointer!r}), which models are not asked for")
            _follow(_found(pointer, whole), whole, (*above, pointer))
        # What is defined counts where it is pointed at.
        children: Iterator[object] = (value for key, value in schema.items() if key not in ("$defs", "definitions"))
        for child in children:
            _follow(child, whole, above)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for child in cast("Sequence[object]", node):
            _follow(child, whole, above)


def _found(pointer: str, whole: Schema) -> object:
    if not pointer.startswith("#"):
        raise ConfigError(f"output_schema refers to {pointer!r}; it may refer only to itself (`#/$defs/...`)")
    node: Any = whole
    for step in pointer.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, Mapping) or key not in node:
            raise ConfigError(f"output_schema refers to {pointer!r}, which is not in it")
        node = cast("Schema", node)[key]
    return cast("object", node)
