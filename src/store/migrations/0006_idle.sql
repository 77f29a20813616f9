-- SPDX-License-Identifier: Apache-2.0
-- Pauses for want of work: after how long, when there was work last, and why a sandbox rests.
ALTER TABLE sandboxes ADD COLUMN idle_timeout_ms  INTEGER NOT NULL DEFAULT 0;  -- 0: it does not pause by itself
ALTER TABLE sandboxes ADD COLUMN active_steady_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN pause_cause      INTEGER NOT NULL DEFAULT 0;  -- 0 asked, 1 deadline, 2 idle
ALTER TABLE builds ADD COLUMN idle_timeout_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN idle_timeout_ms INTEGER NOT NULL DEFAULT 0;
