"""Whether a JSON Schema can describe the result of a subagent. Loads its library only when there is a schema."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from mcp_subagents.errors import ConfigError

Schema = Mapping[str, Any]


def require_result_schema(schema: object) -> None:
    """Accept a JSON Schema of an object that stands by itself.

    Raises:
        ConfigError: it is no schema, not of an object, or points outside of itself or in circles.
    """
    if not isinstance(schema, Mapping):
        raise ConfigError(f"output_schema must be a JSON Schema, not {schema!r}")
    whole = cast("Schema", schema)
    if whole.get("type") != "object":
        raise ConfigError(f"output_schema must be of type object (`type: object`), not {whole.get('type')!r}")
    _require_valid(whole)
    _follow(whole, whole, ("#",), ("#",))


def unrolled(schema: Schema) -> dict[str, Any]:
    """What a model is shown of a schema: itself, or if it is of a form that contains itself, that form once.

    Where the form would begin again there is a word that says so, since models are not shown schemas without end. What
    a model gives is held against the whole schema all the same.
    """
    if not _is_recursive(schema, schema, ("#",)):
        return dict(schema)
    return _inlined(schema, schema, ("#",))


_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value is a mapping of names, which are no keywords themselves."""
_SAME_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords that say more of a value, and not of a part of it."""
_POINTERS = frozenset({"$ref", "$dynamicRef"})
_DEFINED = frozenset({"$defs", "definitions"})
"""What is defined counts where it is pointed at."""


def _pointer(schema: Schema) -> str | None:
    found = schema.get("$ref", schema.get("$dynamicRef"))
    return found if isinstance(found, str) else None


def _children(schema: Schema) -> Iterator[tuple[str, object]]:
    """The schemas in a schema, each with its keyword."""
    for key, value in schema.items():
        if key in _DEFINED:
            continue
        if key in _NAMED and isinstance(value, Mapping):
            yield from ((key, each) for each in cast("Schema", value).values())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield from ((key, each) for each in cast("Sequence[object]", value))
        else:
            yield key, value


def _is_recursive(node: object, whole: Schema, above: tuple[str, ...]) -> bool:
    if not isinstance(node, Mapping):
        return False
    schema = cast("Schema", node)
    if (pointer := _pointer(schema)) is not None and (
        pointer in above or _is_recursive(_found(pointer, whole), whole, (*above, pointer))
    ):
        return True
    return any(_is_recursive(child, whole, above) for _, child in _children(schema))


def _inlined(node: Any, whole: Schema, above: tuple[str, ...], *, names: bool = False) -> Any:
    if isinstance(node, list):
        return [_inlined(each, whole, above) for each in cast("list[object]", node)]
    if not isinstance(node, Mapping):
        return node
    schema = cast("Schema", node)
    if names:
        return {key: _inlined(each, whole, above) for key, each in schema.items()}
    rest = {
        key: _inlined(each, whole, above, names=key in _NAMED)
        for key, each in schema.items()
        if key not in _POINTERS | _DEFINED
    }
    if (pointer := _pointer(schema)) is None:
        return rest
    target: Any = _found(pointer, whole)
    if pointer not in above:
        return {**_inlined(target, whole, (*above, pointer)), **rest}
    name = pointer.rpartition("/")[2].removeprefix("#") or target.get("title", "the whole result")
    again: dict[str, Any] = {"type": target["type"]} if "type" in target else {}
    return {**again, "description": f"Once more of the form of {name}, which contains itself.", **rest}


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


def _follow(node: object, whole: Schema, above: tuple[str, ...], here: tuple[str, ...]) -> None:
    """Go through `node`, and through what it points at; `here` are the pointers that have led to this very place."""
    if not isinstance(node, Mapping):
        return
    schema = cast("Schema", node)
    if (pointer := _pointer(schema)) is not None:
        if pointer in here:
            raise ConfigError(f"output_schema goes in circles: {pointer!r} is defined by itself alone")
        target = _found(pointer, whole)
        if pointer not in above:
            _follow(target, whole, (*above, pointer), (*here, pointer))
    for key, child in _children(schema):
        _follow(child, whole, above, here if key in _SAME_PLACE else ())


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
