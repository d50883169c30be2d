//! The shared suite on real QEMU machines, restored from the baked template `mini`.

#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::BytesMut;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_host::net::{self, NetPool, NetSettings, Slot};
use pandastack_kit::Scope;
use pandastack_layers::{Layer, LayerStore};
use pandastack_model::{MachineId, SandboxId};
use pandastack_testbed::{DataFolder, processes, template_data_dir};
use pandastack_vmm::{
    Driver, LayerFiles, Link, Machine, MachineLimits, MachineSpec, conformance::Subject, conformance_tests,
};
use pandastack_vmm_qemu::{QemuDriver, choose_tier};
use pandastack_wire_guest::{Decoder, Frame, GENERATION, Hello, Kind, Message, Read, Write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Where the guest keeps the suite's text: on its root disk.
const NOTE: &str = "/var/conformance-note";

struct QemuSubject {
    driver: QemuDriver,
    pool: Arc<NetPool>,
    slots: Mutex<Vec<Slot>>,
    instance: String,
    run_root: PathBuf,
    layers: LayerStore,
    layer: Layer,
    /// Last: it goes when nothing uses it any more.
    folder: DataFolder,
}

impl QemuSubject {
    async fn start() -> Self {
        let folder = DataFolder::with_templates().unwrap();
        let tier = choose_tier(None, None).unwrap().tier;
        let driver = QemuDriver::new(tier, &template_data_dir().join("runtime"), Scope::new()).unwrap();
        let layers = LayerStore::open(&folder.path().join("volume")).unwrap();
        let layer = layers.open_layer(layers.template(&"mini".parse().unwrap()).unwrap()).unwrap();
        let instance = folder.path().display().to_string();
        let settings = NetSettings { ready: 1, ..NetSettings::of(instance.clone()) };
        let pool = NetPool::start(settings, &Scope::new()).await.unwrap();
        let run_root = PathBuf::from(format!("/run/pandastack/c-{}", &SandboxId::random().to_string()[..8]));
        Self { driver, pool, slots: Mutex::default(), instance, run_root, layers, layer, folder }
    }

    /// Shakes hands, sends the request's frames in the same write, and gives its first answer and what follows.
    async fn ask(&self, mut link: Box<dyn Link>, request: &[Frame]) -> io::Result<Vec<Frame>> {
        let secret = &self.layer.manifest.link_secret;
        let secret =
            (0..secret.len()).step_by(2).map(|at| u8::from_str_radix(&secret[at..at + 2], 16).unwrap()).collect();
        let mut out = BytesMut::new();
        Hello { generation: GENERATION, secret }.frame(0).encode(&mut out);
        request.iter().for_each(|frame| frame.encode(&mut out));
        link.write_all(&out).await?;
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        loop {
            while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
                let last = frame.kind == Kind::Written || frame.kind == Kind::Error || frame.flags.is_end();
                frames.push(frame);
                if last {
                    assert_eq!(frames.remove(0).kind, Kind::Welcome);
                    return Ok(frames);
                }
            }
            if link.read_buf(decoder.buffer()).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[async_trait]
impl Subject for QemuSubject {
    fn driver(&self) -> &dyn Driver {
        &self.driver
    }

    async fn place(&self) -> MachineSpec {
        let id = MachineId::random();
        let run_dir = self.run_root.join(id.to_string());
        std::fs::create_dir_all(&run_dir).unwrap();
        let disk = self.layers.overlay(&self.layer, &id.to_string()).unwrap();
        let slot = self.pool.take().await.unwrap();
        let network = slot.port();
        self.slots.lock().unwrap().push(slot);
        let manifest = &self.layer.manifest;
        let limits = MachineLimits::of(manifest.memory, manifest.cpus);
        let (memory, cpus, runtime) = (manifest.memory, manifest.cpus, None);
        MachineSpec { id, memory, cpus, disk, run_dir, network, runtime, limits }
    }

    fn layer(&self) -> LayerFiles {
        self.layer.files.clone()
    }

    fn scratch(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn write(&self, link: Box<dyn Link>, text: &str) -> io::Result<()> {
        let write = Write { path: NOTE.to_owned(), mode: None }.frame(1);
        let data = Frame::new(1, Kind::Data, text.as_bytes().to_vec()).end();
        let answer = self.ask(link, &[write, data]).await?;
        assert_eq!(answer.last().map(|frame| frame.kind), Some(Kind::Written), "{answer:?}");
        Ok(())
    }

    async fn read(&self, link: Box<dyn Link>) -> io::Result<Option<String>> {
        let answer = self.ask(link, &[Read { path: NOTE.to_owned() }.frame(1)]).await?;
        let text =
            answer.iter().filter(|frame| frame.kind == Kind::Data).flat_map(|frame| frame.payload.to_vec()).collect();
        Ok((answer[0].kind == Kind::Meta).then(|| String::from_utf8(text).unwrap()))
    }

    async fn kill(&self, machine: &dyn Machine) {
        kill(Pid::from_raw(machine.pid().unwrap() as i32), Signal::SIGKILL).unwrap();
    }

    fn live(&self) -> usize {
        processes(&self.run_root).len()
    }

    async fn close(self) {
        self.pool.close().await.unwrap();
        assert!(net::leftovers(&self.instance).await.unwrap().namespaces.is_empty());
    }
}

impl Drop for QemuSubject {
    /// A failed check leaves machines and namespaces; they must not disturb the next one.
    fn drop(&mut self) {
        for pid in processes(&self.run_root).iter().filter_map(|pid| pid.parse().ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = std::fs::remove_dir_all(&self.run_root);
        let instance = self.instance.clone();
        let sweep = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(net::sweep(&instance, &[])))
        });
        let _ = sweep.join();
    }
}

conformance_tests!(QemuSubject::start);
