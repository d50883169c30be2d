//! Runs a Dockerfile: its stages in order, each from its base, each step from the cache or in a
//! machine.

use std::{collections::BTreeMap, time::Instant};

use pandastack_model::{LayerId, SandboxOrigin};

use super::{
    TemplateSettings,
    dockerfile::{self, CopyFrom, Dockerfile},
    drive::{BuildBase, BuildJob, MachineOrigin},
    failure::BuildFailure,
    machine::BuildMachine,
    plan::{self, ChangeAction, PlannedStep, Planner, StageBase, StagePlan, StageStart, StepEffect},
    take::CopyOrigin,
};
use crate::{
    Control,
    store::{BuildResource, CachedLayer, MachineSize},
};

/// A stage that is finished.
pub(super) struct FinishedStage {
    pub ground: BuildBase,
    pub from: MachineOrigin,
    /// Identifies the stage in cache keys.
    pub key: String,
    settings: TemplateSettings,
    /// Folders that the stage named and that no step has made yet.
    folders: Vec<String>,
}

/// Sources that a stage may copy from.
#[derive(Default)]
pub(super) struct StageSources {
    /// The stages before it, as far as they are needed.
    pub done: Vec<Option<FinishedStage>>,
    /// Resolved sources. Within one build a name always means the same source.
    pub taken: BTreeMap<CopyFrom, CopyOrigin>,
}

/// State after the steps of a stage.
struct StageState<'a> {
    key: String,
    from: MachineOrigin,
    /// The machine of the last step, if one ran.
    builder: Option<BuildMachine<'a>>,
}

impl Control {
    /// Runs a Dockerfile. Returns the machine of the last step.
    pub(super) async fn follow<'a>(
        &'a self,
        job: &'a BuildJob,
        text: &str,
        deadline: Instant,
    ) -> Result<(BuildBase, TemplateSettings, BuildMachine<'a>), BuildFailure> {
        let file = dockerfile::parse(text)?;
        let mut planning = Planner::new(&file)?;
        let needed = planning.needed()?;
        let mut others = StageSources::default();
        for (number, _) in needed.iter().enumerate().filter(|(_, needed)| **needed) {
            others.done.resize_with(number, || None);
            let (ground, folders) =
                self.stage_ground(job, (&file, number), planning.base(number)?, &others.done, deadline).await?;
            let start = StageStart { settings: ground.settings.clone(), folders };
            let plan = planning.stage(number, start, &job.spool.files)?;
            if file.stages.len() > 1 {
                job.log.say(format!("stage {}/{}", number + 1, file.stages.len())).await;
            }
            say_sizes(job, &ground).await;
            let StageState { key, from, builder } = self.run_steps(job, &ground, &plan, &mut others, deadline).await?;
            if number + 1 == file.stages.len() {
                let builder = match builder {
                    Some(builder) => builder,
                    None => self.begin(job, &ground, &from, deadline).await?,
                };
                builder.make_folders(&plan.folders).await?;
                return Ok((ground, plan.settings, builder));
            }
            if let Some(builder) = builder {
                builder.end().await?;
            }
            let done = FinishedStage { ground, from, key, settings: plan.settings, folders: plan.folders };
            others.done.push(Some(done));
        }
        Err(BuildFailure::new("the Dockerfile has no stage"))
    }

    /// Finds the base of a stage: an earlier stage, or whatever else its `FROM` names.
    async fn stage_ground(
        &self,
        job: &BuildJob,
        (file, number): (&Dockerfile, usize),
        base: StageBase,
        done: &[Option<FinishedStage>],
        deadline: Instant,
    ) -> Result<(BuildBase, Vec<String>), BuildFailure> {
        let StageBase { name, stage } = base;
        let Some(Some(FinishedStage { ground, from, key, settings, folders })) =
            stage.and_then(|stage| done.get(stage))
        else {
            let ground = self.base_ground(job, (&name, file.stages[number].base_line), deadline).await?;
            return Ok((ground, Vec::new()));
        };
        let (key, settings, ground) = (key.clone(), settings.clone(), ground.clone());
        Ok((BuildBase { origin: from.origin, cached: from.cached, key, settings, ..ground }, folders.clone()))
    }

    async fn run_steps<'a>(
        &'a self,
        job: &'a BuildJob,
        ground: &BuildBase,
        plan: &StagePlan,
        others: &mut StageSources,
        deadline: Instant,
    ) -> Result<StageState<'a>, BuildFailure> {
        let (mut key, mut from) = (ground.key.clone(), MachineOrigin { origin: ground.origin, cached: ground.cached });
        let mut builder: Option<BuildMachine<'a>> = None;
        for (number, PlannedStep { line, text, act }) in (1..).zip(&plan.steps) {
            let step = format!("step {number}/{}", plan.steps.len());
            let StepEffect::Change(change) = act else {
                let note = if *act == StepEffect::Nothing { " (ignored)" } else { "" };
                job.log.say(format!("{step}: {text}{note}")).await;
                continue;
            };
            let named = format!("{step} (line {line}: {text})");
            let taken = match &change.verb {
                ChangeAction::Take(take) => {
                    let found = self.copy_origin(job, &take.from, others).await;
                    found.map_err(|error| error.at(&named))?.key()
                }
                ChangeAction::Run(_) | ChangeAction::Place(_) => String::new(),
            };
            key = plan::key(&key, change, &job.spool.files, &taken);
            let now_ns = self.clock.now_ns();
            if let Some(layer) = self.store.cached_layer(&job.build.workspace, &key, now_ns).await? {
                job.log.say(format!("{step} CACHED: {text}")).await;
                from = MachineOrigin { origin: SandboxOrigin::Layer(layer), cached: Some(layer) };
                if let Some(builder) = builder.take() {
                    builder.end().await?;
                }
                continue;
            }
            job.log.say(format!("{step}: {text}")).await;
            let machine = match builder.take() {
                Some(machine) => machine,
                None => self.begin(job, ground, &from, deadline).await.map_err(|error| error.at(&named))?,
            };
            let changed = match &change.verb {
                ChangeAction::Take(take) => self.take(job, &machine, change, (take, &mut *others), deadline).await,
                ChangeAction::Run(_) | ChangeAction::Place(_) => machine.change(change).await,
            };
            changed.map_err(|error| error.at(&named))?;
            let layer = self.keep_layer(job, &machine, &key).await.map_err(|error| error.at(&named))?;
            from = MachineOrigin { origin: SandboxOrigin::Layer(layer), cached: None };
            builder = Some(machine);
        }
        Ok(StageState { key, from, builder })
    }

    /// Starts a machine. A cached layer that cannot be used is dropped, so that the next build does
    /// not try it.
    pub(super) async fn begin<'a>(
        &'a self,
        job: &'a BuildJob,
        ground: &BuildBase,
        from: &MachineOrigin,
        deadline: Instant,
    ) -> Result<BuildMachine<'a>, BuildFailure> {
        let started = BuildMachine::start(self, job, ground, from.origin, deadline).await;
        if let (Err(_), Some(layer)) = (&started, from.cached) {
            self.store.uncache_layer(layer).await?;
            self.give_up_holding(BuildResource::Layer(layer)).await;
        }
        let machine = started?;
        machine.stop_inherited().await?;
        Ok(machine)
    }

    /// Seals the result of a step, so that the same steps need not run again.
    async fn keep_layer(&self, job: &BuildJob, machine: &BuildMachine<'_>, key: &str) -> Result<LayerId, BuildFailure> {
        let layer = LayerId::random();
        self.store.hold(job.build.id, BuildResource::Layer(layer)).await?;
        let own = machine.seal(layer).await?;
        let cached = CachedLayer { key: key.to_owned(), layer, own };
        // If another build cached this step first, this layer is released with this build.
        self.store.cache_layer(&job.build.workspace, &cached, self.clock.now_ns()).await?;
        Ok(layer)
    }

    /// Finds the base that `FROM` names: the workspace's template, the host's template, or an
    /// image.
    async fn base_ground(
        &self,
        job: &BuildJob,
        base: (&str, usize),
        deadline: Instant,
    ) -> Result<BuildBase, BuildFailure> {
        let (name, line) = base;
        if let Some(ground) = self.template_ground(job, name).await? {
            return Ok(ground);
        }
        let at = |problem: String| format!("Dockerfile line {}: {problem}", line);
        let unknown = |why| BuildFailure::new(at(format!("FROM {name:?} is neither a template nor an image: {why}")));
        let reference = self.templates.images.reference(name).map_err(unknown)?;
        let pulled = self.image_ground(job, &reference, deadline).await;
        pulled.map_err(|failure| BuildFailure::new(at(format!("FROM {name:?} is not a template; {failure}"))))
    }
}

/// Logs the machine's size, which is that of its base.
async fn say_sizes(job: &BuildJob, ground: &BuildBase) {
    let MachineSize { cpus, memory_mib, .. } = ground.size;
    job.log.say(format!("from {} ({cpus} CPUs, {memory_mib} MiB, disk {} MiB)", ground.base, ground.disk_mib)).await;
    let other = |asked: Option<u64>, has: u64| asked.is_some_and(|asked| asked != has);
    if other(job.ask.memory_mb, memory_mib) || other(job.ask.cpu.map(u64::from), u64::from(cpus)) {
        job.log.say("the template has the CPUs and memory of its base; the requested sizes have no effect").await;
    }
}
