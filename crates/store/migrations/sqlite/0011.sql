-- Tasks: calls that their server continues. The id is that of the call, which has the result. `run` is the process that follows
-- the task; NULL: none does.
CREATE TABLE tasks (
    id BLOB PRIMARY KEY,
    remote_id TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    caller TEXT NOT NULL,
    conversation TEXT,
    status TEXT NOT NULL,
    message TEXT,
    done REAL,
    total REAL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ttl INTEGER,
    poll_interval INTEGER,
    kept_by TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    capabilities TEXT,
    run BLOB
) WITHOUT ROWID;
CREATE INDEX tasks_open ON tasks (run) WHERE status IN ('working', 'input-required');
CREATE INDEX tasks_by_conversation ON tasks (conversation, id) WHERE conversation IS NOT NULL;
