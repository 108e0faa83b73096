"""Where tasks are kept, as people write it down."""

from pathlib import Path

from mcp_subagents.errors import ConfigError

SQLITE = "sqlite:///"


def located(store: object, *, beside: Path | None = None) -> str:
    """`store` as `sqlite:///FILE`, its home directory expanded; in a file, a path is relative to that file.

    Raises:
        ConfigError: there is no such kind of store. What was given is not repeated: it may hold a password.
    """
    if not isinstance(store, str) or not store.strip():
        raise ConfigError("must be sqlite:///FILE")
    if store.startswith("sqlite:") and not store.startswith(SQLITE):
        raise ConfigError("has three slashes: sqlite:///FILE, and four for an absolute path")
    kind, separator, _ = store.partition("://")
    if separator and kind in ("postgresql", "postgres"):
        raise ConfigError("PostgreSQL is not supported yet; use sqlite:///FILE")
    if separator and not store.startswith(SQLITE):
        raise ConfigError(f"there is no store of the kind {kind!r}; use sqlite:///FILE")
    name = store.removeprefix(SQLITE)
    if not name:
        raise ConfigError("must be sqlite:///FILE, with the name of a file")
    try:
        path = Path(name).expanduser()
    except RuntimeError as why:
        raise ConfigError("the home directory it names is not known") from why
    return f"{SQLITE}{beside.absolute().parent / path if beside is not None else path}"
