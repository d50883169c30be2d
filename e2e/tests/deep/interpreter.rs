//! The template `code-interpreter`: its warm kernels have what first cells need. The first run
//! builds the template.

use std::collections::BTreeSet;

use pandastack_client::{
    Client, Config,
    wire::{CellResult, CreateSandbox, RunCell, RunOnce},
};
use pandastack_testbed::{DataFolder, TestServer};

const LONG_MS: f64 = 120_000.0;

#[tokio::test]
async fn two_sandboxes_plot_at_once_and_draw_nothing_equal() {
    let data = DataFolder::with_templates().unwrap();
    data.add_template("code-interpreter").unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    let client = Client::new(config.with_key(server.key.clone())).unwrap();
    let mut drawn = BTreeSet::new();
    for _ in 0..2 {
        let ask = CreateSandbox { template: Some("code-interpreter".into()), ..CreateSandbox::default() };
        let id = client.create(&ask).await.unwrap().id;
        let python = client.open_code(&id, "python").await.unwrap().id;
        let cell = async |session: &str, code: &str| run(&client, &id, session, code).await;
        let names = "import sys\nprint({'pandas', 'matplotlib.pyplot'} <= {*sys.modules}, \
            *(name for name in globals() if name[0] != '_'))";
        assert_eq!(cell(&python, names).await.stdout, "True sys\n");
        let plot = cell(&python, "import pandas as pd\npd.DataFrame({'a': [1, 2]}).plot(); None").await;
        assert_eq!((plot.results.len(), plot.error), (1, None));
        assert!(plot.results[0]["image/png"].starts_with("iVBOR"));
        let draw = "import numpy, random, ssl; print(numpy.random.rand(), random.random(), ssl.RAND_bytes(8).hex())";
        drawn.extend(cell(&python, draw).await.stdout.split_ascii_whitespace().map(str::to_owned));

        let node = client.open_code(&id, "javascript").await.unwrap().id;
        let draw = "const crypto = require('crypto'); console.log(Math.random(), crypto.randomUUID(), \
            crypto.randomBytes(8).toString('hex'))";
        drawn.extend(cell(&node, draw).await.stdout.split_ascii_whitespace().map(str::to_owned));

        let ask = RunOnce { language: None, code: Some(names.into()), timeout_ms: Some(LONG_MS) };
        let once = client.run_once(&id, &ask).await.unwrap();
        assert_eq!((once.stdout.as_str(), once.exit_code), ("True sys\n", 0), "{once:?}");
    }
    assert_eq!(drawn.len(), 2 * 6, "{drawn:?}");
}

async fn run(client: &Client, id: &str, session: &str, code: &str) -> CellResult {
    let ask = RunCell { code: Some(code.to_owned()), timeout_ms: Some(LONG_MS) };
    client.run_cell(id, session, &ask).await.unwrap()
}
