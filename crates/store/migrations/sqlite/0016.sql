-- The client for which the gateway hosts a task, so that it finds its tasks after a restart.

ALTER TABLE tasks ADD COLUMN hosted_for TEXT;
CREATE INDEX tasks_hosted ON tasks (hosted_for, id) WHERE hosted_for IS NOT NULL;
