-- Calls of each day against limits (`call_days.rs`). `day` is a number since 1970, by UTC.
CREATE TABLE call_days (
    count TEXT NOT NULL,
    day INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (count, day)
) WITHOUT ROWID;

-- What single calls took, until it can no longer be given back.
CREATE TABLE call_day_uses (
    call BLOB NOT NULL,
    count TEXT NOT NULL,
    day INTEGER NOT NULL,
    PRIMARY KEY (call, count)
) WITHOUT ROWID;

CREATE INDEX call_day_uses_by_day ON call_day_uses (day);
