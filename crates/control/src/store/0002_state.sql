-- What a sandbox starts from, what it may reach and what it uses. `egress` is a JSON list; no list is no limit.
ALTER TABLE sandbox ADD COLUMN origin_layer TEXT;
ALTER TABLE sandbox ADD COLUMN from_snapshot TEXT;
ALTER TABLE sandbox ADD COLUMN egress TEXT;
ALTER TABLE sandbox ADD COLUMN bandwidth_mbps BIGINT;
ALTER TABLE sandbox ADD COLUMN volumes TEXT NOT NULL DEFAULT '[]';

-- Where it stands in its family.
ALTER TABLE sandbox ADD COLUMN parent TEXT;
ALTER TABLE sandbox ADD COLUMN fork_tree_id TEXT;
ALTER TABLE sandbox ADD COLUMN fork_index BIGINT;
-- What its idle limit becomes when it is promoted; empty if it has no limit of a tree.
ALTER TABLE sandbox ADD COLUMN promoted_ttl_seconds BIGINT;
ALTER TABLE sandbox ADD COLUMN promoted_persistent BOOLEAN;
CREATE INDEX sandbox_of_tree ON sandbox (workspace, fork_tree_id);
CREATE INDEX sandbox_of_parent ON sandbox (workspace, parent);

-- Deleted sandboxes that still have descendants, so that a family stays connected.
CREATE TABLE fork_ancestor (
    id         TEXT PRIMARY KEY,
    workspace  TEXT NOT NULL,
    parent     TEXT,
    template   TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL
);
CREATE INDEX fork_ancestor_of_parent ON fork_ancestor (workspace, parent);

-- `status` is `making`, `ready` or `deleting`; only `ready` ones are shown, and a start finishes the others.
CREATE TABLE snapshot (
    id         TEXT PRIMARY KEY,
    workspace  TEXT NOT NULL REFERENCES workspace (id),
    sandbox_id TEXT NOT NULL,
    template   TEXT NOT NULL,
    layer      TEXT NOT NULL,
    cpus       BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    status     TEXT NOT NULL
);
CREATE INDEX snapshot_of_workspace ON snapshot (workspace, created_at);

CREATE TABLE volume (
    id         TEXT PRIMARY KEY,
    workspace  TEXT NOT NULL REFERENCES workspace (id),
    name       TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    status     TEXT NOT NULL,
    UNIQUE (workspace, name)
);
