-- Microseconds until a call was sent, without waiting for a person; NULL if it was not sent, and in calls from before.
ALTER TABLE calls ADD COLUMN prepared INTEGER;
