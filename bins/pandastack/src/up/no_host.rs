//! `pandastack up --no-host`: the API beside a server with a host, on the same database. It needs
//! neither root nor a data folder.

use std::{io::Write as _, process::ExitCode, sync::Arc};

use anyhow::{Context, Result};
use pandastack_control::{Control, ControlPlace, DatabaseAddress, start_telemetry};
use pandastack_kit::{Scope, trace::SpanQueue};
use pandastack_wire_fleet::{HostPort, NoHost};

use super::{CLOSE_DEADLINE, UpArgs, listener::ApiListener, tell};
use crate::{notify, stop::asked_to_stop};

impl UpArgs {
    /// Runs the server without a host, from start to clean stop.
    pub(super) async fn run_without_host(self, descriptors: u64) -> Result<ExitCode> {
        let (telemetry, doorway) = (self.telemetry.settings()?, self.open_door(descriptors, None).await?);
        let (scope, collecting) = (Scope::new(), Scope::new());
        let spans = telemetry.map(|settings| start_telemetry(settings, &collecting));
        let served = self.serve_without_host(&scope, doorway, spans).await;
        let close = async {
            scope.close(CLOSE_DEADLINE).await;
            collecting.close(CLOSE_DEADLINE).await;
            if let Ok(control) = &served {
                control.close().await;
            }
        };
        tokio::select! {
            () = close => {}
            () = asked_to_stop() => tell("stopped at once"),
        }
        served.map(|_| ExitCode::SUCCESS)
    }

    async fn serve_without_host(
        &self,
        scope: &Scope,
        doorway: ApiListener,
        spans: Option<SpanQueue>,
    ) -> Result<Control> {
        let url =
            self.database_url.clone().context("--no-host needs the other server's PostgreSQL: set --database-url")?;
        let database = DatabaseAddress::Server(url);
        let (place, shown) = (ControlPlace::without_folder(database.clone()), database.to_string());
        let host: Arc<dyn HostPort> = Arc::new(NoHost::default());
        // The server with the host makes the first key, so that two starts do not make two.
        let control = self.open_control(&place, host.clone(), scope, (&doorway, spans)).await?;
        let (url, stop) = (doorway.url()?, asked_to_stop());
        let (connections, descriptors) = (doorway.settings.connections_max, doorway.descriptors);
        self.start_serving(&control, host, scope, doorway)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "pandastack {} on {url}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "  host       none; requests that need one are answered 503 host.none")?;
        writeln!(out, "  data       {shown}")?;
        writeln!(out, "  limits     {connections} connections at once, of {descriptors} open files")?;
        writeln!(out, "  ready; stop with Ctrl-C")?;
        drop(out);
        notify::ready(scope);
        stop.await;
        notify::stopping();
        tell("stopping; press Ctrl-C again to stop at once");
        Ok(control)
    }
}
