//! Random lives of sandboxes, told in random pieces, more than once and with crashes in between.
//! What is billed must be what happened.

use std::time::Duration;

use pandastack_wire_fleet::{MachineEvent, MachineFact};

use crate::{
    billing::{NOON_S, S, StillClock, rig},
    rig::Rig,
};

/// A simple generator, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Seconds of CPU, of a GiB of memory, and of a GiB of storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Truth {
    vcpu: u64,
    memory: u64,
    storage: u64,
}

/// A sandbox on a host that may crash. The truth counts what the host confirmed.
struct Life {
    fact: MachineFact,
    told: Vec<MachineFact>,
    truth: Truth,
    /// Time since the last sign of life. Nobody pays for it if the machine is lost.
    unconfirmed_s: u64,
}

impl Life {
    fn begin(sandbox: &str, at_ns: u64, cpus: u8) -> Self {
        let fact = MachineFact {
            sandbox: sandbox.parse().unwrap(),
            epoch: 0,
            sequence: 1,
            change: MachineEvent::Started,
            vcpus: cpus,
            memory_mib: 1024,
            disk_bytes: 2 << 30,
            at_ns,
            seen_ns: at_ns,
        };
        Self { fact, told: vec![fact], truth: Truth::default(), unconfirmed_s: 0 }
    }

    fn pass(&mut self, seconds: u64) {
        self.unconfirmed_s += seconds;
    }

    /// Counts the time since the last sign of life, in the present state.
    fn confirm(&mut self) {
        let seconds = std::mem::take(&mut self.unconfirmed_s);
        let (cpu, memory, storage) = match self.fact.change {
            MachineEvent::Started | MachineEvent::Woken | MachineEvent::Resumed => (u64::from(self.fact.vcpus), 1, 2),
            MachineEvent::Paused => (0, 1, 2),
            MachineEvent::Hibernated => (0, 0, 2),
            MachineEvent::Ended => (0, 0, 0),
        };
        self.truth.vcpu += cpu * seconds;
        self.truth.memory += memory * seconds;
        self.truth.storage += storage * seconds;
    }

    fn beat(&mut self, now_ns: u64) {
        if matches!(self.fact.change, MachineEvent::Hibernated | MachineEvent::Ended) {
            return;
        }
        self.confirm();
        self.fact.seen_ns = now_ns;
        self.told.push(self.fact);
    }

    fn change(&mut self, change: MachineEvent, now_ns: u64, is_new_machine: bool) {
        self.fact = MachineFact {
            epoch: self.fact.epoch + u32::from(is_new_machine),
            sequence: self.fact.sequence + 1,
            change,
            at_ns: now_ns,
            seen_ns: now_ns,
            ..self.fact
        };
        self.told.push(self.fact);
    }

    /// Does something that is possible in the present state.
    fn act(&mut self, dice: &mut Dice, now_ns: u64) {
        use MachineEvent::{Ended, Hibernated, Paused, Resumed, Started, Woken};
        let next = match (self.fact.change, dice.throw(6)) {
            (Ended, _) => return,
            (_, 0) => return self.beat(now_ns),
            (Hibernated, _) => Woken,
            // The machine is lost and replaced: the time since its last sign of life is free.
            (_, 1) => {
                self.unconfirmed_s = 0;
                return self.change(Started, now_ns, true);
            }
            (Paused, _) => Resumed,
            (_, 2) => Hibernated,
            (_, 3) if dice.throw(4) == 0 => Ended,
            _ => Paused,
        };
        self.confirm();
        self.change(next, now_ns, next == Woken);
    }
}

async fn sums(rig: &Rig) -> Truth {
    rig.control.meter_usage().await.unwrap();
    let (_, bill) = rig.get("/v1/billing").await;
    let whole = |name: &str| {
        let seconds = bill[name].as_f64().unwrap();
        assert!((seconds - seconds.round()).abs() < 1e-3, "{name} {seconds}");
        seconds.round() as u64
    };
    Truth {
        vcpu: whole("mtd_vcpu_seconds"),
        memory: whole("mtd_memory_gib_seconds"),
        storage: whole("mtd_storage_gib_seconds"),
    }
}

async fn live(seed: u64) {
    let (clock, mut dice) = (StillClock::at(NOON_S), Dice(seed));
    let rig = rig(&clock).await;
    let mut lives = Vec::new();
    for _ in 0..3 {
        let id = rig.created().await;
        lives.push(Life::begin(&id, clock.now_s() * S, 1 + dice.throw(4) as u8));
    }
    for _ in 0..60 {
        // Short and long steps: some cross hours, and some the time after which hours are final.
        let seconds = if dice.throw(8) == 0 { dice.throw(9 * 3600) } else { dice.throw(300) };
        clock.pass(seconds);
        let now_ns = clock.now_s() * S;
        for life in &mut lives {
            life.pass(seconds);
            // A host confirms its machines all the time. Long silence would mean that it is gone.
            if dice.throw(3) > 0 {
                life.act(&mut dice, now_ns);
            }
        }
        // The host's pages come in order, some of them twice.
        for fact in lives.iter_mut().flat_map(|life| life.told.drain(..)) {
            let times = if dice.throw(5) == 0 { 2 } else { 1 };
            rig.host.machine_facts.lock().unwrap().extend([fact; 2].into_iter().take(times));
        }
        match dice.throw(4) {
            0 => rig.control.meter_usage().await.unwrap(),
            // A crash in the middle.
            1 => drop(tokio::time::timeout(Duration::from_micros(dice.throw(4000)), rig.control.meter_usage()).await),
            _ => {}
        }
    }
    // Sleeping sandboxes are counted at full hours.
    let rest = 3600 - clock.now_s() % 3600;
    clock.pass(rest);
    let now_ns = clock.now_s() * S;
    for life in &mut lives {
        life.pass(rest);
        life.beat(now_ns);
        if life.fact.change == MachineEvent::Hibernated {
            life.confirm();
        }
        rig.host.machine_facts.lock().unwrap().append(&mut life.told);
    }
    let truth = lives.iter().fold(Truth::default(), |sum, life| Truth {
        vcpu: sum.vcpu + life.truth.vcpu,
        memory: sum.memory + life.truth.memory,
        storage: sum.storage + life.truth.storage,
    });
    assert_eq!(sums(&rig).await, truth, "seed {seed}");
    assert_eq!(sums(&rig).await, truth, "counted once more, seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_lives_are_billed_as_they_were() {
    for seed in 1..=8 {
        live(seed).await;
    }
}
