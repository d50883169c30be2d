-- People. `password` is an argon2id string; without one a user signs in through a provider. A user
-- of a provider's tokens has the provider's id. E-mail addresses are lower case; '' if not known.
CREATE TABLE user_account (
    id            TEXT    PRIMARY KEY,
    email         TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    password      TEXT,
    operator      BOOLEAN NOT NULL,
    disabled      BOOLEAN NOT NULL,
    created_at    BIGINT  NOT NULL,
    last_login_at BIGINT
);
-- Only one user can sign in with a password and a given address.
CREATE UNIQUE INDEX user_account_password ON user_account (email) WHERE password IS NOT NULL;
CREATE INDEX user_account_email ON user_account (email);

-- Whom a provider's subject is here.
CREATE TABLE user_identity (
    issuer     TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    user_id    TEXT   NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);

-- Sign-ins. Only the SHA-256 of a session's token is kept, and of a reset link's.
CREATE TABLE user_session (
    hash         TEXT   PRIMARY KEY,
    user_id      TEXT   NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    address      TEXT   NOT NULL,
    agent        TEXT   NOT NULL
);
CREATE INDEX user_session_of_user ON user_session (user_id, created_at);
CREATE INDEX user_session_end ON user_session (expires_at);

CREATE TABLE password_reset (
    hash       TEXT   PRIMARY KEY,
    user_id    TEXT   NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Organisations. `workspace` is the slug: what the org owns has it as its workspace. An org with
-- `deleting_at` is hidden, and what it owns is being removed.
CREATE TABLE org (
    id          TEXT   PRIMARY KEY,
    workspace   TEXT   NOT NULL UNIQUE REFERENCES workspace (id),
    name        TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    deleting_at BIGINT
);

-- `role` is owner, admin or member.
CREATE TABLE org_member (
    org       TEXT   NOT NULL REFERENCES org (id) ON DELETE CASCADE,
    user_id   TEXT   NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    role      TEXT   NOT NULL,
    joined_at BIGINT NOT NULL,
    PRIMARY KEY (org, user_id)
);
CREATE INDEX org_member_of_user ON org_member (user_id, joined_at);

CREATE TABLE org_invite (
    hash       TEXT   PRIMARY KEY,
    id         TEXT   NOT NULL UNIQUE,
    org        TEXT   NOT NULL REFERENCES org (id) ON DELETE CASCADE,
    email      TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    invited_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT,
    used_by    TEXT
);
CREATE INDEX org_invite_of_org ON org_invite (org, created_at);

-- The org that a user last chose.
CREATE TABLE user_current_org (
    user_id TEXT PRIMARY KEY REFERENCES user_account (id) ON DELETE CASCADE,
    org     TEXT NOT NULL REFERENCES org (id) ON DELETE CASCADE
);

-- Logins at an identity provider that have begun. `cookie` is the SHA-256 of a cookie in the browser
-- that began it; `challenge` is what the code at the end is bound to.
CREATE TABLE oidc_login (
    state      TEXT   PRIMARY KEY,
    pending    TEXT   NOT NULL,
    cookie     TEXT   NOT NULL,
    redirect   TEXT   NOT NULL,
    challenge  TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Codes at the end of such logins, each to be exchanged once for a session.
CREATE TABLE login_code (
    hash       TEXT   PRIMARY KEY,
    user_id    TEXT   NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    challenge  TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Credentials and users whose rights have shrunk, for the caches of all servers. A subject is the
-- hash of a key or session, or the id of a user. Numbers grow in the order of the commits. `server`
-- has applied it already.
CREATE TABLE revocation (
    number  BIGINT PRIMARY KEY,
    server  TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    at      BIGINT NOT NULL
);
