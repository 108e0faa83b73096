"""`mcp-subagents completion`, sourced by the shells themselves."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mcp_subagents.cli import main
from mcp_subagents.cli.commands import COMMANDS
from mcp_subagents.cli.completion import SHELLS, whole

BASH = """
source {script}
function_of() {{ complete -p mcp-subagents | sed 's/.*-F \\([^ ]*\\).*/\\1/'; }}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE="${{COMP_WORDS[*]}}"
COMP_POINT=${{#COMP_LINE}}
"$(function_of)" mcp-subagents "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

FISH = "source {script}; complete -C '{line}'"


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    path = folder / f"completion.{shell}"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


def said(command: list[str], folder: Path) -> set[str]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {line.split("\t")[0] for line in done.stdout.splitlines() if line}


def has(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell} here")


CASES: dict[str, tuple[str, set[str]]] = {
    "a command": ("mcp-subagents doc", {"doctor"}),
    "every command": ("mcp-subagents ''", {"serve", *COMMANDS}),
    "an option of serve without its name": ("mcp-subagents --tr", {"--transport"}),
    "an option of serve": ("mcp-subagents serve --lo", {"--log-level"}),
    "an option of a command": ("mcp-subagents doctor --l", {"--live"}),
    "a choice of an option": ("mcp-subagents --transport st", {"stdio", "streamable-http"}),
    "a choice of an argument": ("mcp-subagents doctor st", {"store", "start"}),
    "an action of a command": ("mcp-subagents agents ch", {"check"}),
    "an option of an action": ("mcp-subagents agents check --t", {"--tools"}),
    "a file": ("mcp-subagents --config te", {"team.yaml"}),
    "a file of a command": ("mcp-subagents doctor --config te", {"team.yaml"}),
    "a folder": ("mcp-subagents --agents fo", {"folder"}),
}


@has("bash")
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_bash_completes(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words, wanted = CASES[case]
    (tmp_path / "team.yaml").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "forbidden").touch()
    source = BASH.format(script=script("bash", tmp_path, capsys), words=words)
    found = said(["bash", "--norc", "-c", source], tmp_path)
    options = {each for each in found if each.startswith("-")} if words.endswith("''") else set[str]()
    assert {each.removesuffix("/") for each in found - options} == wanted


@has("fish")
@pytest.mark.slow
@pytest.mark.parametrize("case", ["a command", "an option of a command", "an action of a command", "a file"])
def test_fish_completes(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    words, wanted = CASES[case]
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "team.yaml").touch()
    source = FISH.format(script=script("fish", tmp_path, capsys), line=words)
    assert said(["fish", "--no-config", "-c", source], tmp_path) == wanted


@has("zsh")
@pytest.mark.slow
def test_zsh_takes_it_for_a_completion_of_our_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = script("zsh", tmp_path, capsys)
    (tmp_path / "_mcp-subagents").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    source = (
        f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -d {tmp_path}/dump; print $_comps[mcp-subagents]"
    )
    assert said(["zsh", "-f", "-c", source], tmp_path) == {"_mcp-subagents"}
    assert said(["zsh", "-f", "-n", str(path)], tmp_path) == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_every_command(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = script(shell, tmp_path, capsys).read_text(encoding="utf-8")
    assert [name for name in ["serve", *COMMANDS] if name not in text] == []


def test_the_tree_is_made_of_the_real_parsers():
    tree = whole()
    given = tree.parse_args(["doctor", "--live", "store"])
    assert (given.command, given.live, given.checks) == ("doctor", True, ["store"])
    assert tree.parse_args(["--transport", "http"]).transport == "http"


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["completion", "cmd"])
    assert left.value.code == 2
    assert "invalid choice: 'cmd' (choose from 'bash', 'zsh', 'fish', 'tcsh', 'powershell')" in capsys.readouterr().err
