-- Stable error code of a call that was refused, so that its cause is known without its message.
ALTER TABLE calls ADD COLUMN code TEXT;
