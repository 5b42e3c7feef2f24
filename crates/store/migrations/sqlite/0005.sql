-- A saved approval belongs to the entry of its server (`entry`, its digest) and covers a scope. Approvals from before have no
-- entry and so allow nothing any more; what they covered was recognised by words, which is not kept.
ALTER TABLE approvals ADD COLUMN entry TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN scope TEXT NOT NULL DEFAULT '"any"';
ALTER TABLE approvals ADD COLUMN unattended INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals DROP COLUMN arguments;
CREATE INDEX approvals_that_refuse ON approvals (server, tool) WHERE effect = 'deny';
