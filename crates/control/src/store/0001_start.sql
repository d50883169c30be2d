-- Times are nanoseconds since the Unix epoch. Types are those that SQLite and PostgreSQL both read.
CREATE TABLE workspace (
    id         TEXT PRIMARY KEY,
    created_at BIGINT NOT NULL
);

-- Only the SHA-256 of a key is kept.
CREATE TABLE api_key (
    hash       TEXT PRIMARY KEY,
    prefix     TEXT NOT NULL,
    workspace  TEXT NOT NULL REFERENCES workspace (id),
    label      TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- What is wanted (spec), and what the host last said about it.
CREATE TABLE sandbox (
    id            TEXT PRIMARY KEY,
    workspace     TEXT NOT NULL REFERENCES workspace (id),
    generation    BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    template      TEXT NOT NULL,
    ttl_seconds   BIGINT NOT NULL,
    persistent    BOOLEAN NOT NULL,
    metadata      TEXT NOT NULL,
    env           TEXT NOT NULL,
    cpus          BIGINT NOT NULL,
    memory_mib    BIGINT NOT NULL,
    status        TEXT NOT NULL,
    status_reason TEXT,
    guest_ip      TEXT NOT NULL,
    boot_ms       BIGINT NOT NULL,
    boot_mode     TEXT NOT NULL,
    isolation     TEXT NOT NULL
);
CREATE INDEX sandbox_of_workspace ON sandbox (workspace, created_at);

-- Ids deleted a short time ago, so that a repeated DELETE succeeds.
CREATE TABLE deleted_sandbox (
    id         TEXT PRIMARY KEY,
    workspace  TEXT NOT NULL,
    deleted_at BIGINT NOT NULL
);
CREATE INDEX deleted_sandbox_age ON deleted_sandbox (deleted_at);
