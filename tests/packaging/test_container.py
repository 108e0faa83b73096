"""The Dockerfile: what it may not do, and its steps, run on this machine since there is no Docker to run them."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import tempfile
import tomllib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from distributions import ROOT, TOOLS, elsewhere, run
from dockerfile import environment, instructions, of, stages
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_subagents.config.admission import TOKEN

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
BEFORE, BUILD, FINAL = stages(TEXT)
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SENT = ["pyproject.toml", "README.md", "LICENSE", "mcp_subagents"]
USER = int(of(FINAL, "USER")[-1].text)
SECRET = "-".join(["said", "to", "nobody", "but", "this", "test", "here"])


def test_continued_lines_and_comments_are_read_as_docker_reads_them():
    text = '# no\nFROM a\nRUN one && \\\n    # nor this\n    two\nCMD ["a b", "c"]\n'
    assert [(each.name, each.words) for each in instructions(text)] == [
        ("FROM", ["a"]),
        ("RUN", ["one", "&&", "two"]),
        ("CMD", ["a b", "c"]),
    ]


def test_what_runs_is_a_slim_python_that_we_support_without_what_built_it():
    [python] = BEFORE
    version = python.text.removeprefix("PYTHON=")
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert [each.text for each in (BUILD[0], FINAL[0])] == ["python:${PYTHON}-slim AS build", "python:${PYTHON}-slim"]
    assert [each.text for each in of(FINAL, "COPY")] == ["--from=build /opt/subagents /opt/subagents"]
    assert "pip" not in " ".join(each.text for each in of(FINAL, "RUN"))


def test_it_runs_as_a_user_without_rights_to_the_very_end():
    names = [each.name for each in FINAL]
    assert USER > 999
    assert not {"RUN", "COPY", "ADD", "USER"} & set(names[names.index("USER") + 1 :])


def test_no_secret_is_in_it():
    every = [*instructions(TEXT)]
    given = {word.partition("=")[0] for each in of(every, "ENV") + of(every, "ARG") for word in each.words}
    assert [name for name in given if re.search("(?i)key|token|secret|password", name)] == []
    assert of(every, "ADD") == []  # it would fetch what nobody has looked at


def test_nothing_is_sent_to_the_builder_but_what_is_copied():
    copied = [word for each in of(BUILD, "COPY") for word in each.words[:-1]]
    first, *rest = [
        line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    assert first == "*"
    assert copied == [line[1:] for line in rest if line.startswith("!")] == SENT
    assert {"**/__pycache__", "**/*.pyc"} == {line for line in rest if not line.startswith("!")}


def test_tasks_are_kept_in_the_volume_and_the_port_is_that_of_the_server():
    [volume], [port] = of(FINAL, "VOLUME")[0].words, of(FINAL, "EXPOSE")[0].words
    started = [*of(FINAL, "ENTRYPOINT")[0].words, *of(FINAL, "CMD")[0].words]
    assert environment(FINAL)["MCP_SUBAGENTS_STORE"] == f"sqlite:///{volume}/tasks.db"
    assert started == ["mcp-subagents", "--transport", "http", "--host", "0.0.0.0", "--port", port]
    assert f"http://127.0.0.1:{port}/healthz" in of(FINAL, "HEALTHCHECK")[0].text


@dataclass(frozen=True, slots=True)
class Image:
    """What the Dockerfile makes, under a folder in the place of `/`, and with a port that is free."""

    root: Path
    port: int

    def placed(self, text: str) -> str:
        """`text`, in which the places of the image are those under the folder."""
        text = re.sub(r"(?<![\w.])/(?=(?:opt|data|config|src)\b)", f"{self.root}/", text)
        return text.replace("8000", str(self.port))

    def command(self, name: str) -> list[str]:
        """An ENTRYPOINT, a CMD or the CMD of a HEALTHCHECK, with the program where PATH finds it."""
        text = of(FINAL, name)[0].text.partition("CMD ")[2] if name == "HEALTHCHECK" else of(FINAL, name)[0].text
        return [self.placed(word) for word in json.loads(text)]

    def environment(self, **given: str) -> dict[str, str]:
        """What the image sets, and what is given when it is run: nothing else."""
        path = os.defpath
        return {name: self.placed(value).replace("$PATH", path) for name, value in environment(FINAL).items()} | given

    async def open(self, *command: str, **given: str) -> anyio.abc.Process:
        """Start `command` as in a container: as its user, with its environment, in its folder."""
        env = self.environment(**given)
        program = shutil.which(command[0], path=env["PATH"])
        assert program is not None
        rights: Any = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        return await anyio.open_process(
            [program, *command[1:]], env=env, cwd=self.root / "config", stdin=DEVNULL, stdout=DEVNULL, **rights
        )


@pytest.fixture(scope="module")
def image() -> Generator[Image]:
    """The steps of the Dockerfile, taken. The folder is one that any user can look into, as `tmp_path` is not."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        root = Path(name).resolve()
        root.chmod(0o755)
        probe.bind(("127.0.0.1", 0))
        made = Image(root, probe.getsockname()[1])
        probe.close()
        for folder in ("src", "opt", "data", "config"):
            (root / folder).mkdir()
        for each in SENT:
            source = ROOT / each
            if source.is_dir():
                shutil.copytree(source, root / "src" / each, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            else:
                shutil.copy(source, root / "src")
        [step] = of(BUILD, "RUN")
        # Docker's `python` is one that every user may run; so is that of the system, here.
        python = shutil.which("python3", path=os.defpath) if os.geteuid() == 0 else None
        script = re.sub(r"^python\b", shlex.quote(python or "python3"), made.placed(step.text))
        run("sh", "-euc", script, cwd=root / "src", env=elsewhere())
        if os.geteuid() == 0:  # what the RUN of the last stage does, which would add a user to this machine
            os.chown(root / "data", USER, USER)
        (root / "data").chmod(0o700)
        yield made


@asynccontextmanager
async def running(image: Image, **given: str) -> AsyncGenerator[anyio.abc.Process]:
    """The container, for as long as the block lasts, once it says that it listens."""
    command = [*image.command("ENTRYPOINT"), *image.command("CMD")]
    async with await image.open(*command, **given) as process:
        try:
            assert process.stderr
            notes = BufferedByteReceiveStream(process.stderr)
            with anyio.fail_after(30):
                said = b""
                while b"listening on" not in said:
                    said = await notes.receive_until(b"\n", 65536)
            yield process
        finally:
            if process.returncode is None:
                process.kill()


@pytest.mark.slow
async def test_without_a_token_it_does_not_start_and_says_why(image: Image):
    async with await image.open(*image.command("ENTRYPOINT"), *image.command("CMD")) as process:
        with anyio.fail_after(30):
            assert await process.wait() == 2
        assert process.stderr
        assert f"set {TOKEN}" in (await process.stderr.receive()).decode()


@pytest.mark.slow
async def test_with_a_token_it_is_healthy_serves_who_shows_it_and_keeps_tasks_in_the_volume(image: Image):
    (image.root / "config/subagents.yaml").write_text("subagents: [{name: clerk, model: test}]\n", encoding="utf-8")
    async with running(image, **{TOKEN: SECRET}) as process:
        with anyio.fail_after(30):
            async with await image.open(*image.command("HEALTHCHECK")) as check:
                assert await check.wait() == 0
            async with (
                httpx2.AsyncClient(headers={"authorization": f"Bearer {SECRET}"}) as known,
                Client(streamable_http_client(f"http://127.0.0.1:{image.port}/mcp", http_client=known)) as client,
            ):
                assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
                task = await client.call_tool("task", {"description": "Go.", "subagent_type": "clerk", "mode": "async"})
                assert (task.structured_content or {})["subagent"] == "clerk"
        kept = (image.root / "data/tasks.db").stat()
        assert (kept.st_uid, kept.st_mode & 0o777) == (USER if os.geteuid() == 0 else os.geteuid(), 0o600)
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            assert await process.wait() == 0


@pytest.mark.slow
async def test_the_check_of_its_health_fails_when_nothing_listens(image: Image):
    with anyio.fail_after(30):
        async with await image.open(*image.command("HEALTHCHECK")) as check:
            assert await check.wait() != 0
