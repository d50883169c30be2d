-- The server that works on a request with an idempotency key. Its lease is "server/" and this name.
-- '' in rows of earlier versions.
ALTER TABLE attempt ADD COLUMN server TEXT NOT NULL DEFAULT '';
CREATE INDEX attempt_unfinished ON attempt (server) WHERE status IS NULL;
