-- Managed PostgreSQL databases. The id is that of the sandbox.
CREATE TABLE managed_database (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    label TEXT,
    size TEXT NOT NULL,
    always_on BOOLEAN NOT NULL,
    -- The database that this one was branched from.
    branched_from TEXT,
    -- NULL until the database has credentials of its own.
    password TEXT,
    broker_token TEXT,
    -- Why it could not be made.
    error TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX managed_database_of_workspace ON managed_database (workspace, created_at);
-- Sealed machines with a running server and an empty cluster, from which databases start. One for
-- each layer of a template.
CREATE TABLE golden_database (
    template_layer TEXT PRIMARY KEY,
    template TEXT NOT NULL,
    layer TEXT NOT NULL,
    -- What it is made with. Both are gone when it is ready.
    sandbox_id TEXT NOT NULL,
    volume_id TEXT NOT NULL,
    ready BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);
