-- The last state that subscribers were told of. What differs from the present one is still to be told.
ALTER TABLE sandbox ADD COLUMN announced TEXT;

-- Secrets are kept as they are: they sign. `events` is a JSON list of patterns.
CREATE TABLE webhook (
    id               TEXT PRIMARY KEY,
    workspace        TEXT NOT NULL REFERENCES workspace (id),
    url              TEXT NOT NULL,
    events           TEXT NOT NULL,
    description      TEXT NOT NULL,
    enabled          BOOLEAN NOT NULL,
    disabled_reason  TEXT,
    secret           BLOB NOT NULL,
    old_secret       BLOB,
    old_secret_until BIGINT,
    failing_since    BIGINT,
    dropped          BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
CREATE INDEX webhook_of_workspace ON webhook (workspace, created_at);

-- The number of the last event that anybody in a workspace was told of.
CREATE TABLE webhook_sequence (
    workspace TEXT PRIMARY KEY,
    last      BIGINT NOT NULL
);

-- The outbox and its history. `status` is `pending`, `delivered` or `dead`; `attempts` is a JSON list of the last ones.
CREATE TABLE webhook_delivery (
    id          TEXT PRIMARY KEY,
    webhook     TEXT NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    workspace   TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    kind        TEXT NOT NULL,
    sequence    BIGINT NOT NULL,
    body        TEXT NOT NULL,
    status      TEXT NOT NULL,
    tries       BIGINT NOT NULL,
    next_at     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    finished_at BIGINT,
    attempts    TEXT NOT NULL
);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook, status, next_at);
CREATE INDEX webhook_delivery_ended ON webhook_delivery (webhook, status, finished_at);
CREATE INDEX webhook_delivery_of_workspace ON webhook_delivery (workspace, status, finished_at);
