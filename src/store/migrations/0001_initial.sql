-- Times are UTC milliseconds. Rows carry generation and owner epoch from the start, so that a cluster can come later.

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE tenants (
  id            TEXT PRIMARY KEY,
  name          TEXT NOT NULL UNIQUE,
  max_sandboxes INTEGER NOT NULL,
  created_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL REFERENCES tenants(id),
  name       TEXT NOT NULL,
  prefix     TEXT NOT NULL,
  hash       BLOB NOT NULL UNIQUE,
  role       INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE templates (
  id              TEXT PRIMARY KEY,
  tenant          TEXT NOT NULL REFERENCES tenants(id),
  name_space      TEXT NOT NULL,
  alias           TEXT NOT NULL,
  is_public       INTEGER NOT NULL,
  pool_size       INTEGER NOT NULL,  -- -1: the default of the host
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  last_spawned_at INTEGER NOT NULL,
  spawn_count     INTEGER NOT NULL,
  UNIQUE (name_space, alias)
) STRICT;

CREATE TABLE builds (
  id         TEXT PRIMARY KEY,
  template   TEXT NOT NULL REFERENCES templates(id) ON DELETE CASCADE,
  user       TEXT NOT NULL,
  workdir    TEXT NOT NULL,
  envs       TEXT NOT NULL,
  memory_bytes INTEGER NOT NULL,
  cpu_millis INTEGER NOT NULL,
  processes  INTEGER NOT NULL,
  open_files INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tags (
  template TEXT NOT NULL REFERENCES templates(id) ON DELETE CASCADE,
  tag      TEXT NOT NULL,
  build    TEXT NOT NULL REFERENCES builds(id) ON DELETE CASCADE,
  PRIMARY KEY (template, tag)
) STRICT;

CREATE TABLE sandboxes (
  id                 TEXT PRIMARY KEY,
  tenant             TEXT NOT NULL,
  template           TEXT NOT NULL,
  alias              TEXT NOT NULL,
  build              TEXT NOT NULL,
  tier               INTEGER NOT NULL,
  state              INTEGER NOT NULL,
  generation         INTEGER NOT NULL,
  owner_epoch        INTEGER NOT NULL,
  memory_bytes       INTEGER NOT NULL,
  cpu_millis         INTEGER NOT NULL,
  processes          INTEGER NOT NULL,
  open_files         INTEGER NOT NULL,
  disk_bytes         INTEGER NOT NULL,
  slot               INTEGER NOT NULL,
  interface          TEXT NOT NULL,
  pid                INTEGER NOT NULL,
  start_ticks        INTEGER NOT NULL,
  missing_layers     INTEGER NOT NULL,
  internal_token     BLOB NOT NULL,
  access_token       TEXT NOT NULL,
  traffic_token      TEXT NOT NULL,
  metadata           TEXT NOT NULL,
  network            TEXT NOT NULL,
  created_at         INTEGER NOT NULL,
  started_at         INTEGER NOT NULL,
  deadline           INTEGER NOT NULL,
  deadline_steady_ms INTEGER NOT NULL,
  ended_at           INTEGER NOT NULL,
  outcome            TEXT NOT NULL,
  reason             TEXT NOT NULL
) STRICT;
CREATE INDEX sandboxes_by_end ON sandboxes (ended_at);

CREATE TABLE intents (
  sandbox     TEXT PRIMARY KEY REFERENCES sandboxes(id) ON DELETE CASCADE,
  operation   INTEGER NOT NULL,
  due         INTEGER NOT NULL,
  owner_epoch INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  tenant  TEXT NOT NULL,
  sandbox TEXT NOT NULL,
  type    TEXT NOT NULL,
  message TEXT NOT NULL,
  data    TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_sandbox ON events (sandbox, seq);
CREATE INDEX events_by_tenant ON events (tenant, seq);
