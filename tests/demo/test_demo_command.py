"""`mcp-subagents demo` as a process: what it shows, that it is true, and that nothing of it stays behind."""

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-W", "error", "-m", "mcp_subagents", "demo"]
LONGEST = 100
"""Seconds, on a machine that has other things to do."""

pytestmark = pytest.mark.slow

PROMISED = [
    "mcp-subagents demo",
    "The model in here is a script",
    "1 · Three tasks at once",
    "host      task → researcher: What do users complain about?",
    "gateway   All three are here at once.",
    "subagent  Login is slow: 14 reports.",
    "2 · A question, and its answer",
    "subagent  asks: Who will read it, users or developers?",
    "host      answer_subagent: Users, who are in a hurry.",
    "3 · A word to a task at work",
    "host      send_message_to_subagent: Complaints are enough.",
    "4 · A gateway that fails twice",
    "gateway   turn 2: 503 Service Unavailable (1 of 2)",
    "gateway   turn 2: 503 Service Unavailable (2 of 2)",
    "5 · kill -9, in the middle of a task",
    "kill -9   Process ",
    "s after the kill it is done. Only turns 3 and 4 were asked for:",
    "6 · Enough: a soft cancel",
    "status cancelled, kept: I read the complaints. I read the wishes.",
    "What it cost",
    "Compare wishes with complaints.    completed         3        2",
    "Check our notes line by line.      cancelled         2        0",
    "A script is free.",
    "What you saw",
    "✓ parallel    3 requests were at the gateway at the same moment",
    "✓ questions",
    "✓ steering",
    "✓ retries     2 failures, 2 retries",
    "✓ crashes     process ",
    "✓ cancelling",
    "✓ costs       the gateway counted 22 requests: 19 answered, 2 refused, 1 cut off by the kill. "
    "No finished turn was paid twice",
    "What is next",
    "mcp-subagents install",
    "mcp-subagents doctor",
    "The answers were scripted",
]


def environment(temporary: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_SUBAGENTS_", "COLUMNS"))}
    # A configuration that is wrong shows whether the demo keeps to itself.
    given = {"CONFIG": "nowhere.yaml", "MODEL": "nobody:nothing", "SYNC_PATIENCE": "as long as it takes"}
    wrong = {f"MCP_SUBAGENTS_{name}": value for name, value in given.items()}
    return {**kept, **wrong, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **more}


def run(temporary: Path, *options: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*DEMO, *options],
        env=environment(temporary, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
        check=False,
    )


def at_start(folder: Path, code: str) -> str:
    """A PYTHONPATH with which every interpreter begins with `code`."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code, "utf-8")
    return os.pathsep.join([str(folder), str(ROOT)])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("width", [80, 120])
def test_it_shows_what_it_promises_and_leaves_nothing_behind(width: int, tmp_path: Path):
    done = run(tmp_path, "--fast", COLUMNS=str(width), NO_COLOR="1")
    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > width or line != line.rstrip() or "\x1b" in line] == []
    text, place = re.sub(r"\s*\n\s{8,}", " ", done.stdout), 0
    for promised in PROMISED:
        place = text.find(promised, place)
        assert place >= 0, f"{promised!r} is missing, or comes too early, in:\n{done.stdout}"
    served = {int(pid) for pid in re.findall(r"Process (\d+)", text)}
    assert len(served) == 2
    assert [pid for pid in served if is_alive(pid)] == []
    assert list(tmp_path.iterdir()) == []


def core_packages() -> set[str]:
    """All that is installed with mcp-subagents when no extra is asked for."""
    found: set[str] = set()
    wanted = [("mcp-subagents", frozenset[str]())]
    while wanted:
        name, extras = wanted.pop()
        found.add(_normal(name))
        for line in _required(name):
            of_extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
            match = re.match(r"([\w.-]+)(?:\[([\w,\s-]+)\])?", line)
            assert match
            asked_for = frozenset((match[2] or "").replace(" ", "").split(",")) - {""}
            is_new = _normal(match[1]) not in found or asked_for
            if is_new and (of_extra is None or of_extra[1] in extras):
                wanted.append((match[1], asked_for))
    return found


def _required(name: str) -> list[str]:
    try:
        return requires(name) or []
    except ModuleNotFoundError:
        return []  # for another platform, or another Python


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {forbidden!r}:
            raise ModuleNotFoundError("not installed: " + name, name=name)

sys.meta_path.insert(0, Missing())
"""


def test_it_needs_nothing_but_the_core_dependencies(tmp_path: Path):
    core = core_packages()
    modules = packages_distributions()
    forbidden = {module for module, owners in modules.items() if not core & {_normal(owner) for owner in owners}}
    assert {"openai", "anthropic", "pytest"} <= forbidden
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run(temporary, "--fast", PYTHONPATH=at_start(tmp_path / "site", WITHOUT.format(forbidden=forbidden)))
    assert (done.stderr, done.returncode) == ("", 0)


FORGETFUL = """
import sys
if "serve" in sys.orig_argv:
    import mcp_subagents.runner
    mcp_subagents.runner.messages_of = lambda entries: []
"""
DEAD = """
import os, sys
if "serve" in sys.orig_argv:
    os.write(2, b"I do not feel well.\\n")
    os._exit(3)
"""
BROKEN = {
    "a store that forgets its turns": (
        FORGETFUL,
        ["✗ broken  Promised: a retry asks again only for the turn that failed."],
    ),
    "a server that does not start": (
        DEAD,
        ["✗ broken  Promised: the server answers.", "The server said", "I do not feel well."],
    ),
}


@pytest.mark.parametrize(("trouble", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_promise_is_noticed(trouble: str, said: list[str], tmp_path: Path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run(temporary, "--fast", PYTHONPATH=at_start(tmp_path / "site", trouble))
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert (done.returncode, [line for line in said if line not in lines]) == (1, []), done.stdout + done.stderr
    assert "What you saw" not in lines
    assert "The demo has failed." in done.stdout
    assert list(temporary.iterdir()) == []


def relatives(mark: str) -> list[int]:
    """The processes that have `mark` in their environment."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environ = path.read_bytes()
        except OSError:
            continue  # it ended meanwhile, or is not ours
        if mark.encode() in environ:
            found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes by their environment")
@pytest.mark.parametrize("told_by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_can_be_stopped_and_leaves_nothing_behind(told_by: signal.Signals, tmp_path: Path):
    mark = f"DEMO_OF_TEST={tmp_path.name}-{os.getpid()}"
    env = environment(tmp_path, **dict([mark.split("=")]))
    with subprocess.Popen([*DEMO, "--fast"], env=env, stdout=-1, stderr=-1, encoding="utf-8") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "gateway" in line and "at once" in line:  # a server is at work
                break
        assert len(relatives(mark)) == 2
        process.send_signal(told_by)
        rest, complaints = process.communicate(timeout=20)
    assert (process.returncode, complaints) == (130, "")
    assert rest.endswith("\nStopped. Nothing is left behind.\n")
    assert relatives(mark) == []
    assert list(tmp_path.iterdir()) == []


def test_a_reader_who_leaves_early_ends_it(tmp_path: Path):
    with subprocess.Popen([*DEMO, "--fast"], env=environment(tmp_path), stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaints = process.stderr.read()
        assert (process.wait(timeout=20), complaints) == (130, b"")
    assert list(tmp_path.iterdir()) == []
