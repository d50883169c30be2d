//! Tests of the built agent as an ordinary process, over its link. One test program for all files,
//! so that it is built once.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

mod common;
mod exec;
mod files;
mod flow;
mod processes;
mod session;
mod terminal;
mod trees;
