//! `COPY --from`: takes files out of a machine of another stage or template, or out of an image,
//! and puts them into this one. They pass through control; nothing looks into them.

use std::{collections::btree_map::Entry, time::Instant};

use pandastack_wire_fleet::FileKind;

use super::{
    dockerfile::Taken,
    drive::{From, Ground, Job},
    failure::Failure,
    ignore::glob,
    machine::Builder,
    plan::{Change, Take},
    source::Source,
    stages::{Done, Others},
};
use crate::Control;

/// Where files lie until they are whose they are to be.
const STAGING: &str = "/tmp/.pandastack-stage";

/// Paths that one command is given.
const PATHS_AT_ONCE_MAX: usize = 200;

/// What files are taken from.
pub(super) enum Elsewhere {
    /// A machine is started from it: a stage or a template.
    Layer { ground: Box<Ground>, from: From, key: String },
    /// Nothing of it runs.
    Image(Box<Source>),
}

impl Elsewhere {
    /// Gives what stands for all of it in the keys of the cache.
    pub fn key(&self) -> String {
        match self {
            Self::Layer { key, .. } => key.clone(),
            Self::Image(source) => source.key(),
        }
    }
}

/// What lies in the staging folder.
pub(super) struct Staged {
    /// How many paths were meant.
    pub paths: usize,
    /// Whether one of them was a folder, whose contents lie there.
    pub folders: bool,
}

impl Control {
    /// Finds what a step takes from. In one build it is found once.
    pub(super) async fn elsewhere<'a>(
        &self,
        job: &Job,
        taken: &Taken,
        others: &'a mut Others,
    ) -> Result<&'a mut Elsewhere, Failure> {
        let entry = match others.taken.entry(taken.clone()) {
            Entry::Occupied(found) => return Ok(found.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let layer = |ground, from, key| Elsewhere::Layer { ground: Box::new(ground), from, key };
        let found = match taken {
            Taken::Stage(number) => match others.done.get(*number) {
                Some(Some(Done { ground, from, key, .. })) => layer(ground.clone(), *from, key.clone()),
                _ => return Err(Failure::new("the stage was not built")),
            },
            // The order of names is that of FROM.
            Taken::Named(name) => match self.template_ground(job, name).await? {
                Some(ground) => {
                    let (from, key) = (From { origin: ground.origin, cached: ground.cached }, ground.key.clone());
                    layer(ground, from, key)
                }
                None => {
                    let unknown = |why| format!("{name:?} is no stage, no template here, and no image: {why}");
                    let reference = self.images.reference(name).map_err(|why| Failure::new(unknown(why)))?;
                    let source = self.image_source(job, reference).await;
                    let unknown = |failure| format!("{name:?} is no stage and no template here; {failure}");
                    Elsewhere::Image(Box::new(source.map_err(|failure| Failure::new(unknown(failure)))?))
                }
            },
        };
        Ok(entry.insert(found))
    }

    /// Takes files. A machine that they come from is there for no longer than that.
    pub(super) async fn take(
        &self,
        job: &Job,
        to: &Builder<'_>,
        change: &Change,
        (take, others): (&Take, &mut Others),
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

    /// Carries files from one machine into the staging folder of another.
    async fn carry(&self, source: &Builder<'_>, to: &Builder<'_>, take: &Take) -> Result<Staged, Failure> {
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

    /// Gives what is staged to whom it belongs, and puts it where it goes.
    async fn unstage(&self, to: &Builder<'_>, take: &Take, staged: &Staged) -> Result<(), Failure> {
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
