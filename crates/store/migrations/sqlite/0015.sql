-- Roots that clients of the gateway supplied over HTTP, as JSON (`client_roots.rs`).
CREATE TABLE client_roots (
    client TEXT PRIMARY KEY,
    roots TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
