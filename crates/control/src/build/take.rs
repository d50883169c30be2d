//! `COPY --from`: takes files out of a machine of another stage and puts them into this one. They pass through control as they are packed
//! by one agent and unpacked by the other; nothing looks into them.

use std::time::Instant;

use pandastack_wire_fleet::FileKind;

use super::{
    drive::Job,
    failure::Failure,
    ignore::glob,
    machine::Builder,
    plan::{Change, Take},
    stages::Done,
};
use crate::Control;

/// Where files lie until they are whose they are to be.
const STAGING: &str = "/tmp/.pandastack-stage";

/// Paths that one command is given.
const PATHS_AT_ONCE_MAX: usize = 200;

impl Control {
    /// Takes files from a stage. Its machine is there for no longer than that.
    pub(super) async fn take(
        &self,
        job: &Job,
        to: &Builder<'_>,
        change: &Change,
        (take, stage): (&Take, &Done),
        deadline: Instant,
    ) -> Result<(), Failure> {
        to.make_folders(&change.folders).await?;
        let source = self.begin(job, &stage.ground, &stage.from, deadline).await?;
        let carried = self.carry(&source, to, take).await;
        source.end().await?;
        carried
    }

    async fn carry(&self, source: &Builder<'_>, to: &Builder<'_>, take: &Take) -> Result<(), Failure> {
        let mut paths = Vec::new();
        for path in &take.sources {
            paths.extend(self.meant(source, path).await?);
        }
        let (mut folders, many) = (false, take.into_folder || paths.len() > 1);
        for path in &paths {
            folders |= self.host.stat(source.id, path).await?.kind == FileKind::Directory;
            let body = self.host.read_tree(source.id, path).await?;
            self.host.write_tree(to.id, STAGING, body).await?;
        }
        let owner = take.owner.as_deref().unwrap_or("0:0");
        to.errand(words(&["chown", "-hR", owner, "--", STAGING])).await?;
        if let Some(mode) = take.mode {
            let mode = format!("{mode:o}");
            to.errand(words(&["chmod", "-R", &mode, "--", STAGING])).await?;
        }
        let staged = self.host.list_dir(to.id, STAGING).await?;
        let staged: Vec<String> = staged.into_iter().map(|entry| format!("{STAGING}/{}", entry.name)).collect();
        if many || folders || to.is_folder(&take.dest).await? {
            to.make_folders(std::slice::from_ref(&take.dest)).await?;
            let dest = format!("{}/", take.dest.trim_end_matches('/'));
            for some in staged.chunks(PATHS_AT_ONCE_MAX) {
                let paths = some.iter().map(String::as_str).chain([dest.as_str()]);
                to.errand(words(&["cp", "-af", "--"]).into_iter().chain(paths.map(str::to_owned)).collect()).await?;
            }
        } else if let [file] = staged.as_slice() {
            let above = take.dest.rsplit_once('/').map_or("/", |(above, _)| if above.is_empty() { "/" } else { above });
            to.make_folders(&[above.to_owned()]).await?;
            to.errand(words(&["cp", "-af", "--", file, &take.dest])).await?;
        }
        to.errand(words(&["rm", "-rf", "--", STAGING])).await
    }

    /// Finds what a source means in the stage.
    async fn meant(&self, source: &Builder<'_>, path: &str) -> Result<Vec<String>, Failure> {
        let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
        if !last.contains(['*', '?', '[']) {
            return Ok(vec![path.to_owned()]);
        }
        let fitting = glob(last).map_err(Failure::new)?;
        let entries = self.host.list_dir(source.id, if above.is_empty() { "/" } else { above }).await?;
        let fitting = entries.into_iter().filter(|entry| fitting.is_match(&entry.name));
        let paths: Vec<String> = fitting.map(|entry| format!("{above}/{}", entry.name)).collect();
        if paths.is_empty() { Err(Failure::new(format!("{path:?} is not in that stage"))) } else { Ok(paths) }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
