//! Benchmarks of the clients: what an SDK adds to its requests, how long it takes to import, and
//! how long the command line takes to start. Plain requests and those of the SDK alternate in one
//! process, so that noise meets both.

use std::{process::Command, time::Instant};

use anyhow::{Context, Result, ensure};
use pandastack_e2e::{
    own_sdk::{PythonSdk, TypeScriptSdk},
    published,
};
use pandastack_testbed::{DataFolder, TestServer, built};

use crate::table::{FigureTable, ms, percentile};

const CREATES: usize = 8;
/// Runs of each Python client, in turns.
const ROUNDS: usize = 6;
const COMMANDS: usize = 1000;
const STARTS: usize = 30;

pub fn measure(table: &mut FigureTable) -> Result<()> {
    let (python, typescript) = (PythonSdk::installed(), TypeScriptSdk::installed());
    let data = DataFolder::with_templates()?;
    let server = TestServer::start(data.path(), &[])?;
    creates(&server, &python, table)?;
    commands(&server, &typescript, table)?;
    let import = |code: &str| started(python.command("python").args(["-c", code]));
    table.report("sdk_import_ms", import("import pandastack")? - import("pass")?);
    table.report("cli_start_ms", started(Command::new(built("pandastack")).arg("--version"))?);
    Ok(())
}

fn creates(server: &TestServer, python: &PythonSdk, table: &mut FigureTable) -> Result<()> {
    let script = include_str!("clients/creates.py");
    let (mut plain, mut own, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let measured = |mut command: Command, clients: &mut Vec<f64>, plain: Option<&mut Vec<f64>>| {
            let pairs = pairs(command.args(["-c", script, &CREATES.to_string()]), server)?;
            // The first one opens the connections.
            clients.extend(pairs.iter().skip(1).map(|pair| pair.1));
            plain.into_iter().for_each(|plain| plain.extend(pairs.iter().skip(1).map(|pair| pair.0)));
            anyhow::Ok(())
        };
        measured(Command::new(published::python()), &mut theirs, None)?;
        measured(python.command("python"), &mut own, Some(&mut plain))?;
    }
    let (plain, own, theirs) = (percentile(&mut plain, 50), percentile(&mut own, 50), percentile(&mut theirs, 50));
    table.report("sdk_overhead_ms", own - plain);
    table.report("sdk_vs_published", own / theirs);
    Ok(())
}

fn commands(server: &TestServer, typescript: &TypeScriptSdk, table: &mut FigureTable) -> Result<()> {
    let script = typescript.folder().join("bench-commands.mjs");
    std::fs::write(&script, include_str!("clients/commands.mjs"))?;
    let mut command = Command::new("node");
    command.arg(&script).arg(typescript.folder()).arg(COMMANDS.to_string());
    let pairs = pairs(&mut command, server)?;
    let (mut plain, mut own): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    table.report("sdk_ws_overhead_ms", percentile(&mut own, 50) - percentile(&mut plain, 50));
    Ok(())
}

/// Runs a script that prints two times on each line.
fn pairs(command: &mut Command, server: &TestServer) -> Result<Vec<(f64, f64)>> {
    command.envs([("PANDASTACK_API", &server.url), ("PANDASTACK_API_KEY", &server.key)]).env("NO_PROXY", "*");
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pair = |line: &str| -> Result<(f64, f64)> {
        let (one, other) = line.split_once(' ').context("two times")?;
        Ok((one.parse()?, other.parse()?))
    };
    String::from_utf8(output.stdout)?.lines().map(pair).collect()
}

/// Returns how long a program runs.
fn started(command: &mut Command) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let output = command.output()?;
        times.push(ms(begun.elapsed()));
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(percentile(&mut times, 50))
}
