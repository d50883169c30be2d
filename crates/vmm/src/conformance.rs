//! Checks that every driver must pass. A driver's tests implement [`DriverUnderTest`] and call
//! [`conformance_tests!`](crate::conformance_tests), so no driver can omit a check. A failed check
//! panics.

use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::sync::watch;

use pandastack_model::ByteSize;

use crate::{
    Driver, LayerFiles, Link, Machine, MachineError, MachineSpec, MachineStartError, MachineState, Power, SlotVolume,
    VolumeSlot,
};

/// Timeout for a guest to answer, and for a death to be reported.
const DEADLINE: Duration = Duration::from_secs(60);

/// Interval between two attempts.
const POLL: Duration = Duration::from_millis(5);

/// Long enough for a running guest to answer.
const SILENCE: Duration = Duration::from_millis(300);

/// A driver under test, with its environment.
#[async_trait]
pub trait DriverUnderTest: Send + Sync {
    fn driver(&self) -> &dyn Driver;

    /// Makes the folder, disk and network of one machine. The subject removes them at the end.
    async fn place(&self) -> MachineSpec;

    /// A complete layer that many machines may share.
    fn layer(&self) -> LayerFiles;

    /// A path for a file of the test.
    fn scratch(&self, name: &str) -> PathBuf;

    /// Stores a text in the guest over a separate link. Returns when the guest has it.
    async fn write(&self, link: Box<dyn Link>, text: &str) -> io::Result<()>;

    /// Returns the text that was stored in this guest, if any.
    async fn read(&self, link: Box<dyn Link>) -> io::Result<Option<String>>;

    /// Kills the machine without the driver.
    async fn kill(&self, machine: &dyn Machine);

    /// Counts all machines that are alive.
    fn live(&self) -> usize;

    /// Releases everything.
    async fn close(self);
}

/// Makes one test per check, for a function that starts a subject:
/// `conformance_tests!(FakeSubject::start)`.
#[macro_export]
macro_rules! conformance_tests {
    ($start:path) => {
        $crate::conformance_tests! { $start:
            restore_ends_paused,
            resume_and_pause_may_be_asked_twice,
            dial_works_only_while_the_guest_runs,
            a_paused_guest_is_silent,
            siblings_do_not_see_each_others_writes,
            stop_may_be_asked_twice,
            stop_of_a_dead_machine_is_fine,
            death_from_outside_is_told_with_a_reason,
            a_dead_machine_refuses_commands,
            saved_devices_restore_again,
            missing_devices_are_refused,
            garbage_devices_are_refused,
            a_dropped_machine_lives_on_and_is_adopted,
            only_the_living_machine_itself_is_adopted,
            an_empty_slot_takes_one_volume,
            a_blank_becomes_the_machine_of_its_layer,
            a_blank_ends_when_it_is_stopped_or_given_garbage,
        }
    };
    ($start:path: $($check:ident,)*) => {
        $(
            #[tokio::test]
            async fn $check() {
                let subject = $start().await;
                $crate::conformance::$check(&subject).await;
                assert_eq!($crate::conformance::DriverUnderTest::live(&subject), 0, "the check leaves no machine");
                $crate::conformance::DriverUnderTest::close(subject).await;
            }
        )*
    };
}

pub async fn restore_ends_paused(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    assert_eq!(power(&*machine).await, Power::Paused);
    assert_eq!(*machine.watch().borrow(), MachineState::Alive);
    assert_eq!(subject.live(), 1);
    machine.stop().await;
}

pub async fn a_blank_becomes_the_machine_of_its_layer(subject: &impl DriverUnderTest) {
    let Some(blank) = subject.driver().blank(subject.place().await).await.expect("a blank starts") else { return };
    assert_eq!(*blank.watch().borrow(), MachineState::Alive);
    let pid = blank.pid();
    let machine = blank.restore(&subject.layer()).await.expect("the layer fits");
    assert_eq!((subject.live(), machine.pid(), power(&*machine).await), (1, pid, Power::Paused));
    machine.resume().await.expect("resume");
    assert_eq!(subject.read(reach(&*machine).await).await.expect("the guest answers"), None);
    machine.stop().await;
}

pub async fn a_blank_ends_when_it_is_stopped_or_given_garbage(subject: &impl DriverUnderTest) {
    let Some(blank) = subject.driver().blank(subject.place().await).await.expect("a blank starts") else { return };
    blank.stop().await;
    assert_eq!(subject.live(), 0);
    assert!(blank.restore(&subject.layer()).await.is_err(), "a process that is gone runs nothing");
    let dev = subject.scratch("no-state");
    std::fs::write(&dev, b"not a device state").expect("write a file");
    let blank = subject.driver().blank(subject.place().await).await.expect("a blank starts").expect("as before");
    let outcome = blank.restore(&LayerFiles { dev, ..subject.layer() }).await.map(drop);
    assert!(matches!(outcome, Err(MachineStartError::Load { .. } | MachineStartError::Machine(_))), "{outcome:?}");
}

pub async fn resume_and_pause_may_be_asked_twice(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    for wanted in [Power::Paused, Power::Running, Power::Paused] {
        for _ in 0..2 {
            let answer = if wanted == Power::Running { machine.resume().await } else { machine.pause().await };
            answer.expect("asking twice is fine");
            assert_eq!(power(&*machine).await, wanted);
        }
    }
    machine.stop().await;
}

pub async fn dial_works_only_while_the_guest_runs(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    assert!(machine.dial().await.is_err(), "nobody answers in a paused guest");
    machine.resume().await.expect("resume");
    assert_eq!(subject.read(reach(&*machine).await).await.expect("the guest answers"), None);
    machine.stop().await;
}

pub async fn a_paused_guest_is_silent(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    machine.resume().await.expect("resume");
    subject.write(reach(&*machine).await, "kept").await.expect("the guest answers");
    let link = reach(&*machine).await;
    machine.pause().await.expect("pause");
    let answer = tokio::time::timeout(SILENCE, subject.read(link)).await;
    assert!(answer.is_err(), "a paused guest answered: {answer:?}");
    machine.resume().await.expect("resume again");
    let text = subject.read(reach(&*machine).await).await.expect("the guest answers again");
    assert_eq!(text.as_deref(), Some("kept"));
    machine.stop().await;
}

pub async fn siblings_do_not_see_each_others_writes(subject: &impl DriverUnderTest) {
    let mut siblings = Vec::new();
    for _ in 0..3 {
        let machine = restored(subject).await;
        machine.resume().await.expect("resume");
        siblings.push(machine);
    }
    assert_eq!(subject.live(), 3);
    for (at, machine) in siblings.iter().enumerate().skip(1) {
        subject.write(reach(&**machine).await, &format!("sibling {at}")).await.expect("write");
    }
    for (at, machine) in siblings.iter().enumerate() {
        let expected = (at > 0).then(|| format!("sibling {at}"));
        assert_eq!(subject.read(reach(&**machine).await).await.expect("read"), expected);
        machine.stop().await;
    }
    let late = restored(subject).await;
    late.resume().await.expect("resume");
    let text = subject.read(reach(&*late).await).await.expect("read");
    assert_eq!(text, None, "the layer kept a machine's write");
    late.stop().await;
}

pub async fn stop_may_be_asked_twice(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    machine.resume().await.expect("resume");
    machine.stop().await;
    assert_ne!(*machine.watch().borrow(), MachineState::Alive, "stop waits for the end");
    assert_eq!(subject.live(), 0);
    machine.stop().await;
    tokio::join!(machine.stop(), machine.stop());
}

pub async fn stop_of_a_dead_machine_is_fine(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    subject.kill(&*machine).await;
    machine.stop().await;
    assert_ne!(*machine.watch().borrow(), MachineState::Alive);
}

pub async fn death_from_outside_is_told_with_a_reason(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    machine.resume().await.expect("resume");
    let (early, late) = (machine.watch(), machine);
    subject.kill(&*late).await;
    let reason = death(early).await;
    assert!(!reason.is_empty());
    assert_eq!(death(late.watch()).await, reason, "who looks later learns the same");
    late.stop().await;
    assert_eq!(death(late.watch()).await, reason, "stopping the dead does not change why they died");
}

pub async fn a_dead_machine_refuses_commands(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    machine.resume().await.expect("resume");
    drop(reach(&*machine).await);
    subject.kill(&*machine).await;
    death(machine.watch()).await;
    let dead = |answer: Result<(), MachineError>, command: &str| {
        assert!(matches!(answer, Err(MachineError::Dead { .. })), "{command} of a dead machine gave {answer:?}");
    };
    dead(machine.resume().await, "resume");
    dead(machine.pause().await, "pause");
    dead(machine.power().await.map(drop), "power");
    dead(machine.dial().await.map(drop), "dial");
    dead(machine.save_devices(&subject.scratch("dev-of-the-dead")).await, "save");
    machine.stop().await;
}

pub async fn saved_devices_restore_again(subject: &impl DriverUnderTest) {
    let first = restored(subject).await;
    let dev = subject.scratch("dev-again");
    first.save_devices(&dev).await.expect("a paused machine saves");
    assert_eq!(power(&*first).await, Power::Paused);
    first.stop().await;
    let again = LayerFiles { dev, ..subject.layer() };
    let second = subject.driver().restore(subject.place().await, &again).await.expect("what was saved restores");
    assert_eq!(power(&*second).await, Power::Paused);
    second.resume().await.expect("resume");
    subject.write(reach(&*second).await, "second life").await.expect("the guest answers");
    second.stop().await;
}

pub async fn missing_devices_are_refused(subject: &impl DriverUnderTest) {
    let layer = LayerFiles { dev: subject.scratch("no-such-file"), ..subject.layer() };
    refuses_to_load(subject, layer).await;
}

pub async fn garbage_devices_are_refused(subject: &impl DriverUnderTest) {
    let dev = subject.scratch("garbage");
    for garbage in [Vec::new(), b"QEVM".to_vec(), vec![0xa5; 100_000]] {
        std::fs::write(&dev, garbage).expect("write the garbage");
        refuses_to_load(subject, LayerFiles { dev: dev.clone(), ..subject.layer() }).await;
    }
}

pub async fn a_dropped_machine_lives_on_and_is_adopted(subject: &impl DriverUnderTest) {
    let spec = subject.place().await;
    let machine = subject.driver().restore(spec.clone(), &subject.layer()).await.expect("a whole layer restores");
    machine.resume().await.expect("resume");
    subject.write(reach(&*machine).await, "kept").await.expect("the guest answers");
    let pid = machine.pid();
    drop(machine);
    assert_eq!(subject.live(), 1, "a machine that nobody holds lives on");
    let machine = adopted(subject, &spec, pid).await;
    assert_eq!(power(&*machine).await, Power::Running, "it runs as it did");
    let text = subject.read(reach(&*machine).await).await.expect("the guest answers");
    assert_eq!(text.as_deref(), Some("kept"));
    machine.pause().await.expect("an adopted machine pauses");
    drop(machine);
    let machine = adopted(subject, &spec, pid).await;
    assert_eq!(power(&*machine).await, Power::Paused, "paused stays paused");
    assert_eq!(*machine.watch().borrow(), MachineState::Alive);
    machine.resume().await.expect("resume");
    let text = subject.read(reach(&*machine).await).await.expect("the guest answers again");
    assert_eq!(text.as_deref(), Some("kept"));
    subject.kill(&*machine).await;
    assert!(!death(machine.watch()).await.is_empty(), "the death of an adopted machine is told");
    let again = adopted_alive(subject).await;
    again.stop().await;
    assert_ne!(*again.watch().borrow(), MachineState::Alive, "stop waits for the end of an adopted machine");
}

pub async fn only_the_living_machine_itself_is_adopted(subject: &impl DriverUnderTest) {
    let (spec, other) = (subject.place().await, subject.place().await);
    let machine = subject.driver().restore(spec.clone(), &subject.layer()).await.expect("a whole layer restores");
    let pid = machine.pid();
    let stranger = async |spec: &MachineSpec, whose: &str| match subject.driver().adopt(spec.clone(), pid).await {
        Err(MachineStartError::Stranger { .. }) => {}
        Err(error) => panic!("adopting {whose} gave {error:?}"),
        Ok(_) => panic!("{whose} was adopted"),
    };
    stranger(&other, "another machine's process").await;
    subject.kill(&*machine).await;
    death(machine.watch()).await;
    stranger(&spec, "a dead machine").await;
    machine.stop().await;
    drop(machine);
    stranger(&spec, "a machine that is gone").await;
}

async fn adopted_alive(subject: &impl DriverUnderTest) -> Box<dyn Machine> {
    let spec = subject.place().await;
    let machine = subject.driver().restore(spec.clone(), &subject.layer()).await.expect("a whole layer restores");
    let pid = machine.pid();
    drop(machine);
    adopted(subject, &spec, pid).await
}

async fn adopted(subject: &impl DriverUnderTest, spec: &MachineSpec, pid: Option<u32>) -> Box<dyn Machine> {
    let machine = subject.driver().adopt(spec.clone(), pid).await.expect("a living machine is adopted");
    assert_eq!((machine.id(), machine.pid()), (spec.id, pid));
    machine
}

pub async fn an_empty_slot_takes_one_volume(subject: &impl DriverUnderTest) {
    let machine = restored(subject).await;
    let file = subject.scratch("disk-for-a-slot");
    std::fs::File::create(&file).and_then(|file| file.set_len(1 << 20)).expect("make a volume");
    for slot in VolumeSlot::all() {
        let port = SlotVolume { slot, file: file.clone() };
        // The host prevents attaching one file twice. Read-only slots may share a file.
        machine.attach(&port).await.expect("an empty slot takes a volume");
        machine.attach(&port).await.expect_err("a slot that is taken takes no other");
    }
    machine.resume().await.expect("resume");
    assert_eq!(subject.read(reach(&*machine).await).await.expect("the guest answers"), None);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(2 << 20))
        .expect("grow the volume");
    let first = VolumeSlot::all().next().expect("there are slots");
    machine.volume_grown(first, ByteSize::mib(2)).await.expect("a volume grows while its guest runs");
    machine.volume_grown(first, ByteSize::mib(1)).await.expect("news that came too late does no harm");
    assert_eq!(std::fs::metadata(&file).expect("look at the volume").len(), 2 << 20, "a volume was cut");
    machine.stop().await;
}

async fn refuses_to_load(subject: &impl DriverUnderTest, layer: LayerFiles) {
    match subject.driver().restore(subject.place().await, &layer).await {
        Err(MachineStartError::Load { .. }) => {}
        Err(other) => panic!("a bad state file gave {other:?}"),
        Ok(_) => panic!("a bad state file was loaded"),
    }
    assert_eq!(subject.live(), 0, "a refused restore leaves no machine");
}

async fn restored(subject: &impl DriverUnderTest) -> Box<dyn Machine> {
    let spec = subject.place().await;
    let id = spec.id;
    let machine = subject.driver().restore(spec, &subject.layer()).await.expect("a whole layer restores");
    assert_eq!(machine.id(), id);
    machine
}

async fn power(machine: &dyn Machine) -> Power {
    machine.power().await.expect("a living machine tells its power")
}

/// Dials until the guest accepts the connection.
async fn reach(machine: &dyn Machine) -> Box<dyn Link> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match machine.dial().await {
            Ok(link) => return link,
            Err(error) if Instant::now() > deadline => panic!("the guest does not listen: {error:?}"),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

async fn death(mut state: watch::Receiver<MachineState>) -> String {
    let dead = state.wait_for(|state| *state != MachineState::Alive);
    let state =
        tokio::time::timeout(DEADLINE, dead).await.expect("a death is told").expect("the watcher outlives the machine");
    match &*state {
        MachineState::Dead { reason } => reason.clone(),
        MachineState::Alive => unreachable!("just waited for the opposite"),
    }
}
