//! Runs one build from the queue to its end. Stops it at its time limit or at the server's
//! shutdown, and gives up everything it held.

use std::time::{Duration, Instant};

use pandastack_model::{BuildId, ByteSize, LayerId, SandboxOrigin, TemplateName};
use pandastack_wire_public::{BuildSource, BuildSpec};
use serde_json::json;
use tokio::sync::oneshot;

use super::{TemplateSettings, failure::BuildFailure, log::BuildLogWriter, machine::BuildMachine, upload::BuildSpool};
use crate::{
    Control,
    limits::{BUILD_CLEANUP_MAX, BUILD_MAX, CACHED_BYTES_MAX, CACHED_LAYERS_MAX},
    store::{BuildResource, BuildRow, BuildStatus, MachineSize, StoreError, TemplateRow},
};

/// A build that was accepted.
pub struct BuildJob {
    pub build: BuildRow,
    pub ask: BuildSpec,
    pub spool: BuildSpool,
    pub log: BuildLogWriter,
}

/// The base that a build starts from.
#[derive(Clone, Debug)]
pub struct BuildBase {
    /// The template name of sandboxes that the build makes.
    pub template: TemplateName,
    pub origin: SandboxOrigin,
    /// The layer, if it comes from the cache.
    pub cached: Option<LayerId>,
    /// Identifies the base in cache keys.
    pub key: String,
    /// Description for people.
    pub base: String,
    pub size: MachineSize,
    pub disk_mib: u64,
    pub settings: TemplateSettings,
}

/// The origin of a build's next machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineOrigin {
    pub origin: SandboxOrigin,
    /// The layer, if it comes from the cache.
    pub cached: Option<LayerId>,
}

/// A template that is sealed and tested, but not yet registered.
struct SealedTemplate {
    layer: LayerId,
    ground: BuildBase,
    settings: TemplateSettings,
}

impl Control {
    /// Runs a build to its end, records the outcome and cleans up.
    pub(crate) async fn run_build(&self, job: BuildJob) {
        let (id, workspace, log) = (job.build.id, job.build.workspace.clone(), job.log.clone());
        let name = job.build.name.clone();
        self.tell_build(&job.build, BuildStatus::Queued);
        let build = job.build.clone();
        let ended = self.in_its_turn(job).await;
        let recorded = match &ended {
            Ok(baked) => self.hand_over(id, &workspace.0, &name, baked).await,
            Err(failure) => Err(failure.clone()),
        };
        if let Err(failure) = &recorded
            && let Err(error) = self.store.fail_build(id, &failure.0, self.clock.now_ns()).await
        {
            tracing::error!(build = %id, %error, "could not record a build's failure");
        }
        if tokio::time::timeout(BUILD_CLEANUP_MAX, self.clean_up_after(id, &workspace)).await.is_err() {
            tracing::warn!(build = %id, "could not release the resources of a build in time");
        }
        self.tell_build(&build, if recorded.is_ok() { BuildStatus::Done } else { BuildStatus::Failed });
        // After the row: a client that follows the log to its end reads the row next.
        match recorded {
            Ok(()) => {
                tracing::info!(build = %id, template = %name, "template built");
                log.say(format!("template {name} is ready")).await;
            }
            Err(failure) => {
                tracing::info!(build = %id, template = %name, %failure, "build failed");
                log.say(format!("build failed: {failure}")).await;
            }
        }
    }

    /// Records the stage of a build and tells its workspace.
    pub(super) async fn mark_build(&self, build: &BuildRow, status: BuildStatus) -> Result<(), StoreError> {
        self.store.mark_build(build.id, status).await?;
        self.tell_build(build, status);
        Ok(())
    }

    fn tell_build(&self, build: &BuildRow, status: BuildStatus) {
        let payload = json!({"build_id": build.id.to_string(), "name": build.name.as_str(), "status": status.as_str()});
        self.tell_change(&build.workspace, "template.build", payload);
    }

    /// Waits for a place, then runs the build until its end, its time limit or the server's
    /// shutdown.
    async fn in_its_turn(&self, job: BuildJob) -> Result<SealedTemplate, BuildFailure> {
        let stopped = || BuildFailure::new("the server stopped during the build; start the build again");
        let token = self.scope.token();
        let _place = tokio::select! {
            () = token.cancelled() => return Err(stopped()),
            place = self.templates.builds.running.wait(&job.build.workspace) => place,
        };
        self.mark_build(&job.build, BuildStatus::Running).await?;
        let (tell, outcome) = oneshot::channel();
        let (control, deadline) = (self.clone(), Instant::now() + BUILD_MAX);
        let steps = self.scope.start("build steps", async move {
            let _ = tell.send(control.make(&job, deadline).await);
        });
        let ended = tokio::select! {
            biased;
            () = token.cancelled() => Err(stopped()),
            ended = tokio::time::timeout(BUILD_MAX, outcome) => match ended {
                Ok(Ok(ended)) => ended,
                Ok(Err(_)) => Err(BuildFailure::new("internal error")),
                Err(_) => Err(BuildFailure::new(format!("timeout: the build took longer than {} \
                    s", BUILD_MAX.as_secs()))),
            },
        };
        // An aborted step is a request to the host, which finishes it by itself.
        steps.abort();
        let _ = steps.await;
        ended
    }

    async fn make(&self, job: &BuildJob, deadline: Instant) -> Result<SealedTemplate, BuildFailure> {
        let (ground, said, builder) = match &job.ask.source {
            BuildSource::Dockerfile(text) => {
                let (ground, settings, builder) = self.follow(job, text, deadline).await?;
                (ground, Some(settings), builder)
            }
            BuildSource::Snapshot(id) => {
                let ground = self.snapshot_ground(job, id).await?;
                let builder = BuildMachine::start(self, job, &ground, ground.origin, deadline).await?;
                // The snapshot's layer already records how commands start.
                (ground, None, builder)
            }
            BuildSource::Rootfs => {
                let (ground, layer) = self.rootfs(job, deadline).await?;
                let settings = TemplateSettings::default();
                self.test_template(job, &ground, layer, &settings, deadline).await?;
                return Ok(SealedTemplate { layer, ground, settings });
            }
            BuildSource::Image(name) => {
                let reference = self.templates.images.reference(name).map_err(BuildFailure::new)?;
                let ground = self.image_ground(job, &reference, deadline).await?;
                let from = MachineOrigin { origin: ground.origin, cached: ground.cached };
                let builder = self.begin(job, &ground, &from, deadline).await?;
                (ground.clone(), Some(ground.settings), builder)
            }
        };
        let said = match said {
            Some(settings) => Some(TemplateSettings { started: builder.start_command(&settings).await?, ..settings }),
            None => None,
        };
        self.mark_build(&job.build, BuildStatus::Baking).await?;
        job.log.say("baking the template").await;
        let layer = LayerId::random();
        self.store.hold(job.build.id, BuildResource::Layer(layer)).await?;
        match &said {
            Some(settings) => builder.seal_template(layer, settings).await?,
            None => drop(builder.seal(layer).await?),
        }
        builder.end().await?;
        let settings = said.unwrap_or_else(|| ground.settings.clone());
        self.test_template(job, &ground, layer, &settings, deadline).await?;
        Ok(SealedTemplate { layer, ground, settings })
    }

    /// Starts a sandbox from the new template and runs a command in it, so that a broken template
    /// fails its build and not its first user.
    async fn test_template(
        &self,
        job: &BuildJob,
        ground: &BuildBase,
        layer: LayerId,
        settings: &TemplateSettings,
        deadline: Instant,
    ) -> Result<(), BuildFailure> {
        let started = Instant::now();
        let builder = BuildMachine::start(self, job, ground, SandboxOrigin::Layer(layer), deadline).await?;
        let took = started.elapsed();
        let proven = builder.test_command(settings).await;
        builder.end().await?;
        proven?;
        job.log.say(format!("a sandbox from this template starts in {} ms", took.as_millis())).await;
        Ok(())
    }

    pub(super) async fn template_ground(&self, job: &BuildJob, name: &str) -> Result<Option<BuildBase>, BuildFailure> {
        // `:latest` on a template's name has no meaning here. Dockerfiles carry it for registries.
        let bare = name.strip_suffix(":latest").unwrap_or(name);
        let Ok(template) = bare.parse::<TemplateName>() else { return Ok(None) };
        if let Some(own) = self.store.find_template(&job.build.workspace, bare).await? {
            return Ok(Some(BuildBase {
                template: own.name,
                origin: SandboxOrigin::Layer(own.layer),
                cached: None,
                key: own.layer.to_string(),
                base: bare.to_owned(),
                size: own.size,
                disk_mib: own.disk_mib,
                settings: own.settings,
            }));
        }
        let found = self.host.templates().await.into_iter().find(|template| template.name == bare);
        Ok(found.map(|found| BuildBase {
            template,
            origin: SandboxOrigin::Template,
            cached: None,
            key: found.layer,
            base: bare.to_owned(),
            size: MachineSize { cpus: u32::from(found.cpus), memory_mib: found.memory_mib, disk_mib: found.disk_mib },
            disk_mib: found.disk_mib,
            settings: TemplateSettings::default(),
        }))
    }

    async fn snapshot_ground(&self, job: &BuildJob, id: &str) -> Result<BuildBase, BuildFailure> {
        let found = self.store.find_snapshot(&job.build.workspace, id).await?;
        let found = found.ok_or_else(|| BuildFailure::new("snapshot not found"))?;
        let template = self.store.find_template(&job.build.workspace, found.template.as_str()).await?;
        let host = self.host.templates().await.into_iter().find(|view| view.name == found.template.as_str());
        job.log.say(format!("from snapshot {id} of sandbox {}", found.sandbox)).await;
        let disk_mib = match (&template, host) {
            (Some(template), _) => template.disk_mib,
            (None, Some(view)) => view.disk_mib,
            (None, None) => 0,
        };
        Ok(BuildBase {
            origin: SandboxOrigin::Layer(found.layer),
            cached: None,
            key: found.layer.to_string(),
            base: format!("snapshot {id}"),
            size: found.size,
            disk_mib,
            // The command settings of its template still apply.
            settings: template.map(|template| template.settings).unwrap_or_default(),
            template: found.template,
        })
    }

    /// Registers the layer as a template and releases the layer that the name had before.
    async fn hand_over(
        &self,
        build: BuildId,
        workspace: &str,
        name: &TemplateName,
        baked: &SealedTemplate,
    ) -> Result<(), BuildFailure> {
        let SealedTemplate { layer, ground, settings } = baked;
        let template = TemplateRow {
            workspace: pandastack_wire_fleet::WorkspaceId(workspace.to_owned()),
            name: name.clone(),
            layer: *layer,
            base: ground.base.clone(),
            size: ground.size,
            disk_mib: ground.disk_mib,
            settings: settings.clone(),
            created_at_ns: self.clock.now_ns(),
        };
        if let Some(old) = self.store.finish_build(build, &template).await? {
            self.give_up_holding(BuildResource::Layer(old)).await;
        }
        Ok(())
    }

    async fn clean_up_after(&self, build: BuildId, workspace: &pandastack_wire_fleet::WorkspaceId) {
        match self.store.holdings(Some(build)).await {
            Ok(held) => {
                for holding in held {
                    self.give_up_holding(holding).await;
                }
            }
            Err(error) => tracing::error!(%build, %error, "could not list the resources of a build"),
        }
        match self.store.trim_cache(workspace, CACHED_LAYERS_MAX, ByteSize::new(CACHED_BYTES_MAX)).await {
            Ok(layers) => {
                for layer in layers {
                    self.give_up_holding(BuildResource::Layer(layer)).await;
                }
            }
            Err(error) => tracing::error!(%build, %error, "could not trim the build cache"),
        }
    }

    /// Gives up something that no build needs any more. If that fails, the next start tries again.
    pub(crate) async fn give_up_holding(&self, holding: BuildResource) {
        let given_up = match holding {
            BuildResource::Sandbox(id) => self.host.remove(id).await,
            BuildResource::Layer(layer) => self.host.release(layer).await,
            BuildResource::Volume(volume) => self.host.remove_volume(volume).await,
        };
        match given_up {
            Ok(()) => {
                if let Err(error) = self.store.forget_resource(holding).await {
                    tracing::error!(?holding, %error, "a released resource of a build is still recorded");
                }
            }
            Err(fault) => tracing::warn!(?holding, %fault, "could not release a resource of a build"),
        }
    }
}

/// Time left until a deadline.
pub fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
