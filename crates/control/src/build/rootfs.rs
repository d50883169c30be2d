//! Makes a template of an uploaded root file system. Its archive is unpacked inside of a machine, onto a volume that becomes the root
//! disk: nothing of it touches this host.

use std::time::Instant;

use pandastack_model::{Access, Bytes, ExecDefaults, Fault, LayerId, Origin, VolumeId, VolumeMount};
use pandastack_wire_fleet::{BootAsk, TemplateView};
use tokio::{fs::File, io::AsyncReadExt};
use tokio_util::io::ReaderStream;

use super::{
    Settings,
    drive::{Ground, Job},
    failure::Failure,
    machine::Builder,
};
use crate::{
    Control,
    limits::{BUILD_CPUS_DEFAULT, BUILD_MEMORY_MIB_DEFAULT},
    store::{BuildStatus, Holding, Size},
};

/// Where the volume is in the machine that unpacks.
const ROOT: &str = "/mnt/root";

/// Templates of the host that have `tar`, best first. Any other is tried as well.
const UNPACKERS: [&str; 2] = ["base", "mini"];

/// Run once everything is unpacked: what every root needs, and a clean end of the file system.
const FINISH: &str = "set -e; cd /mnt/root; rmdir lost+found 2>/dev/null || true; \
    test -e bin -o -e usr || { echo 'the archive holds no root file system: neither /bin nor /usr'; exit 1; }; \
    mkdir -p dev proc sys run tmp etc root; chmod 1777 tmp; cd /; sync; umount /mnt/root";

impl Control {
    /// Unpacks, boots and seals. Gives the layer, which the build holds.
    pub(super) async fn rootfs(&self, job: &Job, deadline: Instant) -> Result<(Ground, LayerId), Failure> {
        let part = job.spool.rootfs.ok_or_else(|| Failure::new("no root file system came with the request"))?;
        let volume = VolumeId::random();
        self.store.hold(job.build.id, Holding::Volume(volume)).await?;
        self.host.make_volume(volume, Bytes::mib(job.ask.size_mb)).await?;
        job.log.say(format!("unpacking the root file system onto a disk of {} MiB", job.ask.size_mb)).await;
        self.unpack(job, volume, part, deadline).await.map_err(|failure| failure.at("unpacking"))?;

        let cpus = job.ask.cpu.unwrap_or(BUILD_CPUS_DEFAULT);
        let size = Size { cpus, memory_mib: job.ask.memory_mb.unwrap_or(BUILD_MEMORY_MIB_DEFAULT) };
        self.store.mark_build(job.build.id, BuildStatus::Baking).await?;
        job.log.say(format!("first boot ({cpus} CPUs, {} MiB)", size.memory_mib)).await;
        let layer = LayerId::random();
        self.store.hold(job.build.id, Holding::Layer(layer)).await?;
        let ask = BootAsk {
            layer,
            volume,
            memory: Bytes::mib(size.memory_mib),
            cpus: u8::try_from(cpus).unwrap_or(u8::MAX),
            defaults: ExecDefaults::default(),
        };
        self.host.boot(ask).await?;
        let ground = Ground {
            template: job.ask.name.clone(),
            origin: Origin::Layer(layer),
            key: layer.to_string(),
            base: "rootfs".to_owned(),
            size,
            disk_mib: job.ask.size_mb,
            settings: Settings::default(),
        };
        Ok((ground, layer))
    }

    async fn unpack(&self, job: &Job, volume: VolumeId, part: usize, deadline: Instant) -> Result<(), Failure> {
        let ground = self.unpacker().await?;
        let mount = VolumeMount { volume, path: ROOT.to_owned(), access: Access::ReadWrite };
        let builder = Builder::start_with(self, job, &ground, vec![mount], deadline).await?;
        let path = job.spool.path(part);
        let mut head = [0; 2];
        let mut file = File::open(&path).await.map_err(Fault::bug)?;
        let packed = file.read_exact(&mut head).await.is_ok() && head == [0x1f, 0x8b];
        let file = File::open(&path).await.map_err(Fault::bug)?;
        let how = if packed { "-xzpf" } else { "-xpf" };
        let words = ["tar", how, "-", "--numeric-owner", "-C", ROOT].map(str::to_owned);
        builder.feed(words.to_vec(), ReaderStream::new(file)).await?;
        builder.shell(FINISH).await?;
        builder.end().await
    }

    /// Finds a template of the host to unpack in.
    async fn unpacker(&self) -> Result<Ground, Failure> {
        let templates = self.host.templates().await;
        let named = |name: &&str| templates.iter().find(|template| template.name == **name);
        let found = UNPACKERS.iter().find_map(named).or_else(|| templates.first());
        let none = || Failure::new("the server has no template to unpack in; its operator bakes one");
        let TemplateView { name, layer, memory_mib, cpus, disk_mib } = found.ok_or_else(none)?.clone();
        Ok(Ground {
            template: name.parse().map_err(|_| none())?,
            origin: Origin::Template,
            key: layer,
            base: name,
            size: Size { cpus: u32::from(cpus), memory_mib },
            disk_mib,
            settings: Settings::default(),
        })
    }
}
