//! The API contract, line by line: each test is named after the line that it proves.

mod accounts;
mod billing;
mod observability;
mod quotas;
mod stub;
mod texts;
mod webhooks;
mod wire;
