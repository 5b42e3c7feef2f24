-- The same counts as `rollups` per hour, so that a plot of days reads few rows. `minute` is the start of the hour.
CREATE TABLE rollups_hourly (
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
INSERT INTO rollups_hourly
    SELECT minute / 3600000000 * 3600000000, server, tool, caller, state, sum(calls), sum(duration),
           sum(b0), sum(b1), sum(b2), sum(b3), sum(b4), sum(b5), sum(b6), sum(b7), sum(b8), sum(b9), sum(b10), sum(b11), sum(b12), sum(b13), sum(b14), sum(b15)
    FROM rollups GROUP BY 1, 2, 3, 4, 5;
