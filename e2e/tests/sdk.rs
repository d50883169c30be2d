//! Our own SDKs: their types and style, their own tests, and their tests against a real server with
//! real machines.

use std::process::{Command, Stdio};

use pandastack_e2e::own_sdk::{PythonSdk, TypeScriptSdk};
use pandastack_testbed::{DataFolder, TestServer};

/// Runs a command that must succeed.
fn good(command: &mut Command) {
    let output = command.env("NO_PROXY", "*").stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

/// Runs a command against a server of its own.
fn live(command: &mut Command) {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "1", "--blanks", "1"]).unwrap();
    good(command.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key));
}

mod python {
    use super::{PythonSdk, good, live};

    #[test]
    fn types_and_style_are_strict() {
        let sdk = PythonSdk::installed();
        good(sdk.command("ruff").args(["check", "."]));
        good(sdk.command("ruff").args(["format", "--check", "."]));
        good(&mut sdk.command("mypy"));
        good(sdk.command("pyright").arg("--pythonpath").arg(sdk.interpreter()));
    }

    #[test]
    fn its_own_tests_pass() {
        good(PythonSdk::installed().command("python").args(["-m", "pytest", "-q"]));
    }

    #[test]
    fn it_drives_real_machines() {
        live(PythonSdk::installed().command("python").args(["-m", "pytest", "-q", "-m", "live"]));
    }
}

mod typescript {
    use super::{TypeScriptSdk, good, live};

    #[test]
    fn types_and_style_are_strict() {
        let sdk = TypeScriptSdk::installed();
        good(&mut sdk.script("check"));
        good(&mut sdk.script("lint"));
    }

    #[test]
    fn its_own_tests_pass() {
        good(&mut TypeScriptSdk::installed().script("test"));
    }

    #[test]
    fn it_drives_real_machines() {
        live(&mut TypeScriptSdk::installed().script("test:live"));
    }

    #[test]
    fn the_package_installs_into_an_empty_project() {
        good(&mut TypeScriptSdk::installed().script("test:package"));
    }
}
