//! The choice between plain sandboxes and the machines of databases.

use pandastack_client::wire::KindFilter;

/// Which machines a command shows.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct KindArgs {
    /// Machines to show: sandbox, database (those of managed databases), or all
    #[arg(long = "kind", value_name = "KIND", default_value = "sandbox", value_parser = read)]
    pub kinds: KindFilter,
}

fn read(word: &str) -> Result<KindFilter, String> {
    KindFilter::read(Some(word)).map_err(|fault| fault.text.to_string())
}
