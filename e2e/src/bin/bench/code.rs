//! Benchmarks of code in a new sandbox of `code-interpreter`: how long it takes from the create to
//! the result of a first cell with pandas, by the published Python client.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use pandastack_e2e::published;
use pandastack_testbed::{DataFolder, TestServer};

use crate::{
    api,
    table::{FigureTable, percentile},
};

const CREATES: usize = 10;

/// Times each create with its first cell. The standby pool is refilled in between, as between two
/// users.
const FIRST_CELL: &str = "
import sys, time
from pandastack import Sandbox
code = '''
import pandas as pd
frame = pd.DataFrame({'name': ['a', 'b', 'a'], 'value': [1, 2, 3]})
print(frame.groupby('name').value.sum()['a'])
'''
for _ in range(int(sys.argv[1]) + 1):
    begun = time.perf_counter()
    box = Sandbox.create(template='code-interpreter')
    done = box.create_code_context('python').run_code(code)
    took = time.perf_counter() - begun
    assert done.stdout == '4\\n', done
    print(took * 1000, flush=True)
    box.kill()
    time.sleep(3)
";

pub fn measure(table: &mut FigureTable) -> Result<()> {
    let data = DataFolder::with_templates()?;
    data.add_template("code-interpreter")?;
    let server = TestServer::start(data.path(), &[])?;
    if table.value("tti_ms_p50").is_none() {
        api::first_output(&server, table)?;
    }
    let output = Command::new(published::python())
        .args(["-c", FIRST_CELL, &CREATES.to_string()])
        .envs([("PANDASTACK_API", &server.url), ("PANDASTACK_API_KEY", &server.key)])
        .env("NO_PROXY", "*")
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    // The first one verifies the layer's digests, once per server.
    let mut times = said.lines().skip(1).map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let (first_cell, first_output) = (percentile(&mut times, 50), table.value("tti_ms_p50").context("measured above")?);
    table.report("code_first_ms", first_cell);
    table.report("code_first_per_tti", first_cell / first_output);
    Ok(())
}
