//! Links that are sealed with their guest: a copy continues one from the sealed state, and the
//! source is unaffected.

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use pandastack_e2e::{PATIENCE, read_until, shell as exec_shell, start, without_standby};
use pandastack_host::{
    HostSettings,
    net::{NetPool, NetSettings, NetSlot},
};
use pandastack_kit::Scope;
use pandastack_layers::{Layer, LayerStore};
use pandastack_model::{ByteSize, MachineId, SandboxId};
use pandastack_sys::reflink::clone_or_copy;
use pandastack_testbed::{Bed, DataFolder, machine_driver, wait_for, with_bed};
use pandastack_vmm::{Driver, LayerFiles, Link, LinkState, Machine, MachineLimits, MachineSpec, MemoryPart};
use pandastack_vmm_qemu::QemuDriver;
use pandastack_wire_fleet::{ExecControl, ExecParams, HostPort};
use pandastack_wire_guest::{
    CommandLine, Decoder, Error, ErrorKind, Frame, FrameKind, GENERATION, Hello, Message, Rebirth, StartProcess,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test(flavor = "multi_thread")]
async fn copies_go_on_with_a_sealed_link_and_the_source_notices_nothing() {
    with_lab(async |lab| {
        let source = lab.restore(&lab.layer.files).await;
        source.resume().await.unwrap();
        let mut own = Talk::greeted(lab.dial(&*source).await, &lab.secret()).await;
        own.send(StartProcess { stdin: true, ..shell("exec cat") }.frame(1)).await;
        own.expect(1, FrameKind::Started).await;
        let kept = source.dial_kept().await.unwrap();
        let mut spare = Talk::greeted(kept, &lab.secret()).await;

        source.pause().await.unwrap();
        let state = spare.link.state().expect("a paused guest's spare link is at rest");
        let sealed = lab.seal(&*source).await;
        source.resume().await.unwrap();

        own.send(Frame::new(1, FrameKind::Stdin, b"still here".to_vec())).await;
        assert_eq!(own.expect(1, FrameKind::Stdout).await.payload, "still here");
        spare.send(Frame::new(7, FrameKind::Ping, vec![])).await;
        spare.expect(7, FrameKind::Pong).await;

        let (one, two) = (lab.restore(&sealed).await, lab.restore(&sealed).await);
        for (copy, secret) in [(&one, b"secret of one"), (&two, b"secret of two")] {
            copy.resume().await.unwrap();
            let mut link = Talk::of(copy.take_up(&state).await.unwrap());
            link.send(rebirth(secret).frame(3)).await;
            link.expect(3, FrameKind::Reborn).await;
            let count =
                "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^cat$'; cat /tmp/note 2>/dev/null; echo own > /tmp/note";
            // The process of the source's own link still runs, beside the `cat` that looks for it.
            assert_eq!(link.run(4, count).await, "2\n", "and nothing of a sibling is seen");
            for (offered, welcome) in [(&lab.secret()[..], false), (secret, true)] {
                let mut other = Talk::of(lab.dial(&**copy).await);
                other.send(Hello { generation: GENERATION, secret: offered.to_vec() }.frame(0)).await;
                let answer = other.next().await;
                let refused =
                    answer.kind == FrameKind::Error && Error::parse(&answer.payload).unwrap().kind == ErrorKind::Secret;
                assert_eq!((answer.kind == FrameKind::Welcome, refused), (welcome, !welcome), "{answer:?}");
            }
            assert_eq!(link.run(5, "echo first link").await, "first link\n", "other connections do not disturb it");
        }
        own.send(Frame::new(1, FrameKind::Stdin, b" and here".to_vec()).end()).await;
        assert_eq!(own.expect(1, FrameKind::Stdout).await.payload, " and here");
        own.expect(1, FrameKind::Exit).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_with_an_answer_under_way_is_not_sealed() {
    with_lab(async |lab| {
        let machine = lab.restore(&lab.layer.files).await;
        machine.resume().await.unwrap();
        let kept = wait_for("a link", PATIENCE, async || machine.dial_kept().await.ok()).await;
        let mut talk = Talk::greeted(kept, &lab.secret()).await;
        talk.send(shell("echo unread").frame(1)).await;
        let unread = async || talk.link.state().is_err().then_some(());
        wait_for("an unread answer", PATIENCE, unread).await;
        talk.expect(1, FrameKind::Exit).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_link_ends_its_commands_also_if_it_has_given_a_new_life() {
    with_lab(async |lab| {
        let machine = lab.restore(&lab.layer.files).await;
        machine.resume().await.unwrap();
        let mut talk = Talk::greeted(lab.dial(&*machine).await, &lab.secret()).await;
        talk.send(rebirth(b"new").frame(1)).await;
        talk.expect(1, FrameKind::Reborn).await;
        talk.send(shell("exec sleep 98765").frame(2)).await;
        talk.expect(2, FrameKind::Started).await;
        let mut other = Talk::greeted(lab.dial(&*machine).await, b"new").await;
        let count = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep [9]8765'";
        assert_eq!(other.run(1, count).await, "1\n");
        drop(talk);
        let ended = async {
            for channel in 2.. {
                if other.run(channel, count).await == "0\n" {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("a command that nobody listens to ends");
    })
    .await;
}

/// Maximum seals until two copies of one draw the same numbers.
const SEALS_MAX: u32 = 24;

/// Shows why the rebirth is needed. Each read advances the kernel's generator by one step, so
/// copies a few steps apart still produce equal numbers.
#[tokio::test(flavor = "multi_thread")]
async fn copies_draw_the_same_until_they_get_entropy_of_their_own() {
    with_lab(async |lab| {
        let source = lab.restore(&lab.layer.files).await;
        source.resume().await.unwrap();
        let spare = wait_for("a link", PATIENCE, async || source.dial_kept().await.ok()).await;
        let mut spare = Talk::greeted(spare, &lab.secret()).await;

        let copy = async |sealed: &LayerFiles, state: &LinkState, entropy: Option<u8>| {
            let copy = lab.restore(sealed).await;
            copy.resume().await.unwrap();
            let mut link = Talk::of(copy.take_up(state).await.unwrap());
            if let Some(byte) = entropy {
                link.send(Rebirth { entropy: vec![byte; 64], ..rebirth(b"another") }.frame(3)).await;
                link.expect(3, FrameKind::Reborn).await;
            }
            let drawn = draw(&mut link, 4).await;
            copy.stop().await;
            drawn
        };
        let mut seals = 0;
        let (sealed, state, alike) = loop {
            seals += 1;
            assert!(seals <= SEALS_MAX, "copies differ by themselves: this test shows nothing");
            // A draw reseeds the generator if the last reseed was longer ago than half of the
            // guest's age. So no reseed follows soon after this.
            draw(&mut spare, seals).await;
            source.pause().await.unwrap();
            let state = spare.link.state().expect("a paused guest's spare link is at rest");
            let sealed = lab.seal(&*source).await;
            source.resume().await.unwrap();
            let alike = [copy(&sealed, &state, None).await, copy(&sealed, &state, None).await];
            if !alike[0].is_disjoint(&alike[1]) {
                break (sealed, state, alike);
            }
            // On a busy host, copies of a young guest may draw too late. The source gets older
            // meanwhile.
            for file in [&sealed.mem, &sealed.disk, &sealed.dev] {
                std::fs::remove_file(file).unwrap();
            }
        };
        source.stop().await;
        let (three, four) = (copy(&sealed, &state, Some(3)).await, copy(&sealed, &state, Some(4)).await);
        assert!(three.is_disjoint(&four));
        for old in &alike {
            assert!(old.is_disjoint(&three) && old.is_disjoint(&four), "what was sealed is still drawn from");
        }
    })
    .await;
}

/// Draws many times from the kernel's generator.
async fn draw<L: Link>(talk: &mut Talk<L>, channel: u32) -> BTreeSet<String> {
    let script = "dd if=/dev/urandom bs=16 count=500 2> /dev/null | od -An -v -tx1 -w16";
    let drawn: BTreeSet<String> = talk.run(channel, script).await.lines().map(str::to_owned).collect();
    assert_eq!(drawn.len(), 500);
    drawn
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_memory_is_held_the_same_in_any_room_and_not_at_all_if_it_is_too_much() {
    with_lab(async |lab| {
        let machine = lab.restore(&lab.layer.files).await;
        machine.resume().await.unwrap();
        let mut talk = Talk::greeted(lab.dial(&*machine).await, &lab.secret()).await;
        talk.run(1, "head -c 1000000 /dev/urandom > /dev/shm/changed").await;
        machine.pause().await.unwrap();
        let base = &lab.layer.files.mem;
        let hold =
            async |room, bytes_max| machine.hold_memory(base, &MemoryPart::Changed, room, bytes_max).await.unwrap();
        let most = lab.layer.manifest.memory;
        let without = hold(Vec::new(), most).await.expect("it is less than all");
        assert!(without.bytes.len() > 1_000_000 && !without.runs.is_empty());
        let with = hold(Vec::with_capacity(most.get() as usize), most).await.expect("it is less than all");
        assert!(without == with, "{} and {} bytes, or others", without.bytes.len(), with.bytes.len());
        assert_eq!(hold(Vec::new(), ByteSize::new(4096)).await, None);
        // The held memory equals the memory that a seal writes.
        let (held, saved) = (lab.folder.path().join("held"), lab.folder.path().join("saved"));
        for copy in [&held, &saved] {
            clone_or_copy(base, copy).unwrap();
        }
        without.write_over(&held).unwrap();
        machine.save_memory(base, &MemoryPart::Changed, &saved).await.unwrap();
        assert!(std::fs::read(&held).unwrap() == std::fs::read(&saved).unwrap(), "two ways to seal differ");
    })
    .await;
}

/// The guest writes before, during and after each copy. The second copy starts from the first.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_copied_while_the_guest_runs_is_that_of_the_pause() {
    with_lab(async |lab| {
        let machine = lab.restore(&lab.layer.files).await;
        machine.resume().await.unwrap();
        let mut talk = Talk::greeted(lab.dial(&*machine).await, &lab.secret()).await;
        let base = &lab.layer.files.mem;
        let file = |name: &str| lab.folder.path().join(name);
        let (first, second, whole) = (file("first"), file("second"), file("whole"));
        let write =
            "nohup sh -c 'while :; do head -c 3000000 /dev/urandom > /dev/shm/rewritten; done' > /dev/null 2>&1 &";
        talk.run(1, write).await;
        clone_or_copy(base, &first).unwrap();
        let ahead = machine.copy_ahead(base, &first).await.unwrap().expect("this kernel tells what is written");
        for (turn, copy) in (2..).step_by(2).zip([&first, &second]) {
            if copy == &second {
                clone_or_copy(&first, &second).unwrap();
                ahead.copy_again(&second).unwrap();
            }
            talk.run(turn, "head -c 2000000 /dev/urandom > /dev/shm/late").await;
            machine.pause().await.unwrap();
            let written = ahead.written().unwrap();
            let size: u64 = written.iter().map(|range| range.length).sum();
            machine.save_memory(base, &MemoryPart::Ranges(written), copy).await.unwrap();
            let _ = std::fs::remove_file(&whole);
            clone_or_copy(base, &whole).unwrap();
            let changed = machine.save_memory(base, &MemoryPart::Changed, &whole).await.unwrap();
            assert!(std::fs::read(copy).unwrap() == std::fs::read(&whole).unwrap(), "{}", copy.display());
            assert!((2_000_000..changed.get()).contains(&size), "{size} of {changed} were written last");
            machine.resume().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_create_goes_on_with_the_link_of_its_template() {
    with_bed(
        patient(),
        |net| net,
        async |bed| {
            let state: LinkState = serde_json::from_value(manifest(bed)["link"].clone()).expect("mini has a link");
            let id = bed.create().await.unwrap();
            let pid = bed.host.machine_pid(id).await.unwrap();
            let (connected, sealed) = (connections(pid), (*state.local.ip(), state.local.port()));
            assert!(connected.contains(&sealed), "{connected:?} without the sealed {sealed:?}");
            assert_eq!(bed.sh(id, "echo fine").await.unwrap(), ("fine\n".to_owned(), 0));
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_and_wakes_go_on_with_the_link_of_their_source() {
    with_bed(
        patient(),
        |net| net,
        async |bed| {
            let source = bed.create().await.unwrap();
            let mut cat = start(bed, source, ExecParams { stdin: true, ..exec_shell("cat") }).await.unwrap();
            let forked = async || {
                let of_source = with_spare(bed, source).await;
                let child = bed.fork(source, 1).await.unwrap()[0];
                let of_child = connections(bed.host.machine_pid(child).await.unwrap());
                let still = connections(bed.host.machine_pid(source).await.unwrap());
                assert!(!still.is_disjoint(&of_source), "the source keeps its own: {still:?} of {of_source:?}");
                if !goes_on(&of_child, &of_source) {
                    bed.host.remove(child).await.unwrap();
                    return None;
                }
                Some(child)
            };
            let child = wait_for("a fork that goes on with a link of its source", PATIENCE, forked).await;
            cat.control.send(ExecControl::Stdin(Bytes::from_static(b"still here\n"))).await.unwrap();
            assert_eq!(read_until(&mut cat, "here\n").await, "still here\n");
            assert_eq!(bed.sh(child, "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^cat$'").await.unwrap().0, "2\n");

            let woken = async || {
                let before = with_spare(bed, child).await;
                bed.host.sleep(child).await.unwrap();
                assert_eq!(bed.sh(child, "echo awake").await.unwrap().0, "awake\n");
                let after = connections(bed.host.machine_pid(child).await.unwrap());
                goes_on(&after, &before).then_some(())
            };
            wait_for("a wake that goes on with a link", PATIENCE, woken).await;
            assert_eq!(bed.sh(child, "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^cat$'").await.unwrap().0, "2\n");
        },
    )
    .await;
}

/// Settings with plenty of time to take up a link. A busy machine would give up and dial anew.
fn patient() -> HostSettings {
    HostSettings { launch_deadline: PATIENCE * 10, ..without_standby() }
}

/// Tells whether a copy has one of its source's connections. It may already have its own spare one.
fn goes_on(copy: &BTreeSet<(Ipv4Addr, u16)>, source: &BTreeSet<(Ipv4Addr, u16)>) -> bool {
    !copy.is_disjoint(source)
}

/// Waits for a sandbox's spare connection, and returns the host's ends of all. Its handshake may
/// still be under way: a seal on a busy machine does not wait for that, and the copy dials. So the
/// caller tries again.
async fn with_spare(bed: &Bed, id: SandboxId) -> BTreeSet<(Ipv4Addr, u16)> {
    let pid = bed.host.machine_pid(id).await.unwrap();
    let both = async || Some(connections(pid)).filter(|open| open.len() == 2);
    wait_for("a spare connection", PATIENCE, both).await
}

#[tokio::test]
async fn a_link_that_the_guest_does_not_know_is_replaced_by_dialling() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let wrong: [(&str, Spoil); 3] = [
                // The guest answers with a reset: it does not know the connection.
                ("port", |link| link.local.set_port(link.local.port() ^ 1)),
                // The guest is silent: it treats the bytes as old ones.
                ("sequence", |link| link.send_sequence = link.send_sequence.wrapping_sub(1_000_000)),
                // The host itself rejects the address of another guest.
                ("address", |link| link.peer.set_ip(Ipv4Addr::new(172, 16, 0, 9))),
            ];
            let good = manifest(bed);
            for (what, spoil) in wrong {
                let mut state: LinkState = serde_json::from_value(good["link"].clone()).unwrap();
                spoil(&mut state);
                let mut bad = good.clone();
                bad["link"] = serde_json::to_value(&state).unwrap();
                std::fs::write(manifest_file(bed), serde_json::to_vec(&bad).unwrap()).unwrap();
                let id = bed.create().await.unwrap_or_else(|error| panic!("wrong {what}: {error:?}"));
                assert_eq!(bed.sh(id, "hostname").await.unwrap().0.trim(), format!("sandbox-{}", &id.to_string()[..8]));
                bed.host.remove(id).await.unwrap();
            }
        },
    )
    .await;
}

/// Makes a link's state invalid.
type Spoil = fn(&mut LinkState);

fn manifest_file(bed: &Bed) -> PathBuf {
    let layer = bed.layers.template(&"mini".parse().unwrap()).unwrap();
    bed.layers.open_layer(layer).unwrap().files.mem.with_file_name("manifest.json")
}

fn manifest(bed: &Bed) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(manifest_file(bed)).unwrap()).unwrap()
}

/// The host's ends of the established connections in the namespace of a process. The kernel may
/// list one twice while others change.
fn connections(pid: u32) -> BTreeSet<(Ipv4Addr, u16)> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let established = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    established
        .filter(|words| words[3] == "01")
        .map(|words| {
            let (address, port) = words[1].split_once(':').unwrap();
            let address = u32::from_str_radix(address, 16).unwrap().to_le_bytes();
            (Ipv4Addr::from(address), u16::from_str_radix(port, 16).unwrap())
        })
        .collect()
}

fn shell(line: &str) -> StartProcess {
    let program = CommandLine::Shell(line.to_owned());
    StartProcess {
        program,
        cwd: None,
        env: Vec::new(),
        user: None,
        stdin: false,
        deadline_ms: None,
        terminal: None,
        warm: None,
    }
}

fn rebirth(secret: &[u8]) -> Rebirth {
    let wall_clock_ns = 1_900_000_000_000_000_000;
    Rebirth { wall_clock_ns, entropy: vec![7; 64], secret: secret.to_vec(), identity: None }
}

/// A conversation on a link.
struct Talk<L> {
    link: L,
    decoder: Decoder,
}

impl<L: Link> Talk<L> {
    fn of(link: L) -> Self {
        Self { link, decoder: Decoder::default() }
    }

    async fn greeted(link: L, secret: &[u8]) -> Self {
        let mut talk = Self::of(link);
        talk.send(Hello { generation: GENERATION, secret: secret.to_vec() }.frame(0)).await;
        talk.expect(0, FrameKind::Welcome).await;
        talk
    }

    async fn send(&mut self, frame: Frame) {
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes);
        self.link.write_all(&bytes).await.unwrap();
    }

    async fn next(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return frame;
            }
            let read = tokio::time::timeout(PATIENCE, self.link.read_buf(self.decoder.buffer())).await;
            assert_ne!(read.expect("an answer in time").unwrap(), 0, "the guest hung up");
        }
    }

    /// Reads until a frame of this kind on this channel. Ignores other frames.
    async fn expect(&mut self, channel: u32, kind: FrameKind) -> Frame {
        loop {
            let frame = self.next().await;
            assert_ne!(frame.kind, FrameKind::Error, "{frame:?}");
            if (frame.channel, frame.kind) == (channel, kind) {
                return frame;
            }
        }
    }

    /// Runs a shell line and returns its output.
    async fn run(&mut self, channel: u32, line: &str) -> String {
        self.send(shell(line).frame(channel)).await;
        let mut output = Vec::new();
        loop {
            let frame = self.next().await;
            match frame.kind {
                FrameKind::Stdout => output.extend_from_slice(&frame.payload),
                FrameKind::Exit => return String::from_utf8(output).unwrap(),
                _ => {}
            }
        }
    }
}

/// A driver and its environment, without a host.
struct Lab {
    driver: QemuDriver,
    pool: Arc<NetPool>,
    slots: Mutex<Vec<NetSlot>>,
    machines: Mutex<Vec<Arc<dyn Machine>>>,
    layer: Layer,
    run_root: PathBuf,
    /// Last field: dropped after everything that uses it.
    folder: DataFolder,
}

impl Lab {
    async fn start() -> Self {
        let folder = DataFolder::with_templates().unwrap();
        let driver = machine_driver().unwrap();
        let layers = LayerStore::open(&folder.path().join("volume")).unwrap();
        let layer = layers.open_layer(layers.template(&"mini".parse().unwrap()).unwrap()).unwrap();
        let settings = NetSettings { ready: 1, ..NetSettings::of(folder.path().display().to_string()) };
        let pool = NetPool::start(settings, &Scope::new()).await.unwrap();
        let run_root = PathBuf::from(format!("/run/pandastack/l-{}", &SandboxId::random().to_string()[..8]));
        Self { driver, pool, slots: Mutex::default(), machines: Mutex::default(), layer, run_root, folder }
    }

    fn secret(&self) -> Vec<u8> {
        let hex = &self.layer.manifest.link_secret;
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    async fn restore(&self, from: &LayerFiles) -> Arc<dyn Machine> {
        let id = MachineId::random();
        let run_dir = self.run_root.join(id.to_string());
        std::fs::create_dir_all(&run_dir).unwrap();
        let disk = self.folder.path().join(format!("disk-{id}"));
        clone_or_copy(&from.disk, &disk).unwrap();
        let slot = self.pool.take().await.unwrap();
        let network = slot.port();
        self.slots.lock().unwrap().push(slot);
        let manifest = &self.layer.manifest;
        let limits = MachineLimits::of(manifest.memory, manifest.cpus);
        let (memory, cpus, runtime) = (manifest.memory, manifest.cpus, None);
        let spec = MachineSpec { id, memory, cpus, disk, run_dir, network, runtime, limits };
        let machine: Arc<dyn Machine> = Arc::from(self.driver.restore(spec, from).await.unwrap());
        self.machines.lock().unwrap().push(machine.clone());
        machine
    }

    /// Seals a paused machine that was restored from the template.
    async fn seal(&self, machine: &dyn Machine) -> LayerFiles {
        let folder = self.folder.path().join("sealed");
        std::fs::create_dir_all(&folder).unwrap();
        let files = LayerFiles::in_folder(&folder);
        machine.save_devices(&files.dev).await.unwrap();
        clone_or_copy(&self.layer.files.mem, &files.mem).unwrap();
        machine.save_memory(&self.layer.files.mem, &MemoryPart::Changed, &files.mem).await.unwrap();
        clone_or_copy(&self.folder.path().join(format!("disk-{}", machine.id())), &files.disk).unwrap();
        files
    }

    async fn dial(&self, machine: &dyn Machine) -> Box<dyn Link> {
        wait_for("the guest", PATIENCE, async || machine.dial().await.ok()).await
    }

    async fn close(&self) {
        let machines = std::mem::take(&mut *self.machines.lock().unwrap());
        for machine in machines {
            machine.stop().await;
        }
        self.pool.close().await.unwrap();
        std::fs::remove_dir_all(&self.run_root).unwrap();
    }
}

/// Runs a test in a lab, which leaves nothing behind, however the test ends.
async fn with_lab(body: impl AsyncFnOnce(&Lab)) {
    let lab = Lab::start().await;
    let outcome = AssertUnwindSafe(body(&lab)).catch_unwind().await;
    lab.close().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
