"""Records that were parsed already, so that looking at a task again and again costs next to nothing."""

from collections import OrderedDict

from mcp_subagents.records import TaskRecord

_MOST = 256


class Recent:
    """The last records that were read or written here, each with the number of its change."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, tuple[int, TaskRecord]] = OrderedDict()

    def remember(self, change: int, record: TaskRecord) -> None:
        self._records[record.task_id] = (change, record)
        self._records.move_to_end(record.task_id)
        if len(self._records) > _MOST:
            self._records.popitem(last=False)

    def recall(self, task_id: str, change: int) -> TaskRecord | None:
        """The task as of that change, if it is still remembered."""
        known = self._records.get(task_id)
        return known[1] if known is not None and known[0] == change else None
