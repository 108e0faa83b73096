"""What the owner of tasks has not seen yet, and when it has."""

import logging
from typing import TYPE_CHECKING

from mcp_subagents.errors import SubagentsError
from mcp_subagents.types import TaskHandle, TaskStatus
from mcp_subagents.words import mail_in_words

if TYPE_CHECKING:
    from mcp_subagents.engine import Engine

logger = logging.getLogger(__name__)


async def unread(engine: "Engine", *, owner: str) -> str:
    """One line on what nobody has looked at yet; nothing if there is none."""
    try:
        news = await engine.unread(owner=owner)
    except SubagentsError:
        # What was done is done: a result must not be lost because nobody could look for the mail.
        logger.exception("the unread mail could not be read")
        return ""
    return mail_in_words(news)


async def see(engine: "Engine", shown: TaskHandle, *, owner: str) -> None:
    """The owner has been shown this much of a task, and no more: what happens to it from now on is news."""
    if shown.status.is_terminal or shown.status is TaskStatus.WAITING_FOR_ANSWER:
        await engine.see(shown, owner=owner)
