-- SPDX-License-Identifier: Apache-2.0
-- What the sandboxes of a tenant may hold together; 0 is no limit.
ALTER TABLE tenants ADD COLUMN max_memory_mib INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN max_cpu_millis INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN max_processes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN max_disk_mib INTEGER NOT NULL DEFAULT 0;
