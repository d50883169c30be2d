//! What `pandastack up` tells the operator at its start, and the clients' configuration.

use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use pandastack_cli::{NameLookup, RESOLVER_FIX, SAMPLE_NAME, is_below_localhost, look_up};
use pandastack_control::BootstrapKey;
use pandastack_kit::Secret;
use pandastack_model::TemplateName;

use super::{
    UpArgs,
    bakes::bake_line,
    dashboard::dashboard_lines,
    databases::DatabaseListener,
    first_key::{keep_first_key, key_line, write_config},
    listener::ApiListener,
};
use crate::data_folder::OpenedDataFolder;

/// What the operator is told of a start.
pub struct StartNotes<'a> {
    pub tier: String,
    pub doorway: &'a ApiListener,
    pub databases: &'a DatabaseListener,
    /// Templates that are baked in the background.
    pub baking: Vec<&'a TemplateName>,
    pub names: NameLookup,
    /// Templates of databases that are prepared in the background.
    pub unprepared: &'a [&'static str],
}

/// What follows from a resolver that does not know the names of this server.
const NAMES_UNKNOWN: &str = "this computer's resolver does not know those below localhost; browsers, curl and the lines \
                             that `pandastack db url` prints work, for other programs run";

/// The templates of the data folder, and those that are baked now.
fn templates(place: &OpenedDataFolder, baking: &[&TemplateName]) -> String {
    let known = place.layers.templates().into_iter().map(|(name, _)| name.to_string());
    let all: Vec<String> = known.chain(baking.iter().map(|name| format!("{name} (being baked)"))).collect();
    if all.is_empty() {
        return format!("none; bake one with: {}", bake_line("mini", place));
    }
    all.join(", ")
}

impl UpArgs {
    /// Writes the clients' configuration and returns its path, unless `--no-config` is set.
    fn write_config(&self, url: &str, key: &BootstrapKey) -> Result<Option<PathBuf>> {
        if self.no_config {
            return Ok(None);
        }
        let home = std::env::var_os("HOME").context("HOME is not set; set it or use --no-config")?;
        let key = match key {
            BootstrapKey::Given(key) | BootstrapKey::Made(key) => Some(key.reveal().as_str()),
            BootstrapKey::Kept { .. } | BootstrapKey::Revoked { .. } => None,
        };
        write_config(Path::new(&home), url, key).map(Some)
    }

    /// Asks the resolver of this computer for a name below `localhost`, if this server has any.
    pub(super) async fn look_up_names(&self, databases: &DatabaseListener) -> NameLookup {
        let previews = format!(".{}", self.preview_suffix);
        if [previews.as_str(), &databases.addresses.suffix].into_iter().any(is_below_localhost) {
            look_up(SAMPLE_NAME).await
        } else {
            NameLookup::Found
        }
    }

    pub(super) fn announce(
        &self,
        place: &OpenedDataFolder,
        (key, link): (&BootstrapKey, Option<Secret<String>>),
        notes: &StartNotes<'_>,
    ) -> Result<()> {
        let StartNotes { tier, doorway, databases, baking, names, unprepared } = notes;
        let address = doorway.listener.local_addr()?;
        let url = doorway.url()?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "pandastack {} on {url}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "  isolation  {tier}")?;
        let scheme = doorway.scheme();
        writeln!(out, "  previews   {scheme}://PORT-SANDBOX.{}:{}", self.preview_suffix, address.port())?;
        if let Some(https) = &doorway.https {
            writeln!(out, "  https      {}", https.summary())?;
        }
        writeln!(out, "  databases  {}", databases.summary())?;
        if *names == NameLookup::Unknown {
            writeln!(out, "  names      {NAMES_UNKNOWN}: {RESOLVER_FIX}")?;
        }
        if !unprepared.is_empty() {
            let names = unprepared.join(", ");
            writeln!(out, "  preparing  databases of {names}, in the background; see: pandastack template list")?;
        }
        writeln!(out, "  data       {}", place.data_dir.display())?;
        let (connections, descriptors) = (doorway.settings.connections_max, doorway.descriptors);
        writeln!(out, "  limits     {connections} connections at once, of {descriptors} open files")?;
        if let Ok(Some(telemetry)) = self.telemetry.settings() {
            writeln!(out, "  spans      {}", telemetry.address())?;
        }
        writeln!(out, "  templates  {}", templates(place, baking))?;
        let config = match self.write_config(&url, key) {
            Ok(config) => config,
            // The key is known only now. If the clients cannot get it, it is stored for the
            // operator.
            Err(error) => {
                let kept = keep_first_key(&place.data_dir, key)?;
                return Err(error.context(format!("the new API key is in {}", kept.display())));
            }
        };
        let is_terminal = std::io::stdout().is_terminal();
        let kept = match &config {
            Some(path) => path.clone(),
            None if is_terminal => PathBuf::new(),
            None => keep_first_key(&place.data_dir, key)?,
        };
        writeln!(out, "  key        {}", key_line(key, is_terminal, &kept))?;
        for line in dashboard_lines(doorway, link, is_terminal, &place.data_dir)? {
            writeln!(out, "{line}")?;
        }
        if let Some(path) = config {
            writeln!(out, "  clients    configured by {}", path.display())?;
        }
        writeln!(out, "  ready; stop with Ctrl-C")?;
        Ok(())
    }
}
