//! Tests the watcher with a fake monitor.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pandastack_kit::Scope;
use pandastack_model::MachineId;
use pandastack_vmm::Power;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixListener,
    sync::mpsc,
};

use super::{CpuSwitch, Qmp, ROOM_POLL};

/// Timeout of what should happen by itself, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The event after a write that found no space.
fn no_room() -> Value {
    let data = json!({ "nospace": true, "action": "stop" });
    json!({ "event": "BLOCK_IO_ERROR", "data": data })
}

/// A monitor that records the commands it gets.
struct Monitor {
    told: Arc<Mutex<Vec<String>>>,
    refusals: Arc<AtomicUsize>,
    say: mpsc::UnboundedSender<Value>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Monitor {
    fn start(status: &'static str, scope: &Scope) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("monitor");
        let listener = UnixListener::bind(&path).unwrap();
        let (told, refusals) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let (say, mut said) = mpsc::unbounded_channel::<Value>();
        let (notes, refuse) = (told.clone(), refusals.clone());
        scope.start("monitor", async move {
            let (read, mut write) = listener.accept().await.unwrap().0.into_split();
            write.write_all(b"{\"QMP\": {}}\n").await.unwrap();
            let mut lines = BufReader::new(read).lines();
            loop {
                let answer = tokio::select! {
                    line = lines.next_line() => {
                        let Ok(Some(line)) = line else { return };
                        let command: Value = serde_json::from_str(&line).unwrap();
                        let command = command["execute"].as_str().unwrap().to_owned();
                        notes.lock().unwrap().push(command.clone());
                        let refused = |left: usize| left.checked_sub(1);
                        match command.as_str() {
                            "query-status" => json!({ "return": { "status": status, "running": status == "running" } }),
                            "cont" if refuse.fetch_update(Ordering::Relaxed, Ordering::Relaxed, refused).is_ok() => {
                                json!({ "error": { "desc": "not now" } })
                            }
                            _ => json!({ "return": {} }),
                        }
                    }
                    Some(event) = said.recv() => event,
                };
                write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        });
        Self { told, refusals, say, path, _folder: folder }
    }

    async fn switch(&self, scope: &Scope) -> CpuSwitch {
        let qmp = Arc::new(Qmp::connect(&self.path, scope).await.unwrap());
        CpuSwitch::new(MachineId::random(), qmp, Power::Running, scope)
    }

    fn count(&self, command: &str) -> usize {
        self.told.lock().unwrap().iter().filter(|told| *told == command).count()
    }

    /// Waits until it got this command so many times.
    async fn is_told(&self, command: &str, times: usize) {
        let told = async {
            while self.count(command) < times {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("it is told");
    }
}

#[tokio::test]
async fn a_machine_without_room_is_told_to_go_on_until_it_does() {
    let scope = Scope::new();
    let monitor = Monitor::start("running", &scope);
    let switch = monitor.switch(&scope).await;
    monitor.is_told("query-status", 1).await;
    // Refused twice, then accepted, but there is still no space; then there is.
    monitor.refusals.store(2, Ordering::Relaxed);
    monitor.say.send(no_room()).unwrap();
    monitor.is_told("cont", 3).await;
    monitor.say.send(no_room()).unwrap();
    monitor.is_told("cont", 4).await;
    let mut went_on = switch.went_on();
    let once = tokio::time::timeout(PATIENCE, went_on.wait_for(|times| *times == 1)).await;
    assert_eq!(*once.expect("it goes on").unwrap(), 1);
    assert_eq!(monitor.count("cont"), 4, "it is left alone then");
}

#[tokio::test]
async fn a_machine_that_waited_before_anybody_watched_is_told_as_well() {
    let scope = Scope::new();
    let monitor = Monitor::start("io-error", &scope);
    let _switch = monitor.switch(&scope).await;
    monitor.is_told("cont", 1).await;
}

#[tokio::test]
async fn a_machine_that_is_paused_while_it_waits_stays_paused() {
    let scope = Scope::new();
    let monitor = Monitor::start("running", &scope);
    let switch = monitor.switch(&scope).await;
    monitor.is_told("query-status", 1).await;
    monitor.say.send(no_room()).unwrap();
    switch.pause().await.unwrap();
    tokio::time::sleep(ROOM_POLL * 3).await;
    assert_eq!(monitor.count("cont"), 0);
    switch.resume().await.unwrap();
    monitor.say.send(no_room()).unwrap();
    // Once from its owner, once from the watcher.
    monitor.is_told("cont", 2).await;
}
