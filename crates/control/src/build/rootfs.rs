//! Makes a template from an uploaded root file system. The archive is unpacked inside a machine,
//! onto a volume that becomes the root disk. It is never unpacked on this host.

use std::time::Instant;

use pandastack_model::{ByteSize, ExecDefaults, Fault, LayerId, SandboxOrigin, VolumeAccess, VolumeId, VolumeMount};
use pandastack_wire_fleet::{BootParams, LayerView, TemplateView};
use pandastack_wire_public::BuildSpec;
use tokio::{fs::File, io::AsyncReadExt};
use tokio_util::io::ReaderStream;

use super::{
    TemplateSettings,
    drive::{BuildBase, BuildJob},
    failure::BuildFailure,
    machine::BuildMachine,
};
use crate::{
    Control,
    limits::{BUILD_CPUS_DEFAULT, BUILD_MEMORY_MIB_DEFAULT},
    store::{BuildResource, BuildStatus, MachineSize},
};

/// Mount point of the volume in the machine that unpacks.
pub(super) const ROOT: &str = "/mnt/root";

/// Templates of the host that have `tar`, best first. If none is there, any other is tried.
const UNPACKERS: [&str; 2] = ["base", "mini"];

/// Run after unpacking: makes the folders that every root needs and unmounts the file system.
const FINISH: &str = "set -e; cd /mnt/root; rmdir lost+found 2>/dev/null || true; \
    test -e bin -o -e usr || { echo 'the archive contains no root file system: neither /bin nor /usr'; exit 1; }; \
    mkdir -p dev proc sys run tmp etc root; chmod 1777 tmp; cd /; sync; umount /mnt/root";

/// Size of a machine that boots a root.
pub(super) fn size_of(ask: &BuildSpec) -> MachineSize {
    let cpus = ask.cpu.unwrap_or(BUILD_CPUS_DEFAULT);
    MachineSize { cpus, memory_mib: ask.memory_mb.unwrap_or(BUILD_MEMORY_MIB_DEFAULT), disk_mib: 0 }
}

impl Control {
    /// Unpacks, boots and seals. Returns the layer, which the build holds.
    pub(super) async fn rootfs(&self, job: &BuildJob, deadline: Instant) -> Result<(BuildBase, LayerId), BuildFailure> {
        let part = job.spool.rootfs.ok_or_else(|| BuildFailure::new("the request contains no root file system"))?;
        let volume = self.root_volume(job).await?;
        job.log.say(format!("unpacking the root file system onto a disk of {} MiB", job.ask.size_mb)).await;
        self.unpack(job, volume, part, deadline).await.map_err(|failure| failure.at("unpacking"))?;
        let LayerView { layer, .. } = self.boot_root(job, volume, ExecDefaults::default()).await?;
        let ground = BuildBase {
            template: job.ask.name.clone(),
            origin: SandboxOrigin::Layer(layer),
            cached: None,
            key: layer.to_string(),
            base: "rootfs".to_owned(),
            size: size_of(&job.ask),
            disk_mib: job.ask.size_mb,
            settings: TemplateSettings::default(),
        };
        Ok((ground, layer))
    }

    /// Makes the volume that a root is unpacked onto. The build holds it.
    pub(super) async fn root_volume(&self, job: &BuildJob) -> Result<VolumeId, BuildFailure> {
        let volume = VolumeId::random();
        self.store.hold(job.build.id, BuildResource::Volume(volume)).await?;
        self.host.make_volume(volume, ByteSize::mib(job.ask.size_mb)).await?;
        Ok(volume)
    }

    /// Boots the root on a volume and seals it. The build holds the layer.
    pub(super) async fn boot_root(
        &self,
        job: &BuildJob,
        volume: VolumeId,
        defaults: ExecDefaults,
    ) -> Result<LayerView, BuildFailure> {
        let MachineSize { cpus, memory_mib, .. } = size_of(&job.ask);
        self.mark_build(&job.build, BuildStatus::Baking).await?;
        job.log.say(format!("first boot ({cpus} CPUs, {memory_mib} MiB)")).await;
        let layer = LayerId::random();
        self.store.hold(job.build.id, BuildResource::Layer(layer)).await?;
        let (memory, cpus) = (ByteSize::mib(memory_mib), u8::try_from(cpus).unwrap_or(u8::MAX));
        Ok(self.host.boot(BootParams { layer, volume, memory, cpus, defaults }).await?)
    }

    /// Starts a machine to unpack in. The volume is mounted at `ROOT`.
    pub(super) async fn unpacking<'a>(
        &'a self,
        job: &'a BuildJob,
        volume: VolumeId,
        deadline: Instant,
    ) -> Result<BuildMachine<'a>, BuildFailure> {
        let ground = self.unpacker().await?;
        let mount = VolumeMount { volume, path: ROOT.to_owned(), access: VolumeAccess::ReadWrite };
        BuildMachine::start_with(self, job, &ground, vec![mount], deadline).await
    }

    /// Finishes the unpacked root and removes the machine.
    pub(super) async fn finish_root(&self, builder: BuildMachine<'_>) -> Result<(), BuildFailure> {
        builder.shell(FINISH).await?;
        builder.end().await
    }

    async fn unpack(
        &self,
        job: &BuildJob,
        volume: VolumeId,
        part: usize,
        deadline: Instant,
    ) -> Result<(), BuildFailure> {
        let builder = self.unpacking(job, volume, deadline).await?;
        let path = job.spool.path(part);
        let mut head = [0; 2];
        let mut file = File::open(&path).await.map_err(Fault::bug)?;
        let packed = file.read_exact(&mut head).await.is_ok() && head == [0x1f, 0x8b];
        let file = File::open(&path).await.map_err(Fault::bug)?;
        let how = if packed { "-xzpf" } else { "-xpf" };
        let words = ["tar", how, "-", "--numeric-owner", "-C", ROOT].map(str::to_owned);
        builder.feed(words.to_vec(), ReaderStream::new(file)).await?;
        self.finish_root(builder).await
    }

    /// Finds a template of the host to unpack in.
    async fn unpacker(&self) -> Result<BuildBase, BuildFailure> {
        let templates = self.host.templates().await;
        let named = |name: &&str| templates.iter().find(|template| template.name == **name);
        let found = UNPACKERS.iter().find_map(named).or_else(|| templates.first());
        let none = || {
            BuildFailure::new(
                "the server has no template to unpack in; the operator must bake one: pandastack template bake mini",
            )
        };
        let TemplateView { name, layer, memory_mib, cpus, disk_mib } = found.ok_or_else(none)?.clone();
        Ok(BuildBase {
            template: name.parse().map_err(|_| none())?,
            origin: SandboxOrigin::Template,
            cached: None,
            key: layer,
            base: name,
            size: MachineSize { cpus: u32::from(cpus), memory_mib, disk_mib },
            disk_mib,
            settings: TemplateSettings::default(),
        })
    }
}
