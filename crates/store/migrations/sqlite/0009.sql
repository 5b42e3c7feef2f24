-- Answers of models to requests of servers: what counts against the quotas of sampling, and what a call has used. `tokens`
-- is the maximum until the model has answered, then what was used.
CREATE TABLE sampling (
    id BLOB PRIMARY KEY,
    at INTEGER NOT NULL,
    call BLOB,
    server TEXT NOT NULL,
    caller TEXT NOT NULL,
    model TEXT NOT NULL,
    reason TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    outcome TEXT
) WITHOUT ROWID;
CREATE INDEX sampling_by_time ON sampling (at, server, caller, tokens);
CREATE INDEX sampling_by_call ON sampling (call) WHERE call IS NOT NULL;
