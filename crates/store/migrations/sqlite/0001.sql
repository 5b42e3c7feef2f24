-- Times are microseconds since 1970-01-01T00:00:00Z. Ids are UUIDv7, 16 bytes, so that their order is the order of time.

-- One row per process that may write calls. A process holds a lock on its file while it lives (`runs.rs`).
CREATE TABLE runs (
    id BLOB PRIMARY KEY,
    pid INTEGER NOT NULL,
    started_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE calls (
    id BLOB PRIMARY KEY,
    run BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    duration INTEGER,
    caller TEXT NOT NULL,
    surface TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    server TEXT,
    tool TEXT,
    state TEXT NOT NULL,
    rule TEXT,
    approved_by TEXT,
    error TEXT,
    conversation TEXT,
    argument_bytes INTEGER NOT NULL DEFAULT 0,
    result_bytes INTEGER NOT NULL DEFAULT 0,
    server_requests INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX calls_open ON calls (run) WHERE state IN ('pending', 'running');
CREATE INDEX calls_by_server ON calls (server, id);
CREATE INDEX calls_by_caller ON calls (caller, id);
-- Most calls succeed; an index of the others answers "what went wrong".
CREATE INDEX calls_by_state ON calls (state, id) WHERE state <> 'succeeded';
CREATE INDEX calls_by_conversation ON calls (conversation, id) WHERE conversation IS NOT NULL;

-- Arguments and results stand apart, so that a list of calls reads no bodies.
CREATE TABLE bodies (
    call BLOB PRIMARY KEY,
    arguments TEXT,
    result TEXT
) WITHOUT ROWID;

-- Per minute; `b0` to `b15` count calls by duration, see `rollup.rs`.
CREATE TABLE rollups (
    minute INTEGER NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    caller TEXT NOT NULL,
    state TEXT NOT NULL,
    calls INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    b0 INTEGER NOT NULL, b1 INTEGER NOT NULL, b2 INTEGER NOT NULL, b3 INTEGER NOT NULL,
    b4 INTEGER NOT NULL, b5 INTEGER NOT NULL, b6 INTEGER NOT NULL, b7 INTEGER NOT NULL,
    b8 INTEGER NOT NULL, b9 INTEGER NOT NULL, b10 INTEGER NOT NULL, b11 INTEGER NOT NULL,
    b12 INTEGER NOT NULL, b13 INTEGER NOT NULL, b14 INTEGER NOT NULL, b15 INTEGER NOT NULL,
    PRIMARY KEY (minute, server, tool, caller, state)
) WITHOUT ROWID;

-- Append-only; each entry contains the hash of the one before it.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    caller TEXT,
    server TEXT,
    subject TEXT,
    call BLOB,
    details TEXT NOT NULL,
    hash BLOB NOT NULL
);
CREATE INDEX audit_by_kind ON audit (kind, seq) WHERE kind <> 'call';
-- The last entry, and the last one that retention removed (seq 0: none).
CREATE TABLE audit_ends (
    which TEXT PRIMARY KEY CHECK (which IN ('head', 'checkpoint')),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO audit_ends VALUES ('head', 0, zeroblob(32)), ('checkpoint', 0, zeroblob(32));

CREATE TABLE approvals (
    id BLOB PRIMARY KEY,
    created_at INTEGER NOT NULL,
    caller TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT,
    digest TEXT NOT NULL,
    effect TEXT NOT NULL CHECK (effect IN ('allow', 'deny')),
    created_by TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX approvals_by_tool ON approvals (server, tool);

CREATE TABLE inbox (
    id BLOB PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    server TEXT,
    caller TEXT NOT NULL,
    call BLOB,
    text TEXT NOT NULL,
    ended_at INTEGER,
    answer TEXT,
    answered_by TEXT
) WITHOUT ROWID;

CREATE TABLE conversations (
    id BLOB PRIMARY KEY,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    title TEXT NOT NULL,
    model TEXT NOT NULL,
    surface TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX conversations_by_time ON conversations (updated_at);

-- `body` is opaque JSON of the agent; `text` is its plain text, for search.
CREATE TABLE messages (
    conversation BLOB NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, seq)
) WITHOUT ROWID;
