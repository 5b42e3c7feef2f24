-- Whether an earlier result of the same resource answered a call, so that nothing was sent.
ALTER TABLE calls ADD COLUMN from_cache INTEGER NOT NULL DEFAULT 0;
