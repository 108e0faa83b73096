"""Files whose text joins the instructions."""

from pathlib import Path

import pytest
from bench import at_work, ended, worker
from pydantic_ai.messages import ModelRequest

from mcp_subagents.agents import Roster
from mcp_subagents.config.places import confined
from mcp_subagents.equipment.context_files import MOST_IN_ALL, MOST_OF_ONE, context_of, require_context
from mcp_subagents.equipment.kits import Equipment
from mcp_subagents.errors import ConfigError
from mcp_subagents.testing import ScriptedModel


def instructions(model: ScriptedModel) -> str:
    request = model.requests[-1][0]
    assert isinstance(request, ModelRequest)
    return request.instructions or ""


async def test_the_files_are_in_the_instructions_as_they_are_when_a_task_begins(tmp_path: Path):
    (tmp_path / "house.md").write_text("Speak softly.", encoding="utf-8")
    model = ScriptedModel("one", "two", "three")
    async with at_work(worker(model=model, context_files=["house.md"]), base=tmp_path) as engine:
        await ended(engine)
        assert '<context_file name="house.md">\nSpeak softly.\n</context_file>' in instructions(model)
        (tmp_path / "house.md").write_text("Speak up.", encoding="utf-8")
        await ended(engine)
        assert "Speak up." in instructions(model)
        (tmp_path / "house.md").unlink()
        assert (await ended(engine)).result == "three"
    assert "[The context file 'house.md' cannot be read: There is no 'house.md'.]" in instructions(model)


def test_a_stored_definition_means_the_same_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "house.md").write_text("Speak softly.", encoding="utf-8")
    config = worker(model="test", context_files=["house.md"], workspace=".")
    stored = Roster([config], equipment=Equipment(base=tmp_path)).definition("worker")
    monkeypatch.chdir("/")
    compiled = Roster([]).compiled("worker", stored)
    assert "Speak softly." in context_of(compiled.config.get("context_files", []))
    assert compiled.config.get("workspace") == str(tmp_path)


def test_long_files_are_cut_and_that_is_said(tmp_path: Path):
    for number in range(5):
        (tmp_path / str(number)).write_text(str(number) * (MOST_OF_ONE + 1000), encoding="utf-8")
    text = context_of([confined(str(number), tmp_path) for number in range(5)])
    assert MOST_IN_ALL <= len(text) < MOST_IN_ALL + 1000
    assert f"[Cut: {MOST_OF_ONE} of {MOST_OF_ONE + 1000} bytes.]" in text
    assert f"[Cut: 0 of {MOST_OF_ONE + 1000} bytes.]" in text


@pytest.mark.parametrize(
    ("path", "told"),
    [("none.md", "There is no 'none.md'."), ("../b/x.md", "outside the folder"), ("link.md", "outside the folder")],
    ids=["missing", "outside", "outside by a link"],
)
def test_a_file_that_cannot_be_had_is_a_mistake_at_start(tmp_path: Path, path: str, told: str):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.md").write_text("not yours", encoding="utf-8")
    (tmp_path / "a" / "link.md").symlink_to("../b/x.md")
    with pytest.raises(ConfigError) as caught:
        require_context("worker", [confined(path, tmp_path / "a")])
    assert told in str(caught.value)
    assert "not yours" not in context_of([confined(path, tmp_path / "a")])


def test_an_absolute_path_is_the_operators_own_word(tmp_path: Path):
    (tmp_path / "x.md").write_text("Known everywhere.", encoding="utf-8")
    assert "Known everywhere." in context_of([confined(str(tmp_path / "x.md"), Path("/elsewhere"))])
