-- Keys that only this server knows. What is signed with one lasts as long as the row.
CREATE TABLE signing_key (
    name       TEXT   PRIMARY KEY,
    bytes      BLOB   NOT NULL,
    created_at BIGINT NOT NULL
);
