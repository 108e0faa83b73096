"""A workspace: what its tools do, and that nothing gets out of it."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench import at_work, ended, returned, worker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.config.places import Inside
from mcp_subagents.equipment import file_reading
from mcp_subagents.equipment.file_reading import FileReader
from mcp_subagents.equipment.file_writing import FileWriter
from mcp_subagents.equipment.folders import CAN_WALK, Folder, Refused
from mcp_subagents.testing import ScriptedModel

SECRET = "the secret of the house next door"


class House:
    """A workspace with a neighbour."""

    def __init__(self, top: Path, *, can_walk: bool = CAN_WALK) -> None:
        self.outside = top / "outside"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(SECRET, encoding="utf-8")
        self.path = top / "workspace"
        (self.path / "src" / "deep").mkdir(parents=True)
        (self.path / "src" / "a.py").write_text("one\ntwo\nthree\n", encoding="utf-8")
        (self.path / "src" / "deep" / "b.py").write_text("two\n", encoding="utf-8")
        (self.path / "inside.link").symlink_to("src/a.py")
        (self.path / "around.link").symlink_to(self.path / "src")
        (self.path / "up.link").symlink_to("..")
        (self.path / "out.link").symlink_to(self.outside)
        (self.path / "secret.link").symlink_to("../outside/secret.txt")
        (self.path / "src" / "deep" / "up.link").symlink_to("../../../outside")
        (self.path / "loop.link").symlink_to("loop.link")
        folder = Folder(Inside(self.path), can_walk=can_walk)
        self.reader, self.writer = FileReader(folder), FileWriter(folder)

    def everything_outside(self) -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in self.outside.rglob("*") if each.is_file()}


@pytest.fixture(params=[CAN_WALK, False], ids=["walked", "resolved"])
def house(tmp_path: Path, request: pytest.FixtureRequest) -> House:
    return House(tmp_path, can_walk=request.param)


def test_a_file_is_read_whole_or_by_the_page(house: House):
    assert house.reader.read_file("src/a.py") == "one\ntwo\nthree"
    assert house.reader.read_file("src/a.py", 2, 1) == "two\n[Lines 2 to 2 of 3. The next ones: offset=3.]"
    assert house.reader.read_file("src/a.py", 3) == "three\n[Lines 3 to 3 of 3.]"
    assert house.reader.read_file("src/a.py", 9) == "[There is no line 9: the file has 3 lines.]"


def test_a_large_file_is_cut_to_pages_and_says_how_much_there_is(house: House):
    (house.path / "large").write_text("\n".join(["x" * 99] * 5000), encoding="utf-8")
    page = house.reader.read_file("large", limit=5000)
    assert len(page) < 70_000
    assert page.splitlines()[-1].startswith("[Lines 1 to ")
    assert "of 5000. The next ones: offset=" in page.splitlines()[-1]


def test_a_very_long_line_is_cut(house: House):
    (house.path / "long").write_text("x" * 3_000_000 + "\nend", encoding="utf-8")
    first, second = house.reader.read_file("long").splitlines()
    assert (len(first) < 2100, first.endswith("[line cut]"), second) == (True, True, "end")


def test_a_directory_is_listed_by_the_page(house: House):
    for number in range(25):
        (house.path / "src" / "deep" / f"{number:02}.txt").touch()
    assert house.reader.list_files("src").splitlines() == ["a.py", "deep/", "[2 of 2 entries.]"]
    page = house.reader.list_files("src/deep", offset=10, limit=5).splitlines()
    assert page == [*(f"{number}.txt" for number in range(10, 15)), "[5 of 27 entries. The next ones: offset=15.]"]


def test_files_are_found_by_a_pattern_and_links_are_not_followed(house: House):
    assert house.reader.list_files(pattern="*.py").splitlines() == ["src/a.py", "src/deep/b.py", "[2 of 2 entries.]"]
    assert house.reader.list_files(pattern="**/b.py").splitlines()[0] == "src/deep/b.py"
    assert house.reader.list_files(pattern="secret.txt").splitlines() == ["[0 of 0 entries.]"]


def test_a_text_is_found_with_its_place(house: House):
    found = ["src/a.py:2: two", "src/deep/b.py:1: two", "[2 lines found.]"]
    assert house.reader.search_files("two").splitlines() == found
    assert house.reader.search_files("TWO", "src/a.py", ignore_case=True).splitlines()[0] == "src/a.py:2: two"
    assert house.reader.search_files("secret").splitlines() == ["[0 lines found.]"]
    assert "narrow it down" in house.reader.search_files("t", limit=1)


def test_a_search_ends_in_time_and_says_so(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_reading, "_SEARCH_SECONDS", -1.0)
    assert "Stopped after" in house.reader.search_files("two")


def test_a_search_leaves_out_what_is_no_text(house: House):
    (house.path / "binary").write_bytes(b"two\0two")
    assert "1 files were left out" in house.reader.search_files("two")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("read_file", ["nothing"], "There is no 'nothing'."),
        ("read_file", ["src"], "'src' is a directory"),
        ("read_file", ["binary"], "'binary' is a binary file"),
        ("list_files", ["src/a.py"], "not a directory"),
        ("search_files", [""], "Give some text to look for"),
        ("search_files", ["x", "nothing"], "There is no 'nothing'."),
        ("edit_file", ["src/a.py", "four", "4"], "does not have that text"),
        ("edit_file", ["src/a.py", "e", "E"], "has that text 3 times"),
        ("edit_file", ["src/a.py", "", "E"], "`old` is empty"),
        ("edit_file", ["latin", "a", "b"], "not text in UTF-8"),
        ("write_file", ["src", "x"], "not an ordinary file"),
        ("write_file", [".", "x"], "directory"),
        ("write_file", ["x", "\ud800"], "half a character"),
    ],
    ids=[
        *("no file", "a directory", "binary", "no directory", "nothing to find", "nowhere to find"),
        *("nothing to edit", "an ambiguous edit", "an empty edit", "no text", "over a directory", "over itself"),
        "no character",
    ],
)
def test_what_cannot_be_done_is_told_in_words(house: House, tool: str, arguments: list[str], told: str):
    (house.path / "binary").write_bytes(b"\0")
    (house.path / "latin").write_bytes(b"caf\xe9 a")
    with pytest.raises(Refused) as caught:
        getattr(house.writer if "write" in tool or "edit" in tool else house.reader, tool)(*arguments)
    assert told in str(caught.value)


def in_time(act: Callable[[], str], pipe: Path) -> str:
    """What `act` returns or raises; the test fails if it waits for the other end of `pipe`."""
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(act)
        try:
            return done.result(5)
        except TimeoutError:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # so that the thread can end
            pytest.fail("it waits for somebody at the other end of the pipe")


def test_a_pipe_or_a_socket_is_refused_and_nobody_waits_for_it(house: House):
    os.mkfifo(house.path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(house.path / "socket"))
        for name in ("pipe", "socket"):
            for act in (partial(house.reader.read_file, name), partial(house.writer.write_file, name, "x")):
                with pytest.raises(Refused, match="not an ordinary file"):
                    in_time(act, house.path / "pipe")


def test_a_file_is_written_whole_and_keeps_its_mode(house: House):
    assert house.writer.write_file("new/dir/x.sh", "one\n") == "Wrote new/dir/x.sh (4 bytes)."
    (house.path / "new/dir/x.sh").chmod(0o750)
    assert house.writer.write_file("new/dir/x.sh", "two\n") == "Replaced new/dir/x.sh (4 bytes)."
    assert (house.path / "new/dir/x.sh").read_text(encoding="utf-8") == "two\n"
    assert (house.path / "new/dir/x.sh").stat().st_mode & 0o777 == 0o750
    assert [each.name for each in (house.path / "new/dir").iterdir()] == ["x.sh"]


def test_a_file_that_is_being_written_is_not_listed_before_it_is_whole(house: House):
    (house.path / "src" / ".0123456789abcdef.tmp").write_text("two, but not yet whole", encoding="utf-8")
    assert house.reader.list_files("src") == "a.py\ndeep/\n[2 of 2 entries.]"
    assert ".tmp" not in house.reader.list_files(".", "*")
    assert ".tmp" not in house.reader.search_files("two")


def test_an_edit_replaces_one_place_or_all(house: House):
    assert house.writer.edit_file("src/a.py", "two", "2") == "Edited src/a.py: 1 place."
    assert house.writer.edit_file("src/a.py", "e", "E", replace_all=True) == "Edited src/a.py: 3 places."
    assert (house.path / "src/a.py").read_text(encoding="utf-8") == "onE\n2\nthrEE\n"


def test_an_edit_keeps_the_line_ends_of_the_file(house: House):
    (house.path / "dos").write_bytes(b"one\r\ntwo\r\n")
    house.writer.edit_file("dos", "one\ntwo", "1\n2")
    assert (house.path / "dos").read_bytes() == b"1\r\n2\r\n"


def test_links_that_stay_inside_are_followed(house: House):
    assert house.reader.read_file("inside.link") == "one\ntwo\nthree"
    assert house.reader.read_file("around.link/deep/../a.py") == "one\ntwo\nthree"
    assert house.reader.read_file(str(house.path / "src" / "a.py")) == "one\ntwo\nthree"
    house.writer.write_file("inside.link", "new")
    assert (house.path / "inside.link").is_symlink()
    assert (house.path / "src" / "a.py").read_text(encoding="utf-8") == "new"


STEPS = ["..", ".", "", "src", "deep", "up.link", "out.link", "around.link", "outside", "workspace", "...", "~", "\\.."]
ENDS = ["secret.txt", "secret.link", "loop.link", "a.py", "etc/passwd", "\0", "secret.txt\0.py", "..", "", "%2e%2e"]


def way(start: str, steps: list[str], end: str) -> str:
    return start + "/".join([*steps, end])


escapes = st.builds(
    way,
    st.sampled_from(["", "/", "//", "./", "../", "/proc/self/root/", "/proc/self/cwd/", "{top}/", "{ws}/", "{ws}/../"]),
    st.lists(st.sampled_from(STEPS), max_size=6),
    st.sampled_from(ENDS),
)


@pytest.mark.slow
@pytest.mark.parametrize("can_walk", [CAN_WALK, False], ids=["walked", "resolved"])
@given(escape=st.one_of(escapes, st.text(max_size=40)))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_leads_outside(tmp_path_factory: pytest.TempPathFactory, can_walk: bool, escape: str):
    top = tmp_path_factory.mktemp("escape")
    house = House(top, can_walk=can_walk)
    path = escape.replace("{top}", str(top)).replace("{ws}", str(house.path))
    before = house.everything_outside()
    looking: list[Callable[[], str]] = [
        lambda: house.reader.read_file(path),
        lambda: house.reader.list_files(path),
        lambda: house.reader.list_files(path, pattern="*"),
        lambda: house.reader.search_files("secret", path),
    ]
    writing: list[Callable[[], str]] = [
        lambda: house.writer.edit_file(path, "secret", "stolen"),
        lambda: house.writer.write_file(path, "planted"),
    ]
    for look in looking:
        with suppress(Refused):
            assert "secret.txt" not in (told := look())
            assert SECRET not in told
    for write in writing:
        with suppress(Refused):
            write()
    assert house.everything_outside() == before
    assert sorted(each.name for each in top.iterdir()) == ["outside", "workspace"]


@pytest.mark.skipif(not CAN_WALK, reason="this platform cannot walk")
def test_a_directory_that_becomes_a_link_while_it_is_walked_leads_nowhere(tmp_path: Path):
    house = House(tmp_path)
    folder = Folder(Inside(house.path))
    with folder.spot("src/secret.txt") as spot:
        # The walk is over; now somebody puts a link to the outside where the directory was.
        (house.path / "src").rename(house.path / "gone")
        (house.path / "src").symlink_to(house.outside)
        with pytest.raises(Refused, match="There is no"):
            spot.read()
        spot.replace(b"planted")
    assert (house.outside / "secret.txt").read_text(encoding="utf-8") == SECRET
    assert (house.path / "gone" / "secret.txt").read_bytes() == b"planted"


@pytest.mark.skipif(not CAN_WALK, reason="this platform cannot walk")
def test_a_file_that_becomes_a_link_before_it_is_opened_is_not_followed(tmp_path: Path):
    house = House(tmp_path)
    with Folder(Inside(house.path)).spot("src/a.py") as spot:
        (house.path / "src/a.py").unlink()
        (house.path / "src/a.py").symlink_to(house.outside / "secret.txt")
        with pytest.raises(Refused, match="has become a link"):
            spot.read()


def test_an_edit_of_a_file_that_somebody_changed_meanwhile_is_refused(house: House):
    with Folder(Inside(house.path)).spot("src/a.py") as spot:
        before = spot.stat()
        (house.path / "src/a.py").write_text("theirs", encoding="utf-8")
        with pytest.raises(Refused, match="changed by somebody else"):
            spot.replace(b"ours", unless_changed=before)
    assert (house.path / "src/a.py").read_text(encoding="utf-8") == "theirs"
    assert [each.name for each in (house.path / "src").iterdir() if each.suffix == ".tmp"] == []


async def test_a_subagent_looks_into_its_workspace_and_is_refused_what_is_outside(tmp_path: Path):
    House(tmp_path)
    model = ScriptedModel(
        [ToolCallPart("read_file", {"path": "src/a.py"}), ToolCallPart("read_file", {"path": "../outside/secret.txt"})],
        ToolCallPart("write_file", {"path": "x", "content": "y"}),
        "done",
    )
    async with at_work(worker(model=model, workspace="workspace"), base=tmp_path) as engine:
        task = await ended(engine)
    text, refused, unknown = returned(model)
    assert (task.result, text, refused) == ("done", "one\ntwo\nthree", "That path is outside the folder.")
    assert "Unknown tool name: 'write_file'" in str(unknown)


async def test_a_subagent_that_may_write_writes(tmp_path: Path):
    model = ScriptedModel(ToolCallPart("write_file", {"path": "a/b.txt", "content": "hello"}), "done")
    place: Any = {"path": str(tmp_path), "read_only": False}
    async with at_work(worker(model=model, workspace=place)) as engine:
        await ended(engine)
    assert (tmp_path / "a" / "b.txt").read_text(encoding="utf-8") == "hello"
