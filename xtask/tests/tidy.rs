//! The built program: its rules hold for this workspace, and a wrong command is refused. With this
//! test, a build of all tests makes the program too.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::Command;

#[test]
fn this_workspace_is_tidy() {
    let tidy = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("tidy").output().unwrap();
    assert!(tidy.status.success(), "{}", String::from_utf8_lossy(&tidy.stdout));
}

#[test]
fn an_unknown_command_is_refused_by_its_name() {
    let refused = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("tydi").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("unrecognized subcommand 'tydi'"), "{said}");
}
