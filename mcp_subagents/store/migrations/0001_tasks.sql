-- Tasks, what they were assigned, and what happened to them.
--
-- `sum` is a checksum over the other columns of its row, and over the id of the task it belongs to.
-- Times are microseconds since 1970, UTC. Once released, this file is never changed: add another.

CREATE TABLE task (
    seq INTEGER PRIMARY KEY, -- the order of creation
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    subagent TEXT NOT NULL,
    status TEXT NOT NULL,
    rank INTEGER NOT NULL, -- of the priority; the lowest goes first
    due_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    process TEXT,
    provider TEXT NOT NULL,
    parent_id TEXT,
    idempotency_key TEXT NOT NULL,
    unread INTEGER NOT NULL,
    declared INTEGER NOT NULL, -- it carries its subagent's definition, so that any process can run it
    completed_at INTEGER,
    changed INTEGER NOT NULL, -- the number of its last change, over all tasks
    state TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- What never changes is kept apart, so that it is not written again with every turn.
CREATE TABLE assignment (
    task INTEGER PRIMARY KEY REFERENCES task ON DELETE CASCADE,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

CREATE TABLE journal (
    id INTEGER PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES task ON DELETE CASCADE,
    kind TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

CREATE INDEX journal_of_task ON journal (task);

-- Who proved to be alive, and when: microseconds of the system's steady clock.
CREATE TABLE process (
    id TEXT PRIMARY KEY,
    beat INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cooldown (
    provider TEXT PRIMARY KEY,
    until INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- For each owner `open/<owner>`: how many tasks have not ended.
-- And `changes`: the highest number of a change whose task has been deleted; others are in `task.changed`.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counter (name, value) VALUES ('changes', 0);

-- The queue: groups that are taken or left as a whole, each in its order.
CREATE INDEX task_queue ON task (subagent, provider, declared, rank, seq, due_at)
    WHERE status IN ('pending', 'retrying');
CREATE INDEX task_due ON task (provider, due_at) WHERE status IN ('pending', 'retrying');
CREATE INDEX task_running ON task (process, subagent) WHERE status = 'running';
CREATE INDEX task_waiting ON task (due_at) WHERE status = 'waiting_for_answer';
CREATE INDEX task_open ON task (owner) WHERE status NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX task_unread ON task (owner) WHERE unread = 1;
CREATE INDEX task_ended ON task (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX task_owner ON task (owner);
CREATE INDEX task_parent ON task (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX task_changed ON task (changed);
CREATE UNIQUE INDEX task_idempotency ON task (owner, idempotency_key) WHERE idempotency_key <> '';

CREATE TRIGGER task_opened AFTER INSERT ON task WHEN new.status NOT IN ('completed', 'failed', 'cancelled')
BEGIN
    INSERT INTO counter (name, value) VALUES ('open/' || new.owner, 1)
        ON CONFLICT (name) DO UPDATE SET value = value + 1;
END;

CREATE TRIGGER task_closed AFTER UPDATE OF status ON task
WHEN old.status <> new.status AND new.status IN ('completed', 'failed', 'cancelled')
BEGIN
    UPDATE counter SET value = value - 1 WHERE name = 'open/' || new.owner;
END;

-- Every legal move: mcp_subagents.types.TRANSITIONS.
CREATE TABLE move (
    was TEXT NOT NULL,
    becomes TEXT NOT NULL,
    PRIMARY KEY (was, becomes)
) STRICT, WITHOUT ROWID;

INSERT INTO move (was, becomes) VALUES
    ('pending', 'cancelled'),
    ('pending', 'running'),
    ('retrying', 'cancelled'),
    ('retrying', 'running'),
    ('running', 'cancelled'),
    ('running', 'completed'),
    ('running', 'failed'),
    ('running', 'pending'),
    ('running', 'retrying'),
    ('running', 'waiting_for_answer'),
    ('waiting_for_answer', 'cancelled'),
    ('waiting_for_answer', 'failed'),
    ('waiting_for_answer', 'pending');

CREATE TRIGGER task_moves_legally BEFORE UPDATE OF status ON task
WHEN new.status <> old.status AND NOT EXISTS (SELECT 1 FROM move WHERE was = old.status AND becomes = new.status)
BEGIN
    SELECT RAISE(ABORT, 'illegal move');
END;

CREATE TRIGGER task_stays_ended BEFORE UPDATE ON task
WHEN old.status IN ('completed', 'failed', 'cancelled') AND (
    (new.id, new.owner, new.subagent, new.status, new.attempt, new.process, new.completed_at)
    IS NOT (old.id, old.owner, old.subagent, old.status, old.attempt, old.process, old.completed_at)
    OR json_remove(new.state, '$.unread') IS NOT json_remove(old.state, '$.unread')
)
BEGIN
    SELECT RAISE(ABORT, 'an ended task stays as it is');
END;
