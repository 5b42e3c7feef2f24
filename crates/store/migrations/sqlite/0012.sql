-- Which call holds which idempotency key. `digest` is that of the arguments. A call that was not sent holds none (`keys.rs`).
CREATE TABLE idempotency_keys (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    item TEXT NOT NULL,
    digest BLOB NOT NULL,
    call BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (at);
CREATE INDEX idempotency_keys_by_call ON idempotency_keys (call);

-- What a person found out about a call whose outcome is unknown.
CREATE TABLE settlements (
    call BLOB PRIMARY KEY,
    at INTEGER NOT NULL,
    happened INTEGER NOT NULL,
    note TEXT
) WITHOUT ROWID;
