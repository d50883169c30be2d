//! A host that is cut off, as by `kill -9`, at every driver call and at swept moments of every
//! operation. Its runtime is dropped with all its tasks; machines, folder and ledger stay. The next
//! host must continue with complete sandboxes and remove everything incomplete.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_host::{HostSettings, ShutdownMode};
use pandastack_model::{ByteSize, LayerId, MachineId, SandboxId, SandboxState, VolumeAccess, VolumeId, VolumeMount};
use pandastack_sys::cgroup::{CgroupHierarchy, CgroupLimits};
use pandastack_testbed::{FakeBed, FakeHostState, spec, wait_for};
use pandastack_vmm::{MachineLimits, group_of};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{HostPort, LayerHold, SealParams};
use tokio::runtime::{Builder, Runtime};

use crate::{BRIEF, SOON, fork_of, usage::facts_agree};

/// More calls than any operation makes.
const CALLS_MAX: u64 = 40;

/// The operation that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Fork,
    Seal,
    Sleep,
    Wake,
    Pause,
    Remove,
    RemoveSleeper,
}

const ALL: [Operation; 8] = [
    Operation::Create,
    Operation::Fork,
    Operation::Seal,
    Operation::Sleep,
    Operation::Wake,
    Operation::Pause,
    Operation::Remove,
    Operation::RemoveSleeper,
];

/// The moment of the cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// At the nth driver call.
    Call(u64),
    /// Before the first machine that it stops has ended.
    Stop,
    /// Right after the request.
    Begun,
    /// After a delay.
    After(Duration),
}

/// The sandboxes of an operation.
struct Scene {
    operation: Operation,
    id: SandboxId,
    /// What the sandbox writes, if it is to be copied.
    volume: VolumeId,
    children: Vec<SandboxId>,
    /// The volumes that the children get.
    clones: Vec<VolumeId>,
    layer: LayerId,
    finished: bool,
}

/// State with three untouched sandboxes: one runs, one is paused, one sleeps.
struct World {
    ground: Arc<FakeHostState>,
    running: SandboxId,
    paused: SandboxId,
    asleep: SandboxId,
    last: Option<Scene>,
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) async fn host(ground: &Arc<FakeHostState>) -> FakeBed {
    FakeBed::start_over(ground.clone(), FakeBed::settings()).await.unwrap()
}

async fn noted(bed: &FakeBed) -> SandboxId {
    noted_with(bed, Vec::new()).await
}

async fn noted_with(bed: &FakeBed, volumes: Vec<VolumeMount>) -> SandboxId {
    let id = SandboxId::random();
    bed.ensure_with(id, volumes).await.unwrap();
    bed.put(id, "/note", "kept").await.unwrap();
    id
}

fn at_data(volume: VolumeId) -> Vec<VolumeMount> {
    vec![VolumeMount { volume, path: "/data".to_owned(), access: VolumeAccess::ReadWrite }]
}

/// Ends a host without a shutdown. Its blocking calls run to their end, as a system call would.
pub(crate) fn cut_off(runtime: Runtime) {
    runtime.shutdown_timeout(SOON);
}

impl World {
    fn new() -> Self {
        let runtime = runtime();
        let world = runtime.block_on(async {
            let ground = Arc::new(FakeHostState::make().await.unwrap());
            let bed = host(&ground).await;
            let (running, paused, asleep) = (noted(&bed).await, noted(&bed).await, noted(&bed).await);
            bed.host.pause(paused).await.unwrap();
            bed.host.sleep(asleep).await.unwrap();
            World { ground, running, paused, asleep, last: None }
        });
        cut_off(runtime);
        world
    }

    /// Starts a host, checks what the last one left, starts an operation and cuts the host off.
    /// Returns whether the cut came before the operation's end.
    fn cut(&mut self, operation: Operation, cut: Cut) -> bool {
        let runtime = runtime();
        let finished = runtime.block_on(async {
            let bed = host(&self.ground).await;
            self.check(&bed).await;
            let mut scene = prepare(&bed, operation).await;
            scene.finished = run_until(&bed, &scene, cut).await;
            let finished = scene.finished;
            self.last = Some(scene);
            finished
        });
        cut_off(runtime);
        self.ground.driver.faults().clear();
        !finished
    }

    /// Checks that the untouched sandboxes are unchanged and that the last operation is finished or
    /// undone. Then removes its sandboxes. Nothing else may exist.
    async fn check(&mut self, bed: &FakeBed) {
        let context = self.last.as_ref().map(|scene| (scene.operation, scene.finished));
        assert_eq!(bed.state(self.running).await, Some(SandboxState::Running), "{context:?}");
        assert_eq!(bed.state(self.paused).await, Some(SandboxState::Paused), "{context:?}");
        assert_eq!(bed.state(self.asleep).await, Some(SandboxState::Asleep), "{context:?}");
        assert_eq!(bed.text(self.running, "/note").await.unwrap(), "kept", "{context:?}");
        let recorded = bed.leftovers().await.unwrap().ledger.len();
        assert_eq!(bed.driver.live().len(), recorded, "machines that no ledger line names, after {context:?}");
        if let Some(scene) = self.last.take() {
            scene.check(bed).await;
        }
        facts_agree(bed).await;
        let known = bed.host.observe_all().await.len();
        assert_eq!((bed.audited().await, known), ((2, 2), 3), "after {context:?}");
    }

    /// Checks the contents of the untouched sandboxes, and removes everything.
    fn end(mut self) {
        runtime().block_on(async {
            let bed = host(&self.ground).await;
            self.check(&bed).await;
            bed.host.resume(self.paused).await.unwrap();
            for id in [self.running, self.paused, self.asleep] {
                assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
                assert_eq!(bed.run(id, "echo on").await.unwrap().0, "on\n");
                bed.host.remove(id).await.unwrap();
            }
            assert_eq!(bed.audited().await, (1, 0));
            bed.host.close().await;
            assert!(bed.leftovers().await.unwrap().is_empty());
        });
    }
}

async fn prepare(bed: &FakeBed, operation: Operation) -> Scene {
    let volume = VolumeId::random();
    let id = match operation {
        Operation::Create => SandboxId::random(),
        Operation::Fork | Operation::Seal => {
            bed.host.make_volume(volume, ByteSize::mib(16)).await.unwrap();
            noted_with(bed, at_data(volume)).await
        }
        _ => noted(bed).await,
    };
    if matches!(operation, Operation::Wake | Operation::RemoveSleeper) {
        bed.host.sleep(id).await.unwrap();
    }
    let (children, clones) = (fork_of(id, 2).1, [(); 2].map(|()| VolumeId::random()).to_vec());
    Scene { operation, id, volume, children, clones, layer: LayerId::random(), finished: false }
}

/// Returns whether the operation ended before the cut.
async fn run_until(bed: &FakeBed, scene: &Scene, cut: Cut) -> bool {
    let struck = bed.driver.faults().faults_applied();
    let due = async {
        match cut {
            Cut::Call(_) | Cut::Stop => {
                let when = if let Cut::Call(nth) = cut {
                    FaultedCalls::Call(nth)
                } else {
                    FaultedCalls::Nth(DriverCall::Stop, 1)
                };
                bed.driver.faults().plan(when, FaultEffect::Hang);
                let hangs = async || (bed.driver.faults().faults_applied() > struck).then_some(());
                wait_for("the cut", SOON * 2, hangs).await;
            }
            Cut::Begun => tokio::task::yield_now().await,
            Cut::After(delay) => tokio::time::sleep(delay).await,
        }
    };
    tokio::select! {
        biased;
        () = due => false,
        () = scene.run(bed) => true,
    }
}

impl Scene {
    async fn run(&self, bed: &FakeBed) {
        let done = match self.operation {
            Operation::Create => bed.ensure(self.id).await.map(drop),
            Operation::Fork => {
                let (mut ask, _) = fork_of(self.id, self.children.len());
                for (child, (id, clone)) in ask.children.iter_mut().zip(self.children.iter().zip(&self.clones)) {
                    child.id = *id;
                    child.spec.volumes = at_data(*clone);
                }
                bed.host.fork(ask).await.map(drop)
            }
            Operation::Seal => {
                bed.host.seal(self.id, SealParams { layer: self.layer, hold: LayerHold::Kept }).await.map(drop)
            }
            Operation::Sleep => bed.host.sleep(self.id).await.map(drop),
            Operation::Wake => bed.host.wake(self.id).await.map(drop),
            Operation::Pause => bed.host.pause(self.id).await.map(drop),
            Operation::Remove | Operation::RemoveSleeper => bed.host.remove(self.id).await,
        };
        done.unwrap();
    }

    /// Checks that the operation is finished or never started, and removes its sandbox.
    async fn check(self, bed: &FakeBed) {
        use SandboxState::{Asleep, Paused, Running};
        let Scene { operation, id, volume, children, clones, layer, finished } = self;
        let state = bed.state(id).await;
        let allowed: &[Option<SandboxState>] = match (operation, finished) {
            (Operation::Create, false) => &[None, Some(Running)],
            (Operation::Create | Operation::Fork | Operation::Seal | Operation::Wake, true)
            | (Operation::Fork | Operation::Seal, false) => &[Some(Running)],
            (Operation::Sleep | Operation::Wake, false) => &[Some(Running), Some(Asleep)],
            (Operation::Sleep, true) => &[Some(Asleep)],
            (Operation::Pause, false) => &[Some(Running), Some(Paused)],
            (Operation::Pause, true) => &[Some(Paused)],
            (Operation::Remove, false) => &[None, Some(Running)],
            (Operation::RemoveSleeper, false) => &[None, Some(Asleep)],
            (Operation::Remove | Operation::RemoveSleeper, true) => &[None],
        };
        assert!(allowed.contains(&state), "{operation:?} (finished: {finished}) left {state:?}");
        if state.is_some() && operation != Operation::Create {
            if state == Some(Paused) {
                bed.host.resume(id).await.unwrap();
            }
            assert_eq!(bed.text(id, "/note").await.unwrap(), "kept", "{operation:?}");
            // An existing sandbox must be complete: it can be sealed, stopped and restored.
            bed.host.sleep(id).await.unwrap();
            assert_eq!(bed.text(id, "/note").await.unwrap(), "kept", "{operation:?}");
        }
        if operation == Operation::Fork {
            for (child, clone) in children.into_iter().zip(clones) {
                match bed.state(child).await {
                    None => assert!(!finished, "a child that was born is gone"),
                    Some(state) => {
                        assert_eq!(state, Running);
                        assert_eq!(bed.text(child, "/note").await.unwrap(), "kept");
                        bed.host.remove_volume(clone).await.expect_err("the child uses its clone");
                        bed.host.remove(child).await.unwrap();
                    }
                }
                // Whoever asked for the fork knows its clones, and removes those of no child.
                bed.host.remove_volume(clone).await.unwrap();
            }
        }
        if operation == Operation::Seal {
            assert!(!finished || bed.layers.layers().contains(&layer), "a kept layer is gone");
            bed.host.release(layer).await.unwrap();
        }
        bed.host.remove(id).await.unwrap();
        assert_eq!(bed.state(id).await, None);
        bed.host.remove_volume(volume).await.unwrap();
        assert_eq!(bed.host.volumes().await.unwrap(), [], "{operation:?}");
    }
}

/// Cuts the host off at the first, second, … driver call of an operation, until one completes.
fn at_every_call(operation: Operation, calls_min: u64) {
    let mut world = World::new();
    for nth in 1..CALLS_MAX {
        if !world.cut(operation, Cut::Call(nth)) {
            assert!(nth > calls_min, "{operation:?} makes only {} calls", nth - 1);
            return world.end();
        }
    }
    panic!("{operation:?} makes no end of calls");
}

#[test]
fn a_create_is_cut_off_at_every_call() {
    at_every_call(Operation::Create, 2);
}

#[test]
fn a_fork_is_cut_off_at_every_call() {
    at_every_call(Operation::Fork, 9);
}

#[test]
fn a_seal_is_cut_off_at_every_call() {
    at_every_call(Operation::Seal, 3);
}

#[test]
fn a_sleep_is_cut_off_at_every_call() {
    at_every_call(Operation::Sleep, 2);
}

#[test]
fn a_wake_is_cut_off_at_every_call() {
    at_every_call(Operation::Wake, 2);
}

#[test]
fn a_pause_is_cut_off_at_every_call() {
    at_every_call(Operation::Pause, 0);
}

/// Cuts the host off before a machine's stop completes. The next host must stop it.
fn at_the_stop(operation: Operation) {
    let mut world = World::new();
    assert!(world.cut(operation, Cut::Stop), "{operation:?} stops no machine");
    world.end();
}

#[test]
fn a_removal_is_cut_off_before_its_machine_ends() {
    at_the_stop(Operation::Remove);
}

#[test]
fn a_sleep_is_cut_off_before_its_machine_ends() {
    at_the_stop(Operation::Sleep);
}

/// Cuts between driver calls too, during file, ledger and network changes: every operation at swept
/// moments.
#[test]
fn operations_are_cut_off_at_swept_moments() {
    const MOMENTS: u32 = 7;
    const TRIES: usize = 10;
    let mut world = World::new();
    let mut all = 0;
    for operation in ALL {
        let whole = {
            let started = Instant::now();
            let runtime = runtime();
            let took = runtime.block_on(async {
                let bed = host(&world.ground).await;
                world.check(&bed).await;
                let mut scene = prepare(&bed, operation).await;
                let began = Instant::now();
                scene.run(&bed).await;
                scene.finished = true;
                world.last = Some(scene);
                began.elapsed()
            });
            cut_off(runtime);
            took.min(started.elapsed())
        };
        // On a busy machine a short operation may end before it is first waited for.
        let begun = (0..TRIES).any(|_| world.cut(operation, Cut::Begun));
        assert!(begun, "{operation:?} was never cut off right after its request");
        let after = (1..MOMENTS).map(|moment| Cut::After(whole * moment / MOMENTS));
        let cuts = 1 + after.filter(|cut| world.cut(operation, *cut)).count();
        println!("{operation:?}: {cuts} of {MOMENTS} were cut off, the others came to their end first");
        all += cuts;
    }
    assert!(all >= 20, "only {all} operations were cut off");
    world.end();
}

/// A start that is cut off at any driver call loses nothing either.
#[test]
fn a_start_is_cut_off_at_every_call() {
    let world = World::new();
    for nth in 1..CALLS_MAX {
        let (runtime, struck) = (runtime(), world.ground.driver.faults().faults_applied());
        world.ground.driver.faults().plan(FaultedCalls::Call(nth), FaultEffect::Hang);
        let started = runtime.block_on(async {
            let hangs = async || (world.ground.driver.faults().faults_applied() > struck).then_some(());
            tokio::select! {
                bed = host(&world.ground) => { drop(bed); true }
                () = wait_for("the cut", SOON * 2, hangs) => false,
            }
        });
        cut_off(runtime);
        world.ground.driver.faults().clear();
        if started {
            assert!(nth > 5, "two adoptions are at least two adopts, two dials and one resume");
            return world.end();
        }
    }
    panic!("a start makes no end of calls");
}

/// A machine that cannot be taken over is ended, and its sandbox fails. The others are unaffected.
#[test]
fn a_machine_that_cannot_be_taken_over_fails_its_sandbox_only() {
    let settings = HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() };
    let cases = [
        (FaultedCalls::Nth(DriverCall::Adopt, 1), (1, 1)),
        (FaultedCalls::Nth(DriverCall::Resume, 1), (1, 1)),
        // A guest has until the timeout to answer, however often a dial fails.
        (FaultedCalls::Nth(DriverCall::Dial, 3), (0, 2)),
        (FaultedCalls::Every(DriverCall::Dial), (2, 0)),
    ];
    for (when, expected) in cases {
        let world = World::new();
        runtime().block_on(async {
            world.ground.driver.faults().plan(when, FaultEffect::Fail);
            let bed = FakeBed::start_over(world.ground.clone(), settings.clone()).await.unwrap();
            world.ground.driver.faults().clear();
            let (mut failed, mut whole) = (0, 0);
            for id in [world.running, world.paused] {
                match bed.state(id).await.unwrap() {
                    SandboxState::Failed { reason } => {
                        assert!(reason.contains("could not be adopted"), "{reason}");
                        failed += 1;
                    }
                    _ => whole += 1,
                }
            }
            assert_eq!((failed, whole), expected, "{when:?}");
            assert_eq!(bed.audited().await, (2, whole));
            for id in [world.running, world.paused, world.asleep] {
                bed.host.remove(id).await.unwrap();
            }
            assert_eq!(bed.audited().await, (1, 0));
            bed.host.close().await;
        });
    }
}

#[test]
fn a_machine_that_died_meanwhile_has_failed_and_the_next_start_still_says_so() {
    let world = World::new();
    for machine in world.ground.driver.live() {
        world.ground.driver.kill(machine);
    }
    for _ in 0..2 {
        let runtime = runtime();
        runtime.block_on(async {
            let bed = host(&world.ground).await;
            for id in [world.running, world.paused] {
                assert_eq!(bed.state(id).await.unwrap().as_str(), "failed");
                assert_eq!(bed.run(id, "true").await.unwrap_err().code, "sandbox.failed");
            }
            assert_eq!(bed.state(world.asleep).await, Some(SandboxState::Asleep));
            assert_eq!(bed.audited().await, (2, 0));
        });
        cut_off(runtime);
    }
    runtime().block_on(async {
        let bed = host(&world.ground).await;
        assert_eq!(bed.text(world.asleep, "/note").await.unwrap(), "kept");
        bed.host.close().await;
        assert!(bed.leftovers().await.unwrap().is_empty());
    });
}

/// A kept layer survives its host. A temporary layer without a machine does not.
#[test]
fn kept_layers_outlive_a_cut_and_passing_ones_do_not() {
    let world = World::new();
    let (kept, passing) = (LayerId::random(), LayerId::random());
    let first = runtime();
    first.block_on(async {
        let bed = host(&world.ground).await;
        bed.host.seal(world.running, SealParams { layer: kept, hold: LayerHold::Kept }).await.unwrap();
        bed.host.seal(world.running, SealParams { layer: passing, hold: LayerHold::Passing }).await.unwrap();
        assert_eq!(bed.audited().await, (4, 2));
    });
    cut_off(first);
    let second = runtime();
    second.block_on(async {
        let bed = host(&world.ground).await;
        assert!(world.ground.layers.layers().contains(&kept) && !world.ground.layers.layers().contains(&passing));
        bed.host.release(kept).await.unwrap();
    });
    cut_off(second);
    world.end();
}

#[test]
fn sandboxes_that_were_left_running_run_on() {
    let world = World::new();
    runtime().block_on(async {
        let bed = host(&world.ground).await;
        bed.host.close_as(ShutdownMode::Running).await;
        assert_eq!(world.ground.driver.live().len(), 2);
    });
    world.end();
}

#[test]
fn sandboxes_that_were_put_to_sleep_wake() {
    let world = World::new();
    runtime().block_on(async {
        let bed = host(&world.ground).await;
        bed.host.close_as(ShutdownMode::Sleep).await;
        assert_eq!(world.ground.driver.live().len(), 0);
        let left = bed.leftovers().await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    });
    runtime().block_on(async {
        let bed = host(&world.ground).await;
        assert_eq!(bed.host.recovered().asleep, 3);
        for id in [world.running, world.paused, world.asleep] {
            assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        }
        bed.host.close().await;
        assert!(bed.leftovers().await.unwrap().is_empty());
    });
}

/// A sandbox that cannot be put to sleep when the host stops is left running, and the next host
/// takes it over.
#[test]
fn who_cannot_be_put_to_sleep_is_left_running() {
    let world = World::new();
    runtime().block_on(async {
        let bed = host(&world.ground).await;
        world.ground.driver.faults().plan(FaultedCalls::Every(DriverCall::Save), FaultEffect::Fail);
        bed.host.close_as(ShutdownMode::Sleep).await;
        world.ground.driver.faults().clear();
        assert_eq!(world.ground.driver.live().len(), 2);
    });
    world.end();
}

/// Standby machines have no owner after a restart: the next host makes new ones.
#[test]
fn standby_machines_of_a_host_that_was_cut_off_are_ended() {
    let ground = runtime().block_on(async { Arc::new(FakeHostState::make().await.unwrap()) });
    let settings = || HostSettings { standby: 2, ..FakeBed::settings() };
    let full = async |bed: &FakeBed| {
        wait_for("the shelf", SOON, async || (bed.host.status().await.standby == 2).then_some(())).await;
    };
    let first = runtime();
    let before = first.block_on(async {
        let bed = FakeBed::start_over(ground.clone(), settings()).await.unwrap();
        full(&bed).await;
        bed.driver.live()
    });
    cut_off(first);
    runtime().block_on(async {
        let bed = FakeBed::start_over(ground.clone(), settings()).await.unwrap();
        full(&bed).await;
        assert_eq!(bed.audited().await, (1, 2));
        assert!(bed.driver.live().iter().all(|machine| !before.contains(machine)), "an unprimed machine was kept");
        bed.host.close().await;
        assert!(bed.leftovers().await.unwrap().is_empty());
    });
}

/// Makes the control group of a machine, and has a process exceed its memory limit.
fn starve(ground: &FakeHostState, machine: MachineId) {
    let group = CgroupHierarchy::find().unwrap().group(&group_of(&ground.run_root.join(machine.to_string())));
    group.limit(&CgroupLimits { cpu_percent: 100, memory_bytes: 64 << 20, pids: 16 }).unwrap();
    let hungry = ["-c", "read word; exec python3 -c 'b = bytearray(200 << 20)'"];
    let mut child = Command::new("sh").args(hungry).stdin(Stdio::piped()).spawn().unwrap();
    group.add_process(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(!child.wait().unwrap().success());
    assert_eq!(group.memory_kills(), 1);
}

/// No host saw it die. Its control group shows the reason until it is removed.
#[test]
fn a_machine_that_ran_out_of_memory_while_no_host_ran_says_so() {
    let first = runtime();
    let (ground, id, machine) = first.block_on(async {
        let ground = Arc::new(FakeHostState::make().await.unwrap());
        let (id, machine) = host(&ground).await.create().await;
        (ground, id, machine)
    });
    cut_off(first);
    ground.driver.kill(machine);
    starve(&ground, machine);
    runtime().block_on(async {
        let bed = host(&ground).await;
        let layer = ground.layers.template(&spec("mini").template).unwrap();
        let manifest = ground.layers.manifest(layer).unwrap();
        let memory = MachineLimits::of(manifest.memory, manifest.cpus).memory.as_mib();
        let reason = format!("killed: the machine used more than its {memory} MiB");
        assert_eq!(bed.state(id).await, Some(SandboxState::Failed { reason }));
        assert_eq!(bed.audited().await, (1, 0));
        bed.host.close().await;
        assert!(bed.leftovers().await.unwrap().is_empty());
    });
}
