-- Which terms of a sandbox are in its row and perhaps not yet in force on the host: 1 what it may reach, 2 its idle limit.
ALTER TABLE sandbox ADD COLUMN unapplied_terms BIGINT NOT NULL DEFAULT 0;
