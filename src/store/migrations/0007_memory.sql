-- SPDX-License-Identifier: Apache-2.0
-- Snapshots with memory. The guest daemon in one knows the internal token of the sandbox that it was made of, until it is
-- told that of its own.
ALTER TABLE snapshots ADD COLUMN memory INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN internal_token BLOB NOT NULL DEFAULT x'';
