-- Pause and resume: what happens at the deadline, how a paused sandbox rests, and what its guest daemon must be told when it boots again.

ALTER TABLE sandboxes ADD COLUMN on_timeout      INTEGER NOT NULL DEFAULT 0;       -- 0 kill, 1 pause
ALTER TABLE sandboxes ADD COLUMN keep_memory     INTEGER NOT NULL DEFAULT 1;
ALTER TABLE sandboxes ADD COLUMN auto_resume     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN timeout_ms      INTEGER NOT NULL DEFAULT 300000;
ALTER TABLE sandboxes ADD COLUMN rests_in_memory INTEGER NOT NULL DEFAULT 1;
ALTER TABLE sandboxes ADD COLUMN user            TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN workdir         TEXT NOT NULL DEFAULT '';
