-- Definitions as they were first seen or last accepted. `item` is empty for the entry of a server; `text` is empty if the
-- definition is too large to be compared (`baselines.rs`).
CREATE TABLE baselines (
    server TEXT NOT NULL,
    item TEXT NOT NULL,
    digest TEXT NOT NULL,
    text TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (server, item)
) WITHOUT ROWID;
