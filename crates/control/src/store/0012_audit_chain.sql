-- Who sent each request and from where, and a hash chain over the entries of each workspace. Entries
-- of earlier versions have no number and are outside of the chain.
ALTER TABLE audit ADD COLUMN actor TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN actor_email TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN number BIGINT;
ALTER TABLE audit ADD COLUMN previous_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX audit_number ON audit (workspace, number);

-- The head is the newest entry, the anchor the newest one that was removed because of its age. A
-- head without its entry means that somebody removed it. `unnumbered` counts entries without a number.
CREATE TABLE audit_chain (
    workspace     TEXT   PRIMARY KEY,
    head_number   BIGINT NOT NULL,
    head_hash     TEXT   NOT NULL,
    anchor_number BIGINT NOT NULL,
    anchor_hash   TEXT   NOT NULL,
    unnumbered    BIGINT NOT NULL
);
INSERT INTO audit_chain (workspace, head_number, head_hash, anchor_number, anchor_hash, unnumbered)
    SELECT workspace, 0, '', 0, '', COUNT(*) FROM audit GROUP BY workspace;
