-- SPDX-License-Identifier: Apache-2.0
-- Why the memory of a paused sandbox is not in files, where its tier could have put it there.
ALTER TABLE sandboxes ADD COLUMN memory_note TEXT NOT NULL DEFAULT '';
