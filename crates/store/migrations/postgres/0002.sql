-- Several gateways over one database (decision 0028).

-- A member of a cluster is a process that writes, with these columns; they are NULL for others. `lease` is in microseconds.
-- A member that has ended keeps its row while a lease names it.
ALTER TABLE runs ADD COLUMN gateway UUID;
ALTER TABLE runs ADD COLUMN generation BIGINT;
ALTER TABLE runs ADD COLUMN address TEXT;
ALTER TABLE runs ADD COLUMN lease BIGINT;
ALTER TABLE runs ADD COLUMN ended_at TIMESTAMPTZ;
CREATE UNIQUE INDEX runs_by_generation ON runs (generation) WHERE generation IS NOT NULL;
CREATE SEQUENCE member_generations;

-- Which member holds what only one may hold: `server:NAME` or `session:ID`. `lease` is that of the member, in microseconds.
CREATE TABLE leases (
    key TEXT COLLATE "C" PRIMARY KEY,
    generation BIGINT NOT NULL,
    lease BIGINT NOT NULL
) WITH (fillfactor = 85);
CREATE INDEX leases_by_generation ON leases (generation);

-- Sessions of clients that any gateway rebuilds (`client_sessions.rs`). `key` is the fingerprint of the client's key.
CREATE TABLE client_sessions (
    id UUID PRIMARY KEY,
    principal TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    revision TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    log_level TEXT,
    subscriptions TEXT[] NOT NULL,
    began_at TIMESTAMPTZ NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX client_sessions_by_principal ON client_sessions (principal, seen_at);
CREATE INDEX client_sessions_by_time ON client_sessions (seen_at);
