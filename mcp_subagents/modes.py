"""Whether a task is waited for or runs in the background: a pure rule."""

from typing import Literal

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.types import ExecutionMode, TaskCharacteristics


def decide_execution_mode(
    characteristics: TaskCharacteristics, config: SubAgentConfig, force_mode: ExecutionMode | None = None
) -> Literal["sync", "async"]:
    """Choose `sync` or `async`: by the caller's word, else the subagent's preference, else what the task is like.

    A task that needs the user, or that may have urgent questions, is waited for; so is a simple one.
    What is left runs in the background if it can run by itself.
    """
    for wish in (force_mode, config.get("preferred_mode")):
        if wish == "sync" or wish == "async":
            return wish
    task = characteristics
    if task.requires_user_context or (task.may_need_clarification and task.is_time_sensitive):
        return "sync"
    if task.estimated_complexity == "simple" or not task.can_run_independently:
        return "sync"
    return "async"
