-- Who demands which isolation. A word is a tier or a risk, as it was said; empty: nothing was said.
ALTER TABLE tenants ADD COLUMN isolation     TEXT NOT NULL DEFAULT '';
ALTER TABLE tenants ADD COLUMN min_isolation TEXT NOT NULL DEFAULT '';
ALTER TABLE templates ADD COLUMN isolation     TEXT NOT NULL DEFAULT '';
ALTER TABLE templates ADD COLUMN min_isolation TEXT NOT NULL DEFAULT '';
-- Earlier rows had the host's default, which was container.
ALTER TABLE sandboxes ADD COLUMN asked    TEXT    NOT NULL DEFAULT 'container';
ALTER TABLE sandboxes ADD COLUMN asked_by INTEGER NOT NULL DEFAULT 0;
