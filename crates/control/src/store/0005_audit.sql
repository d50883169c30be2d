-- Changing requests of each workspace. No body, no query: both may hold secrets.
CREATE TABLE audit (
    id          TEXT   PRIMARY KEY,
    workspace   TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    request_id  TEXT   NOT NULL,
    method      TEXT   NOT NULL,
    route       TEXT   NOT NULL,
    path        TEXT   NOT NULL,
    status      BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    key_prefix  TEXT   NOT NULL
);
CREATE INDEX audit_of_workspace ON audit (workspace, at);
CREATE INDEX audit_age ON audit (at);
