-- Attempts to make templates. `status` is one of queued, running, baking, done, failed; only the last two are ends, and a start
-- makes an end of the others.
CREATE TABLE build (
    id         TEXT PRIMARY KEY,
    workspace  TEXT NOT NULL REFERENCES workspace (id),
    name       TEXT NOT NULL,
    status     TEXT NOT NULL,
    error      TEXT,
    size_mb    BIGINT NOT NULL,
    cpus       BIGINT,
    memory_mib BIGINT,
    bytes      BIGINT,
    image_ref  TEXT,
    started_at BIGINT NOT NULL,
    ended_at   BIGINT
);
CREATE INDEX build_of_workspace ON build (workspace, started_at);

-- Templates that belong to a workspace. `settings` is JSON: what the template says about commands in its sandboxes.
CREATE TABLE template (
    workspace  TEXT NOT NULL REFERENCES workspace (id),
    name       TEXT NOT NULL,
    layer      TEXT NOT NULL,
    base       TEXT NOT NULL,
    cpus       BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    disk_mib   BIGINT NOT NULL,
    settings   TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, name)
);

-- Layers after single steps, found again by everything that went into them.
CREATE TABLE build_layer (
    workspace TEXT NOT NULL,
    cache_key TEXT NOT NULL,
    layer     TEXT NOT NULL,
    bytes     BIGINT NOT NULL,
    used_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace, cache_key)
);

-- What builds hold on the host and nobody owns yet, or any more: written before it is made, removed after it is gone. A start
-- gives all of it up.
CREATE TABLE build_holding (
    id    TEXT PRIMARY KEY,
    kind  TEXT NOT NULL,
    build TEXT
);
