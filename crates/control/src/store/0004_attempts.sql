-- When a key stops working; empty if it never does.
ALTER TABLE api_key ADD COLUMN expires_at BIGINT;

-- Requests that came with an idempotency key. Without a status the request is under way, or was cut off by the server's end.
CREATE TABLE attempt (
    workspace  TEXT   NOT NULL,
    key        TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    status     BIGINT,
    answer     BLOB,
    PRIMARY KEY (workspace, key)
);
CREATE INDEX attempt_age ON attempt (created_at);

-- What a request with a key is about to make, so that the next start can take it back if nobody was told of it.
CREATE TABLE attempt_made (
    workspace TEXT NOT NULL,
    key       TEXT NOT NULL,
    kind      TEXT NOT NULL,
    id        TEXT NOT NULL,
    PRIMARY KEY (workspace, key, kind, id)
);
