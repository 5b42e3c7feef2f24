-- Whether a call was sent and answered: `answered`, `not-sent`, `unknown`; NULL while it is open, and in calls from before.
ALTER TABLE calls ADD COLUMN outcome TEXT;
-- Whether the item is annotated idempotent or read-only, so that a second call does no harm.
ALTER TABLE calls ADD COLUMN idempotent INTEGER NOT NULL DEFAULT 0;
-- Calls of which it is not known whether their server acted.
CREATE INDEX calls_unknown ON calls (id) WHERE outcome = 'unknown';
