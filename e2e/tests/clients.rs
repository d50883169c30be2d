//! Installs everything that other tests install on their first use: clients, drivers, frameworks.
//! It begins with the run and takes no turn of the tests with machines.

use std::{path::PathBuf, thread};

use pandastack_e2e::{
    browser::BrowserProgram,
    cookbook::Cookbook,
    drivers,
    own_sdk::{PythonSdk, TypeScriptSdk},
    project, published,
};

#[test]
fn every_client_can_be_installed() {
    let tests = |folder: &str| -> PathBuf { project().join("e2e/tests").join(folder) };
    // In the order in which the other tests need them.
    thread::scope(|scope| {
        scope.spawn(|| {
            BrowserProgram::of("dashboard-driver", &tests("dashboard"));
            TypeScriptSdk::installed();
            drivers::node();
            published::mcp_typescript(&tests("mcp"));
            published::typescript();
            published::browser_driver(&tests("sdk_browser"));
        });
        scope.spawn(|| {
            PythonSdk::installed();
            drivers::python();
            published::python();
            published::python_with_mcp();
            published::schemathesis();
        });
    });
    Cookbook::installed();
}
