//! `pandastack sandbox ports`

use std::process::ExitCode;

use pandastack_client::wire::DeclarePort;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg};

/// Arguments of `sandbox ports`.
#[derive(Debug, clap::Args)]
pub struct PortsArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Declare a port first
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    declare: Option<u16>,
    /// What the declared port is for
    #[arg(long, value_name = "TEXT", requires = "declare")]
    label: Option<String>,
    /// Remove the declaration of a port first
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    forget: Option<u16>,
}

/// Lists a sandbox's ports. Changes the declared ports first if asked.
pub async fn ports(args: PortsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let PortsArgs { sandbox, declare, label, forget } = args;
    let (client, id) = sandbox.find(global).await?;
    if let Some(port) = forget {
        client.undeclare_port(&id, port).await.map_err(advise)?;
    }
    if let Some(port) = declare {
        let ask = DeclarePort { port: Some(port.into()), label };
        client.declare_port(&id, &ask).await.map_err(advise)?;
    }
    let ports = client.ports(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&ports)?;
        return Ok(ExitCode::SUCCESS);
    }
    let reachable = ports.iter().find(|port| port.listening && !port.loopback_only).map(|port| port.port);
    let rows: Vec<_> = ports
        .into_iter()
        .map(|port| {
            let state = match (port.listening, port.loopback_only) {
                (false, _) => "not listening",
                (true, false) => "listening",
                (true, true) => "listening on 127.0.0.1 only",
            };
            let label = port.label.or(port.process).unwrap_or_default();
            vec![port.port.to_string(), label, state.to_owned(), port.source]
        })
        .collect();
    output::table(&["PORT", "WHAT", "STATE", "SOURCE"], &rows)?;
    if let Some(port) = reachable {
        eprintln!("get a link with: pandastack sandbox preview {id} {port}");
    }
    Ok(ExitCode::SUCCESS)
}
