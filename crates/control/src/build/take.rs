//! `COPY --from`: copies files from a machine of another stage or template, or from an image. They
//! pass through control, which does not inspect them.

use std::{collections::btree_map::Entry, time::Instant};

use pandastack_wire_fleet::FileKind;

use super::{
    dockerfile::CopyFrom,
    drive::{From, Ground, Job},
    failure::Failure,
    ignore::glob,
    machine::Builder,
    plan::{CopyFiles, MachineChange},
    source::Source,
    stages::{Done, Others},
};
use crate::Control;

/// Folder that holds the files until their owner and mode are set.
const STAGING: &str = "/tmp/.pandastack-stage";

/// Most paths that one command gets as arguments.
const PATHS_AT_ONCE_MAX: usize = 200;

/// Source that files are copied from.
pub(super) enum Elsewhere {
    /// A stage or a template. A machine is started from it.
    Layer { ground: Box<Ground>, from: From, key: String },
    /// An image. No machine is started from it.
    Image(Box<Source>),
}

impl Elsewhere {
    /// Identifies the source in cache keys.
    pub fn key(&self) -> String {
        match self {
            Self::Layer { key, .. } => key.clone(),
            Self::Image(source) => source.key(),
        }
    }
}

/// Contents of the staging folder.
pub(super) struct Staged {
    /// Number of paths that the sources matched.
    pub paths: usize,
    /// Whether one of them was a folder. Its contents are staged, not the folder itself.
    pub folders: bool,
}

impl Control {
    /// Resolves the source of a step, once per build.
    pub(super) async fn elsewhere<'a>(
        &self,
        job: &Job,
        taken: &CopyFrom,
        others: &'a mut Others,
    ) -> Result<&'a mut Elsewhere, Failure> {
        let entry = match others.taken.entry(taken.clone()) {
            Entry::Occupied(found) => return Ok(found.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let layer = |ground, from, key| Elsewhere::Layer { ground: Box::new(ground), from, key };
        let found = match taken {
            CopyFrom::Stage(number) => match others.done.get(*number) {
                Some(Some(Done { ground, from, key, .. })) => layer(ground.clone(), *from, key.clone()),
                _ => return Err(Failure::new("the stage was not built")),
            },
            // Names are resolved in the same order as in `FROM`.
            CopyFrom::Named(name) => match self.template_ground(job, name).await? {
                Some(ground) => {
                    let (from, key) = (From { origin: ground.origin, cached: ground.cached }, ground.key.clone());
                    layer(ground, from, key)
                }
                None => {
                    let unknown = |why| format!("{name:?} is neither a stage, a template nor an image: {why}");
                    let reference = self.templates.images.reference(name).map_err(|why| Failure::new(unknown(why)))?;
                    let source = self.image_source(job, reference).await;
                    let unknown = |failure| format!("{name:?} is neither a stage nor a template; {failure}");
                    Elsewhere::Image(Box::new(source.map_err(|failure| Failure::new(unknown(failure)))?))
                }
            },
        };
        Ok(entry.insert(found))
    }

    /// Copies files. The source machine is removed right after.
    pub(super) async fn take(
        &self,
        job: &Job,
        to: &Builder<'_>,
        change: &MachineChange,
        (take, others): (&CopyFiles, &mut Others),
        deadline: Instant,
    ) -> Result<(), Failure> {
        to.make_folders(&change.folders).await?;
        let staged = match self.elsewhere(job, &take.from, others).await? {
            Elsewhere::Layer { ground, from, .. } => {
                let source = self.begin(job, ground, from, deadline).await?;
                let staged = self.carry(&source, to, take).await;
                source.end().await?;
                staged?
            }
            Elsewhere::Image(source) => self.pour_some(job, source, &take.sources, (to, STAGING)).await?,
        };
        self.unstage(to, take, &staged).await
    }

    /// Copies files from one machine into the staging folder of another.
    async fn carry(&self, source: &Builder<'_>, to: &Builder<'_>, take: &CopyFiles) -> Result<Staged, Failure> {
        let mut paths = Vec::new();
        for path in &take.sources {
            paths.extend(self.meant(source, path).await?);
        }
        let mut folders = false;
        for path in &paths {
            folders |= self.host.stat(source.id, path).await?.kind == FileKind::Directory;
            let body = self.host.read_tree(source.id, path).await?;
            self.host.write_tree(to.id, STAGING, body).await?;
        }
        Ok(Staged { paths: paths.len(), folders })
    }

    /// Sets owner and mode of the staged files and copies them to their destination.
    async fn unstage(&self, to: &Builder<'_>, take: &CopyFiles, staged: &Staged) -> Result<(), Failure> {
        let owner = take.owner.as_deref().unwrap_or("0:0");
        to.errand(words(&["chown", "-hR", owner, "--", STAGING])).await?;
        if let Some(mode) = take.mode {
            let mode = format!("{mode:o}");
            to.errand(words(&["chmod", "-R", &mode, "--", STAGING])).await?;
        }
        let many = take.into_folder || staged.paths > 1 || staged.folders;
        let staged = self.host.list_dir(to.id, STAGING).await?;
        let staged: Vec<String> = staged.into_iter().map(|entry| format!("{STAGING}/{}", entry.name)).collect();
        if many || to.is_folder(&take.dest).await? {
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

    /// Expands the wildcards of a source path in the stage.
    async fn meant(&self, source: &Builder<'_>, path: &str) -> Result<Vec<String>, Failure> {
        let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
        if !last.contains(['*', '?', '[']) {
            return Ok(vec![path.to_owned()]);
        }
        let fitting = glob(last).map_err(Failure::new)?;
        let entries = self.host.list_dir(source.id, if above.is_empty() { "/" } else { above }).await?;
        let fitting = entries.into_iter().filter(|entry| fitting.is_match(&entry.name));
        let paths: Vec<String> = fitting.map(|entry| format!("{above}/{}", entry.name)).collect();
        if paths.is_empty() { Err(Failure::new(format!("{path:?} does not exist in that stage"))) } else { Ok(paths) }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
