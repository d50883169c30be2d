//! Runs the shared conformance suite on the fake driver, with a guest that keeps one line of text.

#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use pandastack_model::{ByteSize, MachineId};
use pandastack_vmm::{
    BootImage, Driver, LayerFiles, Link, Machine, MachineLimits, MachineSpec, NetworkAttachment, Power,
    conformance::DriverUnderTest, conformance_tests,
};
use pandastack_vmm_fake::{DriverCall, FakeDriver, FakeGuest, FaultEffect, FaultedCalls};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};

/// Answers each line with the stored text. A line that is not empty replaces the text.
#[derive(Default)]
struct Notepad(Mutex<String>);

#[async_trait]
impl FakeGuest for Notepad {
    async fn serve(&self, link: DuplexStream) {
        let mut link = BufReader::new(link);
        let mut line = String::new();
        while link.read_line(&mut line).await.is_ok_and(|length| length > 0) {
            if line != "\n" {
                *self.0.lock().unwrap() = line.trim().to_owned();
            }
            let answer = format!("{}\n", self.0.lock().unwrap());
            if link.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            line.clear();
        }
    }
}

struct FakeSubject {
    driver: FakeDriver,
    folder: tempfile::TempDir,
}

impl FakeSubject {
    async fn start() -> Self {
        let driver = FakeDriver::new(|_| Arc::new(Notepad::default()));
        let subject = Self { driver, folder: tempfile::tempdir().unwrap() };
        let LayerFiles { mem, disk, dev, .. } = subject.layer();
        std::fs::write(&disk, b"disk").unwrap();
        let image = BootImage { kernel: disk.clone(), initramfs: disk, cmdline: String::new(), mem };
        let baked = subject.driver.boot(subject.place().await, image).await.unwrap();
        assert_eq!(baked.power().await.unwrap(), Power::Running);
        assert!(baked.save_devices(&dev).await.is_err(), "a running machine cannot be saved");
        baked.pause().await.unwrap();
        baked.save_devices(&dev).await.unwrap();
        baked.stop().await;
        subject
    }

    async fn say(&self, mut link: Box<dyn Link>, line: &str) -> io::Result<String> {
        link.write_all(format!("{line}\n").as_bytes()).await?;
        let mut answer = String::new();
        loop {
            match link.read_u8().await? {
                b'\n' => return Ok(answer),
                byte => answer.push(byte.into()),
            }
        }
    }
}

#[async_trait]
impl DriverUnderTest for FakeSubject {
    fn driver(&self) -> &dyn Driver {
        &self.driver
    }

    async fn place(&self) -> MachineSpec {
        let id = MachineId::random();
        let run_dir = self.scratch(&id.to_string());
        std::fs::create_dir(&run_dir).unwrap();
        let disk = run_dir.join("disk");
        std::fs::write(&disk, b"disk").unwrap();
        let network = NetworkAttachment {
            netns: PathBuf::from("/run/netns/none"),
            tap: "none".to_owned(),
            mac: "02:00:00:00:00:01".to_owned(),
            guest_address: [192, 0, 2, 1].into(),
            guest_port: 1,
        };
        let limits = MachineLimits::of(ByteSize::mib(1), 1);
        let runtime = None;
        MachineSpec { id, memory: ByteSize::mib(1), cpus: 1, disk, run_dir, network, runtime, limits }
    }

    fn layer(&self) -> LayerFiles {
        LayerFiles::in_folder(self.folder.path())
    }

    fn scratch(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn write(&self, link: Box<dyn Link>, text: &str) -> io::Result<()> {
        self.say(link, text).await.map(drop)
    }

    async fn read(&self, link: Box<dyn Link>) -> io::Result<Option<String>> {
        Ok(Some(self.say(link, "").await?).filter(|text| !text.is_empty()))
    }

    async fn kill(&self, machine: &dyn Machine) {
        self.driver.kill(machine.id());
    }

    fn live(&self) -> usize {
        self.driver.live().len()
    }

    async fn close(self) {}
}

conformance_tests!(FakeSubject::start);

#[tokio::test]
async fn planned_trouble_comes_as_the_contract_has_it() {
    let subject = FakeSubject::start().await;
    let faults = subject.driver.faults();
    faults.plan(FaultedCalls::Nth(DriverCall::Restore, 1), FaultEffect::Die);
    assert!(subject.driver.restore(subject.place().await, &subject.layer()).await.is_err());
    assert_eq!(subject.live(), 0);
    let machine = subject.driver.restore(subject.place().await, &subject.layer()).await.unwrap();
    faults.plan(FaultedCalls::Nth(DriverCall::Resume, 1), FaultEffect::Fail);
    assert!(machine.resume().await.is_err());
    assert_eq!(machine.power().await.unwrap(), Power::Paused, "a refused resume changes nothing");
    machine.resume().await.unwrap();
    assert_eq!((faults.calls(DriverCall::Resume), faults.faults_applied()), (2, 2));
    assert_eq!(subject.driver.running(), [machine.id()]);
    faults.plan(FaultedCalls::Nth(DriverCall::Pause, 1), FaultEffect::Late);
    assert!(machine.pause().await.is_err());
    assert_eq!(machine.power().await.unwrap(), Power::Paused, "a late pause is done all the same");
    assert_eq!((subject.driver.running(), faults.faults_applied()), (Vec::new(), 3));
    machine.stop().await;
}

#[tokio::test]
async fn a_machine_dropped_alive_is_found() {
    let subject = FakeSubject::start().await;
    let machine = subject.driver.restore(subject.place().await, &subject.layer()).await.unwrap();
    let id = machine.id();
    drop(machine);
    assert_eq!(subject.driver.live(), [id]);
}

#[tokio::test]
async fn the_link_of_a_killed_machine_is_silent_until_the_machine_is_dropped() {
    let subject = FakeSubject::start().await;
    let machine = subject.driver.restore(subject.place().await, &subject.layer()).await.unwrap();
    machine.resume().await.unwrap();
    let mut link = machine.dial().await.unwrap();
    subject.driver.kill(machine.id());
    let quiet = tokio::time::timeout(std::time::Duration::from_millis(50), link.read_u8()).await;
    assert!(quiet.is_err(), "a killed process says no farewell");
    drop(machine);
    assert!(link.read_u8().await.is_err());
    assert_eq!(subject.driver.links(), 0);
}
