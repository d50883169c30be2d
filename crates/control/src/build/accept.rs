//! Accepts a build: checks everything that can be wrong with the request itself before a row is
//! written.

use pandastack_model::{BuildId, Fault, FaultKind, TemplateName};
use pandastack_wire_fleet::{Caller, WorkspaceId};
use pandastack_wire_public::{BuildSource, BuildSpec};
use tokio::{fs::File, io::AsyncReadExt};

use super::{
    BuildUpload,
    dockerfile::{self, DockerfileError, limits::IGNORE_BYTES_MAX},
    drive::BuildJob,
    ignore::{IGNORE, IgnorePatterns},
    plan::Planner,
    upload::BuildSpool,
};
use crate::{
    Control,
    app::no_snapshot,
    limits::{BUILDS_REMEMBERED_MAX, BUILDS_UNDER_WAY_MAX},
    store::{BuildAdded, BuildResource, BuildRow, BuildStatus, ResourceKind},
};

/// Removes the files that a `.dockerignore` names from the context.
async fn hide_ignored(spool: &mut BuildSpool) -> Result<(), Fault> {
    let Some(list) = spool.files.iter().find(|file| file.path == IGNORE) else { return Ok(()) };
    let bad = |problem: String| Fault::new(FaultKind::Caller, "build.bad_ignore", format!("{IGNORE}: {problem}"));
    // One byte more than the limit, so that a longer list is noticed.
    let (mut text, room) = (Vec::new(), IGNORE_BYTES_MAX as u64 + 1);
    let file = File::open(spool.path(list.part)).await.map_err(Fault::bug)?;
    file.take(room).read_to_end(&mut text).await.map_err(Fault::bug)?;
    IgnorePatterns::parse(&text).map_err(bad)?.remove_ignored(&mut spool.files);
    Ok(())
}

impl Control {
    /// Accepts a build and starts it. The answer does not wait for its end.
    pub(crate) async fn build(&self, caller: &Caller, upload: BuildUpload) -> Result<BuildRow, Fault> {
        self.need_host()?;
        let BuildUpload { fields, mut spool } = upload;
        let ask = BuildSpec::try_from(fields)?;
        hide_ignored(&mut spool).await?;
        self.may_be_built(&caller.workspace, &ask).await?;
        let build = BuildRow {
            id: BuildId::random(),
            workspace: caller.workspace.clone(),
            name: ask.name.clone(),
            status: BuildStatus::Queued,
            error: None,
            size_mb: ask.size_mb,
            cpus: ask.cpu,
            memory_mib: ask.memory_mb,
            bytes: (spool.bytes > 0).then_some(spool.bytes),
            image_ref: match &ask.source {
                BuildSource::Image(reference) => Some(reference.clone()),
                BuildSource::Dockerfile(_) | BuildSource::Snapshot(_) | BuildSource::Rootfs => None,
            },
            started_at_ns: self.clock.now_ns(),
            ended_at_ns: None,
        };
        self.note_made(caller, ResourceKind::Build, &[build.id.to_string()]).await?;
        let most = self.admitted_limits(&caller.workspace).await?.builds_concurrent_max;
        let most = most.number().map_or(BUILDS_UNDER_WAY_MAX, |most| most.min(BUILDS_UNDER_WAY_MAX));
        match self.store.begin_build(&build, most).await? {
            BuildAdded::Yes => {}
            BuildAdded::Twin => {
                let text = format!("a build of {} is already in progress; wait until it ends", ask.name);
                return Err(Fault::new(FaultKind::Conflict, "build.under_way", text));
            }
            BuildAdded::Full => {
                let text = "max builds reached; wait until one has ended";
                return Err(Fault::new(FaultKind::Quota, "quota.builds", text));
            }
        }
        let log = self.templates.builds.logs.begin(build.id).await.map_err(Fault::bug)?;
        tracing::info!(build = %build.id, template = %build.name, "build accepted");
        let (control, job) = (self.clone(), BuildJob { build: build.clone(), ask, spool, log });
        self.scope.start("build", async move { control.run_build(job).await });
        self.forget_old_builds(&caller.workspace).await?;
        Ok(build)
    }

    async fn may_be_built(&self, workspace: &WorkspaceId, ask: &BuildSpec) -> Result<(), Fault> {
        self.not_global(&ask.name).await?;
        if !ask.replace && self.store.find_template(workspace, ask.name.as_str()).await?.is_some() {
            let text = format!("template {} already exists; delete it first, or send replace=true", ask.name);
            return Err(Fault::new(FaultKind::Conflict, "template.exists", text));
        }
        match &ask.source {
            BuildSource::Dockerfile(text) => {
                let bad = |error: DockerfileError| Fault::new(FaultKind::Caller, error.code(), format!("{error}"));
                let file = dockerfile::parse(text).map_err(bad)?;
                Planner::new(&file).and_then(|mut planning| planning.needed()).map(drop).map_err(bad)
            }
            BuildSource::Snapshot(id) => {
                self.store.find_snapshot(workspace, id).await?.map(drop).ok_or_else(no_snapshot)
            }
            BuildSource::Rootfs => Ok(()),
            BuildSource::Image(name) => {
                let bad = |text: String| Fault::new(FaultKind::Caller, "template.bad_image", text);
                self.templates.images.reference(name).map(drop).map_err(bad)
            }
        }
    }

    /// Refuses a name that belongs to one of the host's own templates.
    async fn not_global(&self, name: &TemplateName) -> Result<(), Fault> {
        match self.host.templates().await.iter().any(|template| template.name == name.as_str()) {
            false => Ok(()),
            true => {
                let text = format!("{name} is a built-in template of the server and cannot be changed");
                Err(Fault::new(FaultKind::Forbidden, "template.global", text))
            }
        }
    }

    /// Deletes a template of the caller's workspace. Sandboxes made from it keep running.
    pub(crate) async fn delete_template(&self, caller: &Caller, name: &str) -> Result<(), Fault> {
        self.need_host()?;
        let missing = || Fault::new(FaultKind::Missing, "template.not_found", "template not found");
        let name: TemplateName = name.parse().map_err(|_| missing())?;
        match self.store.remove_template(&caller.workspace, &name).await? {
            Some(layer) => {
                tracing::info!(template = %name, "template deleted");
                self.give_up_holding(BuildResource::Layer(layer)).await;
                Ok(())
            }
            None => {
                self.not_global(&name).await?;
                Err(missing())
            }
        }
    }

    async fn forget_old_builds(&self, workspace: &WorkspaceId) -> Result<(), Fault> {
        for build in self.store.forget_old_builds(workspace, BUILDS_REMEMBERED_MAX).await? {
            self.templates.builds.logs.remove(build).await;
        }
        Ok(())
    }
}
