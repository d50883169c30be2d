-- The sandbox that a volume was copied for, which its usage is reported with.
ALTER TABLE usage_subject ADD COLUMN of_sandbox TEXT;
UPDATE usage_subject SET of_sandbox = (SELECT sandbox_id FROM volume WHERE volume.id = usage_subject.id)
    WHERE kind = 'volume';
