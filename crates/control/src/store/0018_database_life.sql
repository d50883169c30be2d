-- The password that the machine gets next. It is written before it is set, so that a server that was
-- killed in between knows both. A database is ready when it has a broker token.
ALTER TABLE managed_database ADD COLUMN next_password TEXT;
-- The database whose archive this one was restored from.
ALTER TABLE managed_database ADD COLUMN cloned_from TEXT;
-- The layer of the template that its machine was started from, to know of newer ones.
ALTER TABLE managed_database ADD COLUMN template_layer TEXT;
-- What is still to be done to its machine: `restart`, `restore` or `reset`.
ALTER TABLE managed_database ADD COLUMN repair TEXT;
-- The time that a restore aims at, in nanoseconds.
ALTER TABLE managed_database ADD COLUMN restore_to BIGINT;
-- The last restore drill, as JSON.
ALTER TABLE managed_database ADD COLUMN drill TEXT;
-- The password of the tenant's role in the sealed machine.
ALTER TABLE golden_database ADD COLUMN password TEXT;
