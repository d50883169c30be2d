-- The plan of a workspace; '' is the default plan of the server. `quotas` has limits of its own as
-- JSON, which replace those of the plan; '' has none.
ALTER TABLE workspace ADD COLUMN plan TEXT NOT NULL DEFAULT '';
ALTER TABLE workspace ADD COLUMN quotas TEXT NOT NULL DEFAULT '';

-- Sandboxes that were created in each minute of the last hour, deleted ones included.
CREATE TABLE create_count (
    workspace TEXT   NOT NULL,
    minute    BIGINT NOT NULL,
    creates   BIGINT NOT NULL,
    PRIMARY KEY (workspace, minute)
);
