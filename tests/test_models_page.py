"""What docs/models.md says is true: its table is complete, its files load, its code runs."""

import re
import runpy
from pathlib import Path

import pytest

from mcp_subagents.config.environment import load
from mcp_subagents.config.providers import PROVIDERS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
FILES = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_table_has_every_key_with_its_model():
    rows = [re.findall(r"`([^`]+)`", line) for line in PAGE.splitlines() if line.startswith("| `")]
    told = [(key, keys[-1]) for keys in rows for key in keys[:-1]]
    assert told == [(each.variable, each.model) for each in PROVIDERS]


@pytest.mark.parametrize("text", FILES)
def test_a_file_on_the_page_can_be_loaded(text: str, tmp_path: Path):
    (tmp_path / "subagents.yaml").write_text(text, encoding="utf-8")
    assert load(tmp_path / "subagents.yaml", {}).subagents


@pytest.mark.parametrize(("code", "output"), BLOCKS)
def test_python_on_the_page_prints_what_it_shows(
    code: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    program = tmp_path / "block.py"
    program.write_text(code, encoding="utf-8")
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out == output


def test_all_of_the_page_is_looked_at():
    assert (len(FILES), len(BLOCKS)) == (PAGE.count("```yaml"), PAGE.count("```python"))
    assert FILES
    assert BLOCKS


def test_the_readme_leads_here():
    assert "(docs/models.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
