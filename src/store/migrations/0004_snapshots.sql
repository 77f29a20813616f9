-- Copies of disks that the runner stores. A row is written before its copy and goes after it; what a sandbox started
-- from it needs of its template is kept here, since the template may go.
CREATE TABLE snapshots (
  id           TEXT PRIMARY KEY,
  tenant       TEXT NOT NULL,
  state        INTEGER NOT NULL,
  is_fork      INTEGER NOT NULL,
  name_space   TEXT NOT NULL,
  name         TEXT NOT NULL,  -- empty: none
  tag          TEXT NOT NULL,
  sandbox      TEXT NOT NULL,
  tier         INTEGER NOT NULL,
  build        TEXT NOT NULL,
  template     TEXT NOT NULL,
  alias        TEXT NOT NULL,
  user         TEXT NOT NULL,
  workdir      TEXT NOT NULL,
  envs         TEXT NOT NULL,
  memory_bytes INTEGER NOT NULL,
  cpu_millis   INTEGER NOT NULL,
  processes    INTEGER NOT NULL,
  open_files   INTEGER NOT NULL,
  disk_bytes   INTEGER NOT NULL,
  stored_bytes INTEGER NOT NULL,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX snapshots_by_name ON snapshots (tenant, name, tag) WHERE name != '';
