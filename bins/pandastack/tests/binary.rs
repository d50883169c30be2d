//! The built binary as a user starts it. These tests also make `cargo nextest` build it, for the
//! end-to-end tests.

use std::process::{Command, Output};

fn pandastack(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pandastack")).args(arguments).output().expect("start the binary")
}

#[test]
fn it_names_its_version() {
    let output = pandastack(&["--version"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().starts_with(concat!("pandastack ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn a_wrong_command_is_refused_and_says_what_helps() {
    let output = pandastack(&["sandbx", "list"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("sandbx") && said.contains("--help"), "{said}");
}
