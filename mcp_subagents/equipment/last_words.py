"""What a tool server writes to its standard error: logged without secrets, and kept for when it dies."""

import logging
import os
import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TextIO

import anyio.to_thread

from mcp_subagents.redact import MASK, redact
from mcp_subagents.texts import plain

logger = logging.getLogger(__name__)

_LINES = 8
_LONGEST = 400
_PATIENCE = 0.5


class LastWords:
    """The end of what one process has said."""

    def __init__(self, name: str, secrets: Iterable[str]) -> None:
        self._name = name
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._over = threading.Event()
        self._is_listening = False

    @property
    def is_over(self) -> bool:
        """Whether nobody can say anything any more, as a rule because the process is gone."""
        return self._over.is_set()

    @property
    def text(self) -> str:
        return " / ".join(self._lines)

    async def heard(self) -> None:
        """Wait until all that a dead process has said is heard, but not for ever."""
        if self._is_listening:
            await anyio.to_thread.run_sync(self._over.wait, _PATIENCE)

    @contextmanager
    def listening(self) -> Generator[TextIO]:
        """Give a process something to write to, for as long as the block lasts."""
        self._is_listening = True
        read, write = os.pipe()
        # A daemon: a grandchild that outlives its parent may hold the other end for ever.
        threading.Thread(target=self._listen, args=(read,), name=f"stderr of {self._name}", daemon=True).start()
        with os.fdopen(write, "w", encoding="utf-8") as sink:
            yield sink

    def masked(self, text: str) -> str:
        """`text` without the secrets of this server."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return redact(plain(text))

    def _listen(self, read: int) -> None:
        with os.fdopen(read, "rb") as source:
            # By size too: a line without an end must not fill the memory.
            while line := source.readline(65536):
                text = self.masked(line.decode("utf-8", "replace").strip())[:_LONGEST]
                if text:
                    self._lines.append(text)
                    logger.info("tool server %s: %s", self._name, text)
        self._over.set()
