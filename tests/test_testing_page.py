"""What docs/testing.md says is true: its tests pass, its table is complete."""

import inspect
import re
import runpy
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from mcp_subagents import testing

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
[FILE] = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
TESTS = [(name, block) for block in BLOCKS for name in re.findall(r"^async def (test_\w+)", block, flags=re.MULTILINE)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project that the page talks about."""
    (tmp_path / "subagents.yaml").write_text(FILE, encoding="utf-8")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "letter.md").write_text("Dear reader,", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("name", "block"), TESTS, ids=[name for name, _ in TESTS])
async def test_a_test_on_the_page_passes(name: str, block: str, project: Path, tmp_path: Path):
    program = tmp_path / "test_block.py"
    program.write_text(block, encoding="utf-8")
    test: Callable[..., Awaitable[None]] = runpy.run_path(str(program))[name]
    fixtures = {"project": project, "tmp_path": tmp_path}
    with anyio.fail_after(20):
        await test(**{each: fixtures[each] for each in inspect.signature(test).parameters})


def test_all_of_the_page_is_looked_at():
    assert all("async def test_" in block for block in BLOCKS)
    assert len(BLOCKS) == PAGE.count("```python") > 5


def test_the_table_has_every_name_of_the_kit():
    named = [each for line in PAGE.splitlines() if line.startswith("| `") for each in line.split("|")[1].split(", ")]
    assert sorted(each.strip(" `") for each in named) == sorted(testing.__all__)


def test_the_page_links_only_to_files_that_exist():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
