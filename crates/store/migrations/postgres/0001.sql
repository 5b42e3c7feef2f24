-- Times are microseconds since 1970-01-01T00:00:00Z, unless a column is TIMESTAMPTZ: those are of the clock of the database.
-- Ids are UUIDv7, so that their order is the order of time. Texts that are compared or sorted have the collation "C".

-- One row per process that writes. It is renewed before `expires_at`; a process whose row has expired is taken for dead, and
-- its open calls are closed by another one (`runs.rs`).
CREATE TABLE runs (
    id UUID PRIMARY KEY,
    pid BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE calls (
    id UUID PRIMARY KEY,
    run UUID NOT NULL,
    started_at BIGINT NOT NULL,
    duration BIGINT,
    caller TEXT COLLATE "C" NOT NULL,
    surface TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    server TEXT COLLATE "C",
    tool TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL,
    rule TEXT,
    approved_by TEXT,
    error TEXT,
    conversation TEXT COLLATE "C",
    argument_bytes BIGINT NOT NULL,
    result_bytes BIGINT NOT NULL,
    server_requests BIGINT NOT NULL,
    -- Microseconds in which the call waited for a person.
    waited BIGINT NOT NULL,
    -- `answered`, `not-sent`, `unknown`; NULL while it is open.
    outcome TEXT COLLATE "C",
    idempotent BOOLEAN NOT NULL,
    -- Microseconds until the call was sent.
    prepared BIGINT,
    -- Stable error code of a call that was refused.
    code TEXT,
    from_cache BOOLEAN NOT NULL
) WITH (fillfactor = 85);
CREATE INDEX calls_open ON calls (run) WHERE state IN ('pending', 'running');
CREATE INDEX calls_by_server ON calls (server, id);
CREATE INDEX calls_by_caller ON calls (caller, id);
CREATE INDEX calls_by_state ON calls (state, id) WHERE state <> 'succeeded';
CREATE INDEX calls_by_conversation ON calls (conversation, id) WHERE conversation IS NOT NULL;
CREATE INDEX calls_unknown ON calls (id) WHERE outcome = 'unknown';

-- Arguments and results stand apart, so that a list of calls reads no bodies.
CREATE TABLE bodies (
    call UUID PRIMARY KEY,
    caller TEXT COLLATE "C" NOT NULL,
    bytes BIGINT NOT NULL,
    arguments TEXT,
    result TEXT
);

-- Per minute and per hour; `b0` to `b15` count calls by duration, see `rollup.rs`.
CREATE TABLE rollups (
    minute BIGINT NOT NULL,
    server TEXT COLLATE "C" NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    calls BIGINT NOT NULL,
    duration BIGINT NOT NULL,
    b0 BIGINT NOT NULL, b1 BIGINT NOT NULL, b2 BIGINT NOT NULL, b3 BIGINT NOT NULL,
    b4 BIGINT NOT NULL, b5 BIGINT NOT NULL, b6 BIGINT NOT NULL, b7 BIGINT NOT NULL,
    b8 BIGINT NOT NULL, b9 BIGINT NOT NULL, b10 BIGINT NOT NULL, b11 BIGINT NOT NULL,
    b12 BIGINT NOT NULL, b13 BIGINT NOT NULL, b14 BIGINT NOT NULL, b15 BIGINT NOT NULL,
    PRIMARY KEY (minute, server, tool, caller, state)
);
CREATE TABLE rollups_hourly (LIKE rollups INCLUDING ALL);

-- Append-only; each entry contains the hash of the one before it.
CREATE TABLE audit (
    seq BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    caller TEXT COLLATE "C",
    server TEXT COLLATE "C",
    subject TEXT,
    call UUID,
    details TEXT NOT NULL,
    hash BYTEA NOT NULL
);
CREATE INDEX audit_by_kind ON audit (kind, seq) WHERE kind <> 'call';
-- The last entry, and the last one that retention removed (seq 0: none). The row `head` is locked by each commit that appends.
CREATE TABLE audit_ends (
    which TEXT PRIMARY KEY CHECK (which IN ('head', 'checkpoint')),
    seq BIGINT NOT NULL,
    hash BYTEA NOT NULL
) WITH (fillfactor = 50);
INSERT INTO audit_ends VALUES ('head', 0, decode(repeat('00', 32), 'hex')), ('checkpoint', 0, decode(repeat('00', 32), 'hex'));

-- When retention first removed something, and when that was announced; NULL: not yet.
CREATE TABLE retention (
    one BOOLEAN PRIMARY KEY CHECK (one),
    first_removal BIGINT,
    announced BIGINT
);
INSERT INTO retention VALUES (TRUE, NULL, NULL);

CREATE TABLE approvals (
    id UUID PRIMARY KEY,
    created_at BIGINT NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    server TEXT COLLATE "C" NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    digest TEXT NOT NULL,
    effect TEXT NOT NULL CHECK (effect IN ('allow', 'deny')),
    created_by TEXT NOT NULL,
    entry TEXT NOT NULL,
    scope TEXT NOT NULL,
    unattended BOOLEAN NOT NULL
);
-- Not by tool: the name of a tool may be longer than an entry of an index.
CREATE INDEX approvals_by_server ON approvals (server);

CREATE TABLE inbox (
    id UUID PRIMARY KEY,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    server TEXT,
    caller TEXT NOT NULL,
    call UUID,
    text TEXT NOT NULL,
    ended_at BIGINT,
    answer TEXT,
    answered_by TEXT
);

CREATE TABLE conversations (
    id UUID PRIMARY KEY,
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    title TEXT NOT NULL,
    model TEXT NOT NULL,
    surface TEXT NOT NULL
);
CREATE INDEX conversations_by_time ON conversations (updated_at);

-- `body` is opaque JSON of the agent; `text` is its plain text, for search.
CREATE TABLE messages (
    conversation UUID NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, seq)
);

-- What is kept about a conversation besides its messages, by name. Opaque to the store.
CREATE TABLE conversation_notes (
    conversation UUID NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, name)
);

-- Sessions that HTTP servers issued. `run` is the process that uses a session; a session whose process is not in `runs` may
-- be claimed by another, which marks it with `claim` to find it again.
CREATE TABLE sessions (
    slot UUID PRIMARY KEY,
    run UUID,
    claim UUID,
    updated_at BIGINT NOT NULL,
    server TEXT COLLATE "C" NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    profile TEXT COLLATE "C" NOT NULL,
    entry TEXT COLLATE "C" NOT NULL,
    session_id TEXT NOT NULL,
    revision TEXT NOT NULL,
    hello TEXT NOT NULL
);
CREATE INDEX sessions_owner ON sessions (server, caller, profile);

-- Answers of models to requests of servers: what counts against the quotas of sampling, and what a call has used. `tokens`
-- is the maximum until the model has answered, then what was used.
CREATE TABLE sampling (
    id UUID PRIMARY KEY,
    at BIGINT NOT NULL,
    call UUID,
    server TEXT COLLATE "C" NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    model TEXT NOT NULL,
    reason TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    input_tokens BIGINT,
    output_tokens BIGINT,
    outcome TEXT
);
CREATE INDEX sampling_by_time ON sampling (at, server, caller, tokens);
CREATE INDEX sampling_by_call ON sampling (call) WHERE call IS NOT NULL;

-- Tasks: calls that their server continues. The id is that of the call, which has the result. `run` is the process that follows
-- the task; NULL: none does.
CREATE TABLE tasks (
    id UUID PRIMARY KEY,
    remote_id TEXT NOT NULL,
    server TEXT COLLATE "C" NOT NULL,
    tool TEXT NOT NULL,
    caller TEXT NOT NULL,
    conversation TEXT COLLATE "C",
    status TEXT COLLATE "C" NOT NULL,
    message TEXT,
    done DOUBLE PRECISION,
    total DOUBLE PRECISION,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ttl BIGINT,
    poll_interval BIGINT,
    kept_by TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    capabilities TEXT,
    run UUID,
    -- The client for which the gateway hosts the task.
    hosted_for TEXT COLLATE "C"
);
CREATE INDEX tasks_open ON tasks (run) WHERE status IN ('working', 'input-required');
CREATE INDEX tasks_by_conversation ON tasks (conversation, id) WHERE conversation IS NOT NULL;
CREATE INDEX tasks_hosted ON tasks (hosted_for, id) WHERE hosted_for IS NOT NULL;

-- Which call holds which idempotency key. `digest` is that of the arguments. A call that was not sent holds none (`keys.rs`).
CREATE TABLE idempotency_keys (
    owner TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    item TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL,
    call UUID NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (at);
CREATE INDEX idempotency_keys_by_call ON idempotency_keys (call);

-- What a person found out about a call whose outcome is unknown.
CREATE TABLE settlements (
    call UUID PRIMARY KEY,
    at BIGINT NOT NULL,
    happened BOOLEAN NOT NULL,
    note TEXT
);

-- Roots that clients of the gateway supplied over HTTP, as JSON (`client_roots.rs`).
CREATE TABLE client_roots (
    client TEXT COLLATE "C" PRIMARY KEY,
    roots TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Definitions as they were first seen or last accepted. `item` is empty for the entry of a server, `item_digest` is its SHA-256: a name
-- may be longer than an entry of an index; `text` is empty if the definition is too large to be compared (`baselines.rs`).
CREATE TABLE baselines (
    server TEXT COLLATE "C" NOT NULL,
    item TEXT COLLATE "C" NOT NULL,
    item_digest BYTEA NOT NULL,
    digest TEXT NOT NULL,
    text TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (server, item_digest)
);

-- Calls of each day against limits (`call_days.rs`). `day` is a number since 1970, by UTC.
CREATE TABLE call_days (
    count TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    PRIMARY KEY (count, day)
);
-- What single calls took, until it can no longer be given back.
CREATE TABLE call_day_uses (
    call UUID NOT NULL,
    count TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    PRIMARY KEY (call, count)
);
CREATE INDEX call_day_uses_by_day ON call_day_uses (day);
