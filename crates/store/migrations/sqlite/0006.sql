-- Microseconds in which a call waited for a person. `duration` is without them; in calls from before it is with them.
ALTER TABLE calls ADD COLUMN waited INTEGER NOT NULL DEFAULT 0;
