"""Hand work to subagents from any MCP app.

Importing this package is cheap: a name is loaded, with the libraries behind it, when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_subagents.agents import CompiledSubAgent, Roster
    from mcp_subagents.config import AskUserCallback, SubAgentConfig, SubAgentSpec, ToolsetFactory, UsageLimitsFactory
    from mcp_subagents.config.limits import EngineSettings, Limits
    from mcp_subagents.delegation import Standing, Submission, Waited
    from mcp_subagents.engine import Engine, run_engine
    from mcp_subagents.equipment.kits import Equipment
    from mcp_subagents.errors import (
        ConfigError,
        DailyCostReached,
        DepthExceeded,
        DescendantsExceeded,
        EngineStopped,
        FollowedUp,
        IllegalTransition,
        IncompleteAnswer,
        KeyTaken,
        NotEnded,
        NotWaiting,
        StoreDamaged,
        StoreError,
        StoreTooNew,
        StoreUnavailable,
        SubagentsError,
        TaskEnded,
        ToolServerDown,
        TooManyTasks,
        UnknownSubagent,
        UnknownTask,
        WrongArguments,
    )
    from mcp_subagents.failures import failure_of
    from mcp_subagents.history import Checkpoint, checkpoint_of
    from mcp_subagents.modes import decide_execution_mode
    from mcp_subagents.prompts import (
        ANSWER_SUBAGENT_DESCRIPTION,
        CHECK_TASK_DESCRIPTION,
        DEFAULT_GENERAL_PURPOSE_DESCRIPTION,
        DUAL_MODE_SYSTEM_PROMPT,
        HARD_CANCEL_TASK_DESCRIPTION,
        LIST_ACTIVE_TASKS_DESCRIPTION,
        SOFT_CANCEL_TASK_DESCRIPTION,
        SUBAGENT_SYSTEM_PROMPT,
        TASK_TOOL_DESCRIPTION,
        WAIT_TASKS_DESCRIPTION,
        get_subagent_system_prompt,
        get_task_instructions_prompt,
    )
    from mcp_subagents.resume import run_with_retry
    from mcp_subagents.retry import RetryConfig, compute_backoff_delay, is_transient_error
    from mcp_subagents.server import DeliverySettings, create_server
    from mcp_subagents.store.sqlite import open_sqlite
    from mcp_subagents.types import (
        AgentMessage,
        ExecutionMode,
        FailureType,
        MessageType,
        Question,
        TaskCharacteristics,
        TaskFailure,
        TaskHandle,
        TaskPriority,
        TaskStatus,
        TaskUsage,
    )

    __version__: str

__all__ = [
    "ANSWER_SUBAGENT_DESCRIPTION",
    "CHECK_TASK_DESCRIPTION",
    "DEFAULT_GENERAL_PURPOSE_DESCRIPTION",
    "DUAL_MODE_SYSTEM_PROMPT",
    "HARD_CANCEL_TASK_DESCRIPTION",
    "LIST_ACTIVE_TASKS_DESCRIPTION",
    "SOFT_CANCEL_TASK_DESCRIPTION",
    "SUBAGENT_SYSTEM_PROMPT",
    "TASK_TOOL_DESCRIPTION",
    "WAIT_TASKS_DESCRIPTION",
    "AgentMessage",
    "AskUserCallback",
    "Checkpoint",
    "CompiledSubAgent",
    "ConfigError",
    "DailyCostReached",
    "DeliverySettings",
    "DepthExceeded",
    "DescendantsExceeded",
    "Engine",
    "EngineSettings",
    "EngineStopped",
    "Equipment",
    "ExecutionMode",
    "FailureType",
    "FollowedUp",
    "IllegalTransition",
    "IncompleteAnswer",
    "KeyTaken",
    "Limits",
    "MessageType",
    "NotEnded",
    "NotWaiting",
    "Question",
    "RetryConfig",
    "Roster",
    "Standing",
    "StoreDamaged",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "SubAgentConfig",
    "SubAgentSpec",
    "SubagentsError",
    "Submission",
    "TaskCharacteristics",
    "TaskEnded",
    "TaskFailure",
    "TaskHandle",
    "TaskPriority",
    "TaskStatus",
    "TaskUsage",
    "TooManyTasks",
    "ToolServerDown",
    "ToolsetFactory",
    "UnknownSubagent",
    "UnknownTask",
    "UsageLimitsFactory",
    "Waited",
    "WrongArguments",
    "checkpoint_of",
    "compute_backoff_delay",
    "create_server",
    "decide_execution_mode",
    "failure_of",
    "get_subagent_system_prompt",
    "get_task_instructions_prompt",
    "is_transient_error",
    "open_sqlite",
    "run_engine",
    "run_with_retry",
]

_HOMES = {
    "ANSWER_SUBAGENT_DESCRIPTION": "prompts",
    "CHECK_TASK_DESCRIPTION": "prompts",
    "DEFAULT_GENERAL_PURPOSE_DESCRIPTION": "prompts",
    "DUAL_MODE_SYSTEM_PROMPT": "prompts",
    "HARD_CANCEL_TASK_DESCRIPTION": "prompts",
    "LIST_ACTIVE_TASKS_DESCRIPTION": "prompts",
    "SOFT_CANCEL_TASK_DESCRIPTION": "prompts",
    "SUBAGENT_SYSTEM_PROMPT": "prompts",
    "TASK_TOOL_DESCRIPTION": "prompts",
    "WAIT_TASKS_DESCRIPTION": "prompts",
    "AgentMessage": "types",
    "AskUserCallback": "config",
    "Checkpoint": "history",
    "CompiledSubAgent": "agents",
    "ConfigError": "errors",
    "DeliverySettings": "server",
    "DailyCostReached": "errors",
    "DepthExceeded": "errors",
    "DescendantsExceeded": "errors",
    "Engine": "engine",
    "EngineSettings": "config.limits",
    "EngineStopped": "errors",
    "Equipment": "equipment.kits",
    "ExecutionMode": "types",
    "FailureType": "types",
    "FollowedUp": "errors",
    "IllegalTransition": "errors",
    "IncompleteAnswer": "errors",
    "KeyTaken": "errors",
    "Limits": "config.limits",
    "MessageType": "types",
    "NotEnded": "errors",
    "NotWaiting": "errors",
    "Question": "types",
    "RetryConfig": "retry",
    "Roster": "agents",
    "Standing": "delegation",
    "StoreDamaged": "errors",
    "StoreError": "errors",
    "StoreTooNew": "errors",
    "StoreUnavailable": "errors",
    "SubAgentConfig": "config",
    "SubAgentSpec": "config",
    "SubagentsError": "errors",
    "Submission": "delegation",
    "TaskCharacteristics": "types",
    "TaskEnded": "errors",
    "TaskFailure": "types",
    "TaskHandle": "types",
    "TaskPriority": "types",
    "TaskStatus": "types",
    "TaskUsage": "types",
    "TooManyTasks": "errors",
    "ToolServerDown": "errors",
    "ToolsetFactory": "config",
    "UnknownSubagent": "errors",
    "UnknownTask": "errors",
    "UsageLimitsFactory": "config",
    "Waited": "delegation",
    "WrongArguments": "errors",
    "checkpoint_of": "history",
    "compute_backoff_delay": "retry",
    "create_server": "server",
    "decide_execution_mode": "modes",
    "failure_of": "failures",
    "get_subagent_system_prompt": "prompts",
    "get_task_instructions_prompt": "prompts",
    "is_transient_error": "retry",
    "open_sqlite": "store.sqlite",
    "run_engine": "engine",
    "run_with_retry": "resume",
}
"""The module that each name comes from."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # here, since it costs more than all the rest of this module

        return version("mcp-subagents")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
