-- What usage is counted for: sandboxes and volumes. Rows outlive what they name, because bills need
-- them. `member` created it. Nothing is billed after `ended_at`. Hours before `settled_ns` are
-- final. The worker counts a row again at `count_at`.
CREATE TABLE usage_subject (
    id         TEXT   PRIMARY KEY,
    kind       TEXT   NOT NULL,
    workspace  TEXT   NOT NULL,
    template   TEXT   NOT NULL,
    member     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at   BIGINT,
    settled_ns BIGINT NOT NULL,
    count_at   BIGINT NOT NULL
);
CREATE INDEX usage_subject_due ON usage_subject (count_at);

-- What hosts told about sandboxes, and sizes of volumes. Only facts that can still change an hour.
CREATE TABLE usage_fact (
    subject     TEXT   NOT NULL,
    epoch       BIGINT NOT NULL,
    sequence    BIGINT NOT NULL,
    kind        TEXT   NOT NULL,
    vcpus       BIGINT NOT NULL,
    memory_mib  BIGINT NOT NULL,
    storage_mib BIGINT NOT NULL,
    at_ns       BIGINT NOT NULL,
    seen_ns     BIGINT NOT NULL,
    PRIMARY KEY (subject, epoch, sequence)
);

-- Usage of one subject in one hour, while the hour can still change. Times are milliseconds, so that
-- all sums are exact whole numbers. `hour` is Unix time in hours, `day` in days.
CREATE TABLE usage_hour (
    subject        TEXT   NOT NULL,
    hour           BIGINT NOT NULL,
    vcpu_ms        BIGINT NOT NULL,
    memory_mib_ms  BIGINT NOT NULL,
    storage_mib_ms BIGINT NOT NULL,
    PRIMARY KEY (subject, hour)
);

-- The same by subject and day, for reports.
CREATE TABLE usage_day (
    workspace      TEXT   NOT NULL,
    day            BIGINT NOT NULL,
    subject        TEXT   NOT NULL,
    vcpu_ms        BIGINT NOT NULL,
    memory_mib_ms  BIGINT NOT NULL,
    storage_mib_ms BIGINT NOT NULL,
    PRIMARY KEY (workspace, day, subject)
);

-- The same by workspace and hour, for bills: a month has at most 744 rows.
CREATE TABLE usage_total (
    workspace      TEXT   NOT NULL,
    hour           BIGINT NOT NULL,
    vcpu_ms        BIGINT NOT NULL,
    memory_mib_ms  BIGINT NOT NULL,
    storage_mib_ms BIGINT NOT NULL,
    PRIMARY KEY (workspace, hour)
);

-- How far each host's ledger was read.
CREATE TABLE usage_cursor (
    ledger   TEXT   PRIMARY KEY,
    revision BIGINT NOT NULL,
    read_at  BIGINT NOT NULL
);

-- Who pays for a workspace. `subscription` and `budget` are JSON; '' if there is none. Usage before
-- `enqueued_hour` is in meter events. `alerted` names the month and state of the last alert.
CREATE TABLE billing_account (
    workspace     TEXT   PRIMARY KEY,
    customer      TEXT   NOT NULL,
    subscription  TEXT   NOT NULL,
    budget        TEXT   NOT NULL,
    enqueued_hour BIGINT NOT NULL,
    alerted       TEXT   NOT NULL
);
CREATE UNIQUE INDEX billing_account_customer ON billing_account (customer) WHERE customer <> '';

-- Usage on its way to Stripe: one row for each workspace and hour with a cost. `month` is the first
-- hour of the month. A row with `posted_at_s` or `dead` is never sent again by itself.
CREATE TABLE pending_meter_events (
    identifier     TEXT   PRIMARY KEY,
    workspace      TEXT   NOT NULL,
    month          BIGINT NOT NULL,
    hour           BIGINT NOT NULL,
    event_name     TEXT   NOT NULL,
    customer       TEXT   NOT NULL,
    value          BIGINT NOT NULL,
    timestamp_s    BIGINT NOT NULL,
    tries          BIGINT NOT NULL,
    key_turn       BIGINT NOT NULL,
    unsure_since_s BIGINT,
    next_try_s     BIGINT NOT NULL,
    claimed_until  BIGINT NOT NULL,
    posted_at_s    BIGINT,
    dead           TEXT,
    note           TEXT   NOT NULL
);
CREATE INDEX pending_meter_events_due ON pending_meter_events (next_try_s)
    WHERE posted_at_s IS NULL AND dead IS NULL;
CREATE INDEX pending_meter_events_of_workspace ON pending_meter_events (workspace, month);

-- Events of Stripe that were applied. Each counts once.
CREATE TABLE processed_stripe_events (
    id           TEXT   PRIMARY KEY,
    processed_at BIGINT NOT NULL
);

-- Work that one server at a time does.
CREATE TABLE worker_lease (
    name   TEXT   PRIMARY KEY,
    holder TEXT   NOT NULL,
    until  BIGINT NOT NULL
);

-- Why nothing new may start in a workspace: a code and a text. '' if it may.
ALTER TABLE workspace ADD COLUMN hold TEXT NOT NULL DEFAULT '';
ALTER TABLE workspace ADD COLUMN hold_reason TEXT NOT NULL DEFAULT '';

-- Size of the disk of a sandbox; 0 if it is not known yet.
ALTER TABLE sandbox ADD COLUMN disk_mib BIGINT NOT NULL DEFAULT 0;
ALTER TABLE snapshot ADD COLUMN disk_mib BIGINT NOT NULL DEFAULT 0;

-- Usage is counted for what exists.
INSERT INTO usage_subject (id, kind, workspace, template, member, created_at, settled_ns, count_at)
    SELECT id, 'sandbox', workspace, template, '', created_at, 0, 0 FROM sandbox;
INSERT INTO usage_subject (id, kind, workspace, template, member, created_at, settled_ns, count_at)
    SELECT id, 'volume', workspace, name, '', created_at, 0, 0 FROM volume WHERE status = 'ready';
