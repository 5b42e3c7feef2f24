-- For each process the generation of its journal up to which everything is in this file (`journal.rs`).
CREATE TABLE journals (
    run BLOB PRIMARY KEY,
    generation INTEGER NOT NULL
) WITHOUT ROWID;
