"""Where things are that a file names, as text that means the same wherever it is read."""

from pathlib import Path

import pytest

from mcp_subagents.config.places import Inside, anchored, confined, file_at, folder_at, within

HERE = Path("/here")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/a.md", "/here/./docs/a.md"),
        ("./a.md", "/here/./a.md"),
        ("docs/./a.md", "/here/./docs/a.md"),
        ("../a.md", "/here/./../a.md"),
        ("/there/a.md", "/there/a.md"),
        ("/there/./docs/a.md", "/there/./docs/a.md"),
        ("~nobody-has-this-name/a.md", "/here/~nobody-has-this-name/a.md"),
    ],
    ids=["below", "beside", "with a seam of its own", "above", "absolute", "confined already", "of a user unknown"],
)
def test_a_relative_name_is_confined_to_its_folder_and_an_absolute_one_is_not(name: str, text: str):
    assert confined(name, HERE) == text
    assert confined(text, Path("/elsewhere")) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("a", "/here/a"), ("a/./b", "/here/a/b"), ("/there/a", "/there/a"), ("/there/./a", "/there/./a"), (".", "/here")],
    ids=["below", "with a seam of its own", "absolute", "confined already", "itself"],
)
def test_a_name_that_may_lead_anywhere_is_seen_from_its_folder(name: str, text: str):
    assert anchored(name, HERE) == text


@pytest.mark.parametrize(
    "place",
    [Inside(Path("/a"), "b/c"), Inside(Path("/a")), Inside(Path("/"), "b"), Inside(Path("/a"), "../b")],
    ids=["below", "itself", "below the root", "above"],
)
def test_a_place_that_was_written_down_is_the_same_again(place: Inside):
    assert folder_at(str(place)) == place


def test_a_file_without_a_seam_is_in_its_own_folder():
    assert file_at("/a/b/c.md") == Inside(Path("/a/b"), "c.md")
    assert file_at("/a/./b/c.md") == Inside(Path("/a"), "b/c.md")
    assert file_at("/./c.md") == Inside(Path("/"), "c.md")


def test_a_place_within_a_folder_is_told_by_where_it_leads(tmp_path: Path):
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "out").symlink_to(tmp_path)
    (project / "in").symlink_to("docs")
    (tmp_path / "by-link").symlink_to(project)
    found = {
        name: within(name, project)
        for name in ("docs", "docs/./a", "in", ".", str(project / "docs"), str(tmp_path / "by-link" / "in"))
    }
    assert {name: place and place.below for name, place in found.items()} == {
        "docs": "docs",
        "docs/./a": "docs/a",
        "in": "in",
        ".": "",
        str(project / "docs"): "docs",
        str(tmp_path / "by-link" / "in"): "docs",
    }
    assert {place and place.folder for place in found.values()} == {project}
    for name in ("..", "out", "out/x", "docs/../../x", "/etc", "/project/./docs", f"{project}/./../x", "~", "a\0b"):
        assert within(name, project) is None, name
