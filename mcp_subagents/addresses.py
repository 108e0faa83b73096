"""The addresses of what can be read: one place that knows how they look."""

AGENTS = "subagents://agents"
TASKS = "subagents://tasks"
TASK = "subagents://tasks/{task_id}"
RESULT = "subagents://tasks/{task_id}/result"
TRANSCRIPT = "subagents://tasks/{task_id}/transcript"


def task_uri(task_id: str) -> str:
    return TASK.format(task_id=task_id)


def result_uri(task_id: str) -> str:
    return RESULT.format(task_id=task_id)


def transcript_uri(task_id: str) -> str:
    return TRANSCRIPT.format(task_id=task_id)
