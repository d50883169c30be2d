-- Keys that can be listed and revoked. A revoked key keeps its row, so that no later start makes it good again.
ALTER TABLE api_key ADD COLUMN id TEXT;
-- The key that made this one, or `operator` for one that was made on the server itself.
ALTER TABLE api_key ADD COLUMN created_by TEXT NOT NULL DEFAULT 'operator';
ALTER TABLE api_key ADD COLUMN last_used_at BIGINT;
ALTER TABLE api_key ADD COLUMN revoked_at BIGINT;
UPDATE api_key SET id = 'key_' || substr(hash, 1, 16);
CREATE UNIQUE INDEX api_key_id ON api_key (id);
CREATE INDEX api_key_of_workspace ON api_key (workspace, created_at);
