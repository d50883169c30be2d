-- Sandboxes, databases and volumes of the host that this database never knew, for example because an older backup of it was
-- restored. They are kept until `expires_at` and are in no workspace.
CREATE TABLE orphan (
    id            TEXT PRIMARY KEY,
    -- `sandbox`, `database` or `volume`.
    kind          TEXT NOT NULL,
    -- `found`, `kept`, `adopting`, `adopted` or `removing`.
    state         TEXT NOT NULL,
    -- While it is adopted: the workspace that gets it, and the name of a volume.
    new_workspace TEXT,
    new_name      TEXT,
    -- While it is removed: `request` or `expiry`.
    removed_by    TEXT,
    -- Why the last request was not carried out.
    error         TEXT,
    -- The backup that was restored, if one was.
    backup        TEXT,
    put_aside_at  BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    -- What the host knew of it.
    host_state    TEXT NOT NULL,
    template      TEXT,
    workspace     TEXT,
    of_sandbox    TEXT,
    since         BIGINT,
    cpus          BIGINT NOT NULL,
    memory_mib    BIGINT NOT NULL,
    disk_mib      BIGINT NOT NULL,
    ttl_seconds   BIGINT NOT NULL,
    persistent    BOOLEAN NOT NULL
);
CREATE INDEX orphan_of_sandbox ON orphan (of_sandbox);
-- Restores of an older backup, written into the backup before it takes the place of the database. `settled_at` is set when the
-- server has dealt with what was in progress at the time of the backup.
CREATE TABLE restore_mark (
    id          TEXT PRIMARY KEY,
    backup      TEXT NOT NULL,
    restored_at BIGINT NOT NULL,
    settled_at  BIGINT
);
