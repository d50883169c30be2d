//! What `pandastack up` tells the operator at its start, and the clients' configuration.

use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use pandastack_control::BootstrapKey;
use pandastack_kit::Secret;

use super::{
    UpArgs,
    dashboard::dashboard_lines,
    databases::DatabaseListener,
    first_key::{keep_first_key, key_line, write_config},
    listener::ApiListener,
};
use crate::data_folder::OpenedDataFolder;

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

    pub(super) fn announce(
        &self,
        place: &OpenedDataFolder,
        (key, link): (&BootstrapKey, Option<Secret<String>>),
        tier: &str,
        (doorway, databases): (&ApiListener, &DatabaseListener),
    ) -> Result<()> {
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
        writeln!(out, "  data       {}", place.data_dir.display())?;
        let (connections, descriptors) = (doorway.settings.connections_max, doorway.descriptors);
        writeln!(out, "  limits     {connections} connections at once, of {descriptors} open files")?;
        if let Ok(Some(telemetry)) = self.telemetry.settings() {
            writeln!(out, "  spans      {}", telemetry.address())?;
        }
        let templates: Vec<String> = place.layers.templates().iter().map(|(name, _)| name.to_string()).collect();
        match templates.is_empty() {
            true => writeln!(
                out,
                "  templates  none; bake one with: pandastack template bake base --data-dir {}",
                place.data_dir.display()
            ),
            false => writeln!(out, "  templates  {}", templates.join(", ")),
        }?;
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
