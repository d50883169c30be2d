-- The sandbox that a volume was copied for, and is deleted with. NULL: a volume of its own.
ALTER TABLE volume ADD COLUMN sandbox_id TEXT;
CREATE INDEX volume_of_sandbox ON volume (sandbox_id);
-- The volumes in a snapshot, as JSON, in the order of the sandbox.
ALTER TABLE snapshot ADD COLUMN volumes TEXT NOT NULL DEFAULT '[]';
