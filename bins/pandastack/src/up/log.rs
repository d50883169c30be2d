//! Log lines of `pandastack up`, on standard error.

use std::io::IsTerminal as _;

/// Format of log lines.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

pub fn start_log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PANDASTACK_LOG").unwrap_or_else(|_| "warn".into());
    // If a log line cannot be written, tracing would report that on the same stream, and that
    // report would panic.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match format {
        LogFormat::Json => log.json().init(),
        LogFormat::Text if std::io::stderr().is_terminal() => log.init(),
        LogFormat::Text => log.with_ansi(false).init(),
    }
}
