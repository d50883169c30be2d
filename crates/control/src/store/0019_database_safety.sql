-- Databases that were deleted and whose backups may still be there. Written by the statement that
-- deletes the database, so that a server that is killed then removes them at its next start.
CREATE TABLE forgotten_archive (
    database_id TEXT PRIMARY KEY
);
-- The volume that has the data of a database while another one is being filled. It is given back if
-- that fails, also after a restart of the server.
ALTER TABLE managed_database ADD COLUMN kept_volume TEXT;
