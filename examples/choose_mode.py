"""Choose between waiting for a task and running it in the background.

One line per task: the mode that is chosen, the subagent, and why. The last three show the precedence: the caller's word
beats the subagent's preference, which beats what the task is like.

Run it: python examples/choose_mode.py

Prints:

    sync   helper     a quick lookup
    async  helper     long, and needs nobody
    sync   helper     long, but needs more input
    sync   helper     needs the user at hand
    sync   helper     urgent, and likely to ask
    async  helper     nothing said: moderate, independent
    async  archivist  simple, but the subagent prefers async
    sync   archivist  the caller says sync
    async  archivist  the caller says auto: the preference counts
"""

from mcp_subagents import ExecutionMode, SubAgentConfig, SubAgentSpec, TaskCharacteristics, decide_execution_mode

HELPER = SubAgentConfig(name="helper", description="Does odd jobs.", instructions="Do the job.")

# The same kind of definition, as it would come from a YAML or JSON file.
ARCHIVIST = SubAgentSpec.model_validate(
    {"name": "archivist", "description": "Reads whole archives.", "preferred_mode": "async"}
).to_config()

TASKS: list[tuple[str, SubAgentConfig, TaskCharacteristics, ExecutionMode | None]] = [
    ("a quick lookup", HELPER, TaskCharacteristics(estimated_complexity="simple"), None),
    ("long, and needs nobody", HELPER, TaskCharacteristics(estimated_complexity="complex"), None),
    ("long, but needs more input", HELPER, TaskCharacteristics("complex", can_run_independently=False), None),
    ("needs the user at hand", HELPER, TaskCharacteristics(requires_user_context=True), None),
    (
        "urgent, and likely to ask",
        HELPER,
        TaskCharacteristics(is_time_sensitive=True, may_need_clarification=True),
        None,
    ),
    ("nothing said: moderate, independent", HELPER, TaskCharacteristics(), None),
    ("simple, but the subagent prefers async", ARCHIVIST, TaskCharacteristics("simple"), None),
    ("the caller says sync", ARCHIVIST, TaskCharacteristics("complex"), "sync"),
    ("the caller says auto: the preference counts", ARCHIVIST, TaskCharacteristics("simple"), "auto"),
]


def main() -> None:
    for why, config, characteristics, force_mode in TASKS:
        mode = decide_execution_mode(characteristics, config, force_mode)
        print(f"{mode:5}  {config.get('name', ''):9}  {why}")


if __name__ == "__main__":
    main()
