//! Seal, snapshot, fork, sleep and wake on real machines.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures_util::StreamExt;
use pandastack_e2e::PATIENCE;
use pandastack_host::{HostSettings, MemorySource};
use pandastack_model::{
    ByteSize, CodeLanguage, GuestPort, LayerId, SandboxId, SandboxOrigin, SandboxSpec, SandboxState,
};
use pandastack_testbed::{Bed, spec, with_bed};
use pandastack_wire_fleet::{
    CellEnd, CellEvent, CellParams, EnsureParams, ForkParams, HostEvent, HostPort, LayerHold, SealParams,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// More than a seal holds in memory while its guest continues. It is written while the guest is
/// paused.
const MUCH: ByteSize = ByteSize::mib(140);

fn settings() -> HostSettings {
    HostSettings { standby: 0, ..HostSettings::default() }
}

/// A process with its own memory: it counts, and returns its count and its secret on request.
const COUNTER: &str = "nohup python3 -c '
import http.server, threading
count = [0]
class Say(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        count[0] += 1
        body = str(count[0]).encode()
        self.send_response(200); self.send_header(\"Content-Length\", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer((\"0.0.0.0\", 8000), Say).serve_forever()
' > /tmp/counter.log 2>&1 &
for i in $(seq 100); do python3 -c 'import urllib.request as u; \
print(u.urlopen(\"http://127.0.0.1:8000\").read().decode())' 2>/dev/null && break; sleep 0.1; done";

async fn count(bed: &Bed, id: SandboxId) -> u64 {
    let asked = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8000\").read().decode())'";
    bed.out(id, asked).await.parse().expect("the counter says a number")
}

/// Queries the counter from outside, over a connection through the host.
async fn count_from_outside(bed: &Bed, id: SandboxId) -> u64 {
    let mut stream = bed.host.connect(id, GuestPort::try_from(8000).unwrap()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut said = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut said)).await.unwrap().unwrap();
    said.rsplit("\r\n").next().unwrap().parse().unwrap_or_else(|_| panic!("the counter says {said:?}"))
}

/// Runs a cell that prints, in the only code session of a sandbox. Its kernel must be the earlier
/// one.
async fn cell(bed: &Bed, id: SandboxId, code: &str) -> String {
    let ask = CellParams { session: "one".parse().unwrap(), code: code.to_owned().into(), limit: PATIENCE };
    let events: Vec<CellEvent> = bed.host.run_cell(id, ask).await.unwrap().collect().await;
    let Some(CellEvent::Ended(ended)) = events.last() else { panic!("{events:?}") };
    assert_eq!((ended.how, ended.anew, ended.lost), (CellEnd::Answered { exit: 0 }, false, false), "{events:?}");
    let printed =
        events.iter().filter_map(|event| if let CellEvent::Stdout(text) = event { Some(&text[..]) } else { None });
    String::from_utf8(printed.collect::<Vec<_>>().concat()).unwrap().trim_end().to_owned()
}

async fn state(bed: &Bed, id: SandboxId) -> SandboxState {
    bed.host.observe(id).await.expect("the sandbox is known").state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_its_parents_memory_and_files_and_goes_its_own_way() {
    with_bed(
        settings(),
        |net| net,
        async |bed| {
            let parent = bed.create().await.unwrap();
            assert_eq!(bed.out(parent, COUNTER).await, "1");
            bed.out(parent, "echo before > /root/note; echo x > /dev/shm/mem").await;
            let children = bed.fork(parent, 3).await.unwrap();
            bed.out(parent, "echo parent > /root/note").await;
            assert_eq!(count(bed, parent).await, 2);
            for child in &children {
                assert_eq!(bed.out(*child, "cat /root/note /dev/shm/mem").await, "before\nx");
                assert_eq!(count(bed, *child).await, 2, "the counter's process went on from the same moment");
                bed.out(*child, &format!("echo {child} > /root/note")).await;
            }
            for child in &children {
                assert_eq!(bed.out(*child, "cat /root/note").await, child.to_string());
            }
            let grandchild = bed.fork(children[0], 1).await.unwrap()[0];
            let great = bed.fork(grandchild, 1).await.unwrap()[0];
            assert_eq!(bed.out(great, "cat /root/note").await, children[0].to_string());
            assert_eq!(count(bed, great).await, 3);
            for id in children.iter().chain([&parent, &grandchild, &great]) {
                bed.host.remove(*id).await.unwrap();
            }
            let report = bed.host.audit().await.unwrap();
            assert_eq!((report.leaks.len(), report.layers), (0, 1), "only the template is left: {report:?}");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_outlives_its_sandbox_and_its_last_user_takes_it_along() {
    with_bed(
        settings(),
        |net| net,
        async |bed| {
            let source = bed.create().await.unwrap();
            bed.out(source, "echo kept > /root/note").await;
            let layer = LayerId::random();
            let ask = SealParams { layer, hold: LayerHold::Kept };
            let view = bed.host.seal(source, ask).await.unwrap();
            assert!(view.own.get() > 0);
            bed.host.seal(source, ask).await.unwrap();
            bed.host.remove(source).await.unwrap();
            let id = SandboxId::random();
            let from = SandboxSpec { origin: SandboxOrigin::Layer(layer), ..spec("mini") };
            bed.host.ensure(EnsureParams { id, generation: 1, spec: from.clone() }).await.unwrap();
            assert_eq!(bed.out(id, "cat /root/note").await, "kept");
            bed.host.release(layer).await.unwrap();
            assert_eq!(bed.host.audit().await.unwrap().layers, 2, "a layer in use is not removed");
            assert_eq!(bed.out(id, "cat /root/note").await, "kept");
            bed.host.remove(id).await.unwrap();
            assert_eq!(bed.host.audit().await.unwrap().layers, 1);
            let fault = bed.host.ensure(EnsureParams { id, generation: 1, spec: from }).await.unwrap_err();
            assert_eq!(fault.code, "snapshot.not_found");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_sandbox_serves_nothing_until_it_is_resumed() {
    with_bed(
        settings(),
        |net| net,
        async |bed| {
            let id = bed.create().await.unwrap();
            bed.host.pause(id).await.unwrap();
            bed.host.pause(id).await.unwrap();
            assert_eq!(state(bed, id).await, SandboxState::Paused);
            let fault = bed.sh(id, "true").await.unwrap_err();
            assert!(fault.to_string().contains("sandbox.invalid_state"), "{fault}");
            bed.host.resume(id).await.unwrap();
            assert_eq!(bed.out(id, "echo on").await, "on");
            bed.host.pause(id).await.unwrap();
            bed.host.sleep(id).await.unwrap();
            assert_eq!(bed.out(id, "echo awake").await, "awake");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_uses_share_one_wake() {
    with_bed(
        HostSettings { blanks: 0, ..settings() },
        |net| net,
        async |bed| {
            let id = bed.create().await.unwrap();
            bed.host.sleep(id).await.unwrap();
            let mut events = bed.host.events();
            let uses = futures_util::future::join_all((0..8).map(|_| bed.sh(id, "echo $PPID"))).await;
            for outcome in uses {
                assert_eq!(outcome.unwrap().1, 0);
            }
            let told: Vec<HostEvent> = std::iter::from_fn(|| events.try_recv().ok()).collect();
            let [HostEvent::Changed { view, .. }] = &told[..] else {
                panic!("it woke once and did nothing else: {told:?}")
            };
            assert_eq!(view.state, SandboxState::Running);
            assert_eq!(bed.host.audit().await.unwrap().machines, 1);
        },
    )
    .await;
}

/// Which child is the last to fit is random. The others must report why they do not fit, and
/// nothing may be left of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_does_not_fit_says_so_for_each_child() {
    let total = Arc::new(AtomicU64::new(ByteSize::gib(64).get()));
    let told = total.clone();
    let source = MemorySource::new(move || (ByteSize::new(told.load(Ordering::Relaxed)), ByteSize::gib(64)));
    let settings = HostSettings { overcommit_percent: 100, memory: Some(source), blanks: 0, ..settings() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            let parent = bed.create().await.unwrap();
            bed.out(parent, "echo kept > /dev/shm/note").await;
            // Space for the parent, for two others and for half of one more.
            let memory = ByteSize::mib(bed.host.observe(parent).await.unwrap().memory_mib);
            total.store(memory.get() * 7 / 2, Ordering::Relaxed);
            let child = || EnsureParams { id: SandboxId::random(), generation: 1, spec: spec("mini") };
            let children: Vec<EnsureParams> = (0..4).map(|_| child()).collect();
            let ask = ForkParams { parent, layer: LayerId::random(), children: children.clone() };
            let forked = bed.host.fork(ask).await.unwrap();
            assert_eq!(forked.children.iter().filter(|child| child.is_ok()).count(), 2, "{forked:?}");
            for (asked, outcome) in children.iter().zip(&forked.children) {
                match outcome {
                    Ok(view) => {
                        assert_eq!(view.id, asked.id);
                        assert_eq!(bed.out(asked.id, "cat /dev/shm/note").await, "kept");
                    }
                    Err(fault) => {
                        assert_eq!(fault.code, "host.full", "{fault:?}");
                        assert!(bed.host.observe(asked.id).await.is_none());
                    }
                }
            }
            assert_eq!(bed.out(parent, "cat /dev/shm/note").await, "kept");
            let report = bed.host.audit().await.unwrap();
            assert_eq!((report.leaks.len(), report.machines, report.layers), (0, 3, 2), "{report:?}");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_much_changed_memory_is_equal_to_its_source() {
    with_bed(
        settings(),
        |net| net,
        async |bed| {
            let parent = bed.create().await.unwrap();
            let much = MUCH.get();
            bed.out(
                parent,
                &format!("mount -o remount,size={much} /dev/shm && head -c {much} /dev/urandom > /dev/shm/much"),
            )
            .await;
            let child = EnsureParams { id: SandboxId::random(), generation: 1, spec: spec("mini") };
            let id = child.id;
            let ask = ForkParams { parent, layer: LayerId::random(), children: vec![child] };
            let forked = bed.host.fork(ask).await.unwrap();
            assert!(forked.layer.own >= MUCH, "only {} were sealed", forked.layer.own);
            forked.children.into_iter().next().unwrap().unwrap();
            let sum = "stat -c %s /dev/shm/much; sha256sum < /dev/shm/much";
            let (of_parent, of_child) = (bed.out(parent, sum).await, bed.out(id, sum).await);
            assert!(of_parent.starts_with(&much.to_string()), "{of_parent}");
            assert_eq!(of_parent, of_child);
        },
    )
    .await;
}

/// A process that writes to one page of its memory after the other and checks each before. So a
/// page that is older or newer than its neighbours is found within two rounds.
const WRITER: &str = r#"nohup python3 -c '
import mmap, os
memory = mmap.mmap(-1, 64 << 20)
number = 0
while True:
    number += 1
    old, new = (number - 1) % 251, number % 251
    for at in range(0, len(memory), 4096):
        if memory[at] != old and number > 1:
            open("/dev/shm/bad", "a").write(f"{at}: {memory[at]} and not {old}\n")
        memory[at] = new
    open("/dev/shm/next", "w").write(str(number))
    os.replace("/dev/shm/next", "/dev/shm/round")
' > /tmp/writer.log 2>&1 &
until [ -e /dev/shm/round ]; do sleep 0.1; done"#;

/// Waits for two more rounds of the writer, and returns what it found bad.
const TWO_ROUNDS: &str = r#"read -r begun < /dev/shm/round
until [ "$(cat /dev/shm/round)" -ge $((begun + 2)) ]; do sleep 0.1; done
cat /tmp/writer.log /dev/shm/bad 2> /dev/null || true"#;

/// Its memory is copied while it writes, and only the rest while it is paused.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_busy_writer_is_of_one_moment() {
    with_bed(
        settings(),
        |net| net,
        async |bed| {
            let parent = bed.create().await.unwrap();
            bed.out(parent, WRITER).await;
            for _ in 0..3 {
                let child = bed.fork(parent, 1).await.unwrap()[0];
                assert_eq!(bed.out(child, TWO_ROUNDS).await, "");
                bed.host.remove(child).await.unwrap();
            }
            assert_eq!(bed.out(parent, TWO_ROUNDS).await, "");
        },
    )
    .await;
}

/// One after the other.
mod deep {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn ten_sleeps_in_a_row_lose_nothing() {
        with_bed(
            settings(),
            |net| net,
            async |bed| {
                let id = bed.create().await.unwrap();
                assert_eq!(bed.out(id, COUNTER).await, "1");
                let (host, machine) = (bed.out(id, "hostname").await, bed.out(id, "cat /etc/machine-id").await);
                bed.host.open_code(id, &"one".parse().unwrap(), CodeLanguage::Python).await.unwrap();
                cell(bed, id, "rounds = []").await;
                for round in 1..=10_u64 {
                    bed.out(id, &format!("echo {round} >> /root/rounds; echo {round} > /dev/shm/round")).await;
                    bed.host.sleep(id).await.unwrap();
                    assert_eq!(state(bed, id).await, SandboxState::Asleep);
                    assert_eq!(bed.host.machine_pid(id).await, None, "a sleeper has no machine");
                    // Any use wakes it.
                    assert_eq!(bed.out(id, "cat /dev/shm/round").await, round.to_string());
                    // Alternates: the first use must wake it completely.
                    let counted = if round % 2 == 0 { count(bed, id).await } else { count_from_outside(bed, id).await };
                    assert_eq!(counted, round + 1);
                    let grown =
                        cell(bed, id, &format!("rounds.append({round}); print(len(rounds), sum(rounds))")).await;
                    assert_eq!(grown, format!("{round} {}", round * (round + 1) / 2));
                }
                // A connection alone wakes it too.
                bed.host.sleep(id).await.unwrap();
                assert_eq!(count_from_outside(bed, id).await, 12);
                let rounds: Vec<String> = (1..=10).map(|round| round.to_string()).collect();
                assert_eq!(bed.out(id, "cat /root/rounds").await, rounds.join("\n"));
                assert_eq!(bed.out(id, "hostname").await, host);
                assert_eq!(bed.out(id, "cat /etc/machine-id").await, machine);
                let report = bed.host.audit().await.unwrap();
                assert_eq!((report.leaks.len(), report.layers), (0, 2), "the template and the last sleep: {report:?}");
            },
        )
        .await;
    }
}
