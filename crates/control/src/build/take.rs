//! `COPY --from`: copies files from a machine of another stage or template, or from an image. They
//! pass through control, which does not inspect them.

use std::{collections::btree_map::Entry, time::Instant};

use pandastack_wire_fleet::FileKind;

use super::{
    dockerfile::CopyFrom,
    drive::{BuildBase, BuildJob, MachineOrigin},
    failure::BuildFailure,
    ignore::glob,
    machine::BuildMachine,
    plan::{CopyFiles, MachineChange},
    source::ImageSource,
    stages::{FinishedStage, StageSources},
};
use crate::Control;

/// Folder that holds the files until their owner and mode are set.
const STAGING: &str = "/tmp/.pandastack-stage";

/// Most paths that one command gets as arguments.
const PATHS_AT_ONCE_MAX: usize = 200;

/// Source that files are copied from.
pub(super) enum CopyOrigin {
    /// A stage or a template. A machine is started from it.
    Layer { ground: Box<BuildBase>, from: MachineOrigin, key: String },
    /// An image. No machine is started from it.
    Image(Box<ImageSource>),
}

impl CopyOrigin {
    /// Identifies the source in cache keys.
    pub fn key(&self) -> String {
        match self {
            Self::Layer { key, .. } => key.clone(),
            Self::Image(source) => source.key(),
        }
    }
}

/// Contents of the staging folder.
pub(super) struct StagedFiles {
    /// Number of paths that the sources matched.
    pub paths: usize,
    /// Whether one of them was a folder. Its contents are staged, not the folder itself.
    pub folders: bool,
}

impl Control {
    /// Resolves the source of a step, once per build.
    pub(super) async fn copy_origin<'a>(
        &self,
        job: &BuildJob,
        taken: &CopyFrom,
        others: &'a mut StageSources,
    ) -> Result<&'a mut CopyOrigin, BuildFailure> {
        let entry = match others.taken.entry(taken.clone()) {
            Entry::Occupied(found) => return Ok(found.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let layer = |ground, from, key| CopyOrigin::Layer { ground: Box::new(ground), from, key };
        let found = match taken {
            CopyFrom::Stage(number) => match others.done.get(*number) {
                Some(Some(FinishedStage { ground, from, key, .. })) => layer(ground.clone(), *from, key.clone()),
                _ => return Err(BuildFailure::new("the stage was not built")),
            },
            // Names are resolved in the same order as in `FROM`.
            CopyFrom::Named(name) => match self.template_ground(job, name).await? {
                Some(ground) => {
                    let (from, key) =
                        (MachineOrigin { origin: ground.origin, cached: ground.cached }, ground.key.clone());
                    layer(ground, from, key)
                }
                None => {
                    let unknown = |why| format!("{name:?} is neither a stage, a template nor an image: {why}");
                    let reference =
                        self.templates.images.reference(name).map_err(|why| BuildFailure::new(unknown(why)))?;
                    let source = self.image_source(job, reference).await;
                    let unknown = |failure| format!("{name:?} is neither a stage nor a template; {failure}");
                    CopyOrigin::Image(Box::new(source.map_err(|failure| BuildFailure::new(unknown(failure)))?))
                }
            },
        };
        Ok(entry.insert(found))
    }

    /// Copies files. The source machine is removed right after.
    pub(super) async fn take(
        &self,
        job: &BuildJob,
        to: &BuildMachine<'_>,
        change: &MachineChange,
        (take, others): (&CopyFiles, &mut StageSources),
        deadline: Instant,
    ) -> Result<(), BuildFailure> {
        to.make_folders(&change.folders).await?;
        let staged = match self.copy_origin(job, &take.from, others).await? {
            CopyOrigin::Layer { ground, from, .. } => {
                let source = self.begin(job, ground, from, deadline).await?;
                let staged = self.carry(&source, to, take).await;
                source.end().await?;
                staged?
            }
            CopyOrigin::Image(source) => self.copy_files_into(job, source, &take.sources, (to, STAGING)).await?,
        };
        self.unstage(to, take, &staged).await
    }

    /// Copies files from one machine into the staging folder of another.
    async fn carry(
        &self,
        source: &BuildMachine<'_>,
        to: &BuildMachine<'_>,
        take: &CopyFiles,
    ) -> Result<StagedFiles, BuildFailure> {
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
        Ok(StagedFiles { paths: paths.len(), folders })
    }

    /// Sets owner and mode of the staged files and copies them to their destination.
    async fn unstage(&self, to: &BuildMachine<'_>, take: &CopyFiles, staged: &StagedFiles) -> Result<(), BuildFailure> {
        let owner = take.owner.as_deref().unwrap_or("0:0");
        to.run_as_root(words(&["chown", "-hR", owner, "--", STAGING])).await?;
        if let Some(mode) = take.mode {
            let mode = format!("{mode:o}");
            to.run_as_root(words(&["chmod", "-R", &mode, "--", STAGING])).await?;
        }
        let many = take.into_folder || staged.paths > 1 || staged.folders;
        let staged = self.host.list_dir(to.id, STAGING).await?;
        let staged: Vec<String> = staged.into_iter().map(|entry| format!("{STAGING}/{}", entry.name)).collect();
        if many || to.is_folder(&take.dest).await? {
            to.make_folders(std::slice::from_ref(&take.dest)).await?;
            let dest = format!("{}/", take.dest.trim_end_matches('/'));
            for some in staged.chunks(PATHS_AT_ONCE_MAX) {
                let paths = some.iter().map(String::as_str).chain([dest.as_str()]);
                to.run_as_root(words(&["cp", "-af", "--"]).into_iter().chain(paths.map(str::to_owned)).collect())
                    .await?;
            }
        } else if let [file] = staged.as_slice() {
            let above = take.dest.rsplit_once('/').map_or("/", |(above, _)| if above.is_empty() { "/" } else { above });
            to.make_folders(&[above.to_owned()]).await?;
            to.run_as_root(words(&["cp", "-af", "--", file, &take.dest])).await?;
        }
        to.run_as_root(words(&["rm", "-rf", "--", STAGING])).await
    }

    /// Expands the wildcards of a source path in the stage.
    async fn meant(&self, source: &BuildMachine<'_>, path: &str) -> Result<Vec<String>, BuildFailure> {
        let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
        if !last.contains(['*', '?', '[']) {
            return Ok(vec![path.to_owned()]);
        }
        let fitting = glob(last).map_err(BuildFailure::new)?;
        let entries = self.host.list_dir(source.id, if above.is_empty() { "/" } else { above }).await?;
        let fitting = entries.into_iter().filter(|entry| fitting.is_match(&entry.name));
        let paths: Vec<String> = fitting.map(|entry| format!("{above}/{}", entry.name)).collect();
        if paths.is_empty() {
            Err(BuildFailure::new(format!("{path:?} does not exist in that stage")))
        } else {
            Ok(paths)
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
