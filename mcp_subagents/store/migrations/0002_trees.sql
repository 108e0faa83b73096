-- What has been spent, and the tasks below other tasks.

-- For each day since 1970, UTC: what all tasks cost that day, in billionths of a dollar.
CREATE TABLE spending (
    day INTEGER PRIMARY KEY,
    cost INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- Leads from an ended task to those below it that are still open.
CREATE INDEX task_open_child ON task (parent_id)
    WHERE parent_id IS NOT NULL AND status NOT IN ('completed', 'failed', 'cancelled');
