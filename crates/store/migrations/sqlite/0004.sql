-- A body knows its caller and its size, before the texts, so that retention reads no texts.
CREATE TABLE bodies_of_callers (
    call BLOB PRIMARY KEY,
    caller TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    arguments TEXT,
    result TEXT
) WITHOUT ROWID;
INSERT INTO bodies_of_callers
    SELECT b.call, c.caller, coalesce(octet_length(b.arguments), 0) + coalesce(octet_length(b.result), 0), b.arguments, b.result
    FROM bodies b JOIN calls c ON c.id = b.call;
DROP TABLE bodies;
ALTER TABLE bodies_of_callers RENAME TO bodies;
CREATE INDEX bodies_by_caller ON bodies (caller, call, bytes);

-- What each caller has in this file.
CREATE TABLE caller_usage (
    caller TEXT PRIMARY KEY,
    calls INTEGER NOT NULL DEFAULT 0,
    body_bytes INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO caller_usage (caller, calls) SELECT caller, count(*) FROM calls GROUP BY caller;
INSERT INTO caller_usage (caller, body_bytes) SELECT caller, sum(bytes) FROM bodies GROUP BY caller
    ON CONFLICT (caller) DO UPDATE SET body_bytes = excluded.body_bytes;
CREATE TRIGGER calls_added AFTER INSERT ON calls BEGIN
    INSERT INTO caller_usage (caller, calls) VALUES (NEW.caller, 1) ON CONFLICT (caller) DO UPDATE SET calls = calls + 1;
END;
CREATE TRIGGER calls_removed AFTER DELETE ON calls BEGIN
    UPDATE caller_usage SET calls = calls - 1 WHERE caller = OLD.caller;
END;
CREATE TRIGGER bodies_added AFTER INSERT ON bodies BEGIN
    INSERT INTO caller_usage (caller, body_bytes) VALUES (NEW.caller, NEW.bytes)
        ON CONFLICT (caller) DO UPDATE SET body_bytes = body_bytes + excluded.body_bytes;
END;
CREATE TRIGGER bodies_changed AFTER UPDATE OF bytes ON bodies BEGIN
    UPDATE caller_usage SET body_bytes = body_bytes + NEW.bytes - OLD.bytes WHERE caller = NEW.caller;
END;
CREATE TRIGGER bodies_removed AFTER DELETE ON bodies BEGIN
    UPDATE caller_usage SET body_bytes = body_bytes - OLD.bytes WHERE caller = OLD.caller;
END;

-- When retention first removed something, and when that was announced; NULL: not yet.
CREATE TABLE retention (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    first_removal INTEGER,
    announced INTEGER
);
INSERT INTO retention VALUES (1, NULL, NULL);
