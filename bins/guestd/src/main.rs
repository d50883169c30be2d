//! The guest agent's program. As the first process of a machine it boots and serves. Otherwise it
//! serves beside other programs and changes nothing about the system: `guestd --listen ADDR:PORT
//! --secret HEX`.

use std::{error::Error, io::Write, net::SocketAddr, process::ExitCode, rc::Rc};

use pandastack_guest::{Agent, MachineSystem, RecordingSystem, System, boot, serve};
use pandastack_wire_guest::AGENT_PORT;
use tokio::{net::TcpListener, runtime::Builder};

/// Listening address, accepted secret, and the system to act on.
struct Settings {
    listen: SocketAddr,
    secret: Vec<u8>,
    system: Box<dyn System>,
}

fn main() -> ExitCode {
    let first = std::process::id() == 1;
    let settings = if first { booted() } else { from_arguments() };
    let Err(error) = settings.and_then(run);
    let mut text = format!("pandastack guest agent: {error}");
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text.push_str(&format!(": {deeper}"));
        cause = deeper.source();
    }
    boot::announce(&text);
    if first {
        boot::give_up();
    }
    ExitCode::FAILURE
}

fn booted() -> Result<Settings, Box<dyn Error>> {
    let orders = boot::run()?;
    let listen = SocketAddr::from(([0, 0, 0, 0], AGENT_PORT));
    Ok(Settings { listen, secret: orders.secret, system: Box::new(MachineSystem::open()?) })
}

fn from_arguments() -> Result<Settings, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--listen", listen, "--secret", secret] => {
            let secret = boot::bytes_of_hex(secret)
                .filter(|secret| !secret.is_empty())
                .ok_or("the secret must be hex digits")?;
            // Adopts orphaned descendants, as the first process would.
            nix::sys::prctl::set_child_subreaper(true)?;
            Ok(Settings { listen: listen.parse()?, secret, system: Box::<RecordingSystem>::default() })
        }
        _ => Err("usage: guestd --listen ADDR:PORT --secret HEX (or as the first process of a machine)".into()),
    }
}

/// Serves until the machine ends; returns only if it cannot start.
fn run(settings: Settings) -> Result<std::convert::Infallible, Box<dyn Error>> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(2)
        .build_local(Default::default())?;
    runtime.block_on(async {
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let agent: Rc<Agent> = Agent::new(settings.secret, address.port(), settings.system)?;
        match std::process::id() {
            1 => boot::announce("pandastack guest agent ready"),
            // Tests use any free port and read it here.
            _ => writeln!(std::io::stdout(), "pandastack guest agent ready on {address}")?,
        }
        match serve(listener, agent).await {}
    })
}
