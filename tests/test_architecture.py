"""The map of DESIGN §3: imports point one way, each library has its door, no file grows too long."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "mcp_subagents"
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

ORDER = [
    *("errors", "types", "trees", "records", "telemetry", "moves", "branches", "redact", "texts"),
    *("config", "modes", "prompts", "delegation", "addresses", "shortening", "arguments", "views", "words"),
    *("history", "evidence", "verdicts", "faults", "answers", "failures", "retry", "resume"),
    *("store", "dispatch", "cancelling", "grace", "returns", "past", "ancestry", "running_time", "budget"),
    *("journal", "asking", "nesting", "demo", "parking", "model_addresses", "models", "probing", "outputs"),
    *("own_capability", "equipment", "agents", "runner"),
    *("transcripts", "waking", "housekeeping", "unfit", "standing", "looking", "fleet", "dispatching", "ending"),
    *("engine", "errand", "stopping", "server", "hosts", "doctor", "cli", "testing", "__main__", "__init__"),
]
"""A part imports only from parts before it."""

AGENTS = {
    *("history", "evidence", "verdicts", "faults", "answers", "failures", "retry", "resume"),
    *("returns", "past", "budget", "journal", "asking", "nesting", "parking", "model_addresses", "models", "probing"),
    *("outputs", "demo", "own_capability", "equipment", "agents", "runner", "transcripts", "testing", "running_time"),
}
DOORS = {
    "pydantic_ai": AGENTS,
    "pydantic_graph": AGENTS,
    "apsw": {"store"},
    "psycopg": {"store"},
    "procrastinate": {"dispatch"},
    "mcp": {"demo", "equipment", "server", "testing"},
    "fastmcp": {"equipment"},
}
"""The parts that may import a library."""

every_file = pytest.mark.parametrize("file", FILES)


def part(file: str) -> str:
    return file.removesuffix(".py").split("/")[0]


def running_code(file: str) -> Iterator[ast.AST]:
    """All nodes of a file but those under `if TYPE_CHECKING:`."""
    nodes: list[ast.AST] = [ast.parse(FILES[file].read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            nodes += node.orelse
        else:
            yield node
            nodes += ast.iter_child_nodes(node)


def imported(file: str) -> set[str]:
    """The modules a file imports, by their full names."""
    found: set[str] = set()
    for node in running_code(file):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "mcp_subagents":
            found |= {f"mcp_subagents.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def ours(file: str) -> set[str]:
    return {name.removeprefix("mcp_subagents.") for name in imported(file) if name.startswith("mcp_subagents.")}


@every_file
def test_a_part_imports_only_from_parts_before_it(file: str):
    before = ORDER[: ORDER.index(part(file))]
    assert {name.split(".")[0] for name in ours(file)} - {part(file)} <= set(before)


def test_modules_do_not_import_each_other_in_a_circle():
    names = {file: file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in FILES}
    list(TopologicalSorter({names[file]: ours(file) - {names[file]} for file in FILES}).static_order())


@every_file
def test_a_library_is_imported_only_at_its_door(file: str):
    libraries = {name.split(".")[0] for name in imported(file)}
    assert {library for library in libraries if part(file) not in DOORS.get(library, {part(file)})} == set()


@every_file
def test_a_file_holds_one_idea(file: str):
    assert len(FILES[file].read_text(encoding="utf-8").splitlines()) <= 400
    assert FILES[file].stem not in {"utils", "helpers", "manager"}


@every_file
def test_only_the_command_line_prints(file: str):
    names = {node.id for node in running_code(file) if isinstance(node, ast.Name)}
    assert "print" not in names or part(file) == "cli"
