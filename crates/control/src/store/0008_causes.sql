-- The trace of the request that an event happened for, as a `traceparent`. Nothing for what happened by itself, and for what was queued
-- before this step.
ALTER TABLE webhook_delivery ADD COLUMN cause TEXT;
