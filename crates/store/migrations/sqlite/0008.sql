-- Sessions that HTTP servers issued. `run` is the process that uses a session; a session whose process is not in `runs` may
-- be claimed by another, which marks it with `claim` to find it again.
CREATE TABLE sessions (
    slot BLOB PRIMARY KEY,
    run BLOB,
    claim BLOB,
    updated_at INTEGER NOT NULL,
    server TEXT NOT NULL,
    caller TEXT NOT NULL,
    profile TEXT NOT NULL,
    entry TEXT NOT NULL,
    session_id TEXT NOT NULL,
    revision TEXT NOT NULL,
    hello TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_owner ON sessions (server, caller, profile);
