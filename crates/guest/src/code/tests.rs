//! Kernels as processes on this host: the kernels' own tests, and a session from start to end.

use std::{path::PathBuf, process::Command, rc::Rc, time::Duration};

use pandastack_wire_guest::{CodeEnd, KernelLanguage};
use tokio::task::LocalSet;

use super::{
    control::CellRequest,
    session::{FinishedCell, KernelSession},
};
use crate::{Agent, rebirth::RecordingSystem};

pub(super) const LONG: Duration = Duration::from_secs(120);

#[test]
fn the_kernels_pass_their_own_tests() {
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("the test runner says where the package lies");
    let tests = PathBuf::from(package).join("src/code/kernels/test_kernels.py");
    let output = Command::new("python3").arg("-B").arg(tests).output().expect("python3 is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a test's body with an open session.
fn with_session(language: KernelLanguage, body: impl AsyncFnOnce(&Rc<Agent>, Rc<KernelSession>)) {
    with_agent(async |agent| {
        let session = KernelSession::open(agent, "one".to_owned(), language).await.expect("the session opens");
        body(agent, session).await;
    });
}

/// Runs a test's body together with the reaper, on one thread like the agent.
pub(super) fn with_agent(body: impl AsyncFnOnce(&Rc<Agent>)) {
    // The agent is the parent of all orphans.
    nix::sys::prctl::set_child_subreaper(true).expect("this process may be one");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let agent = Agent::new(b"secret".to_vec(), 0, Box::new(RecordingSystem::default())).expect("an agent");
    runtime.block_on(LocalSet::new().run_until(async {
        let reaping = agent.clone();
        let reaper = tokio::task::spawn_local(async move { reaping.reaper.run().await });
        // The agent has one thread. A test process has more, and any of them may consume the
        // SIGCHLD of an ended child.
        let reminder = tokio::task::spawn_local(async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGCHLD);
            }
        });
        body(&agent).await;
        reminder.abort();
        reaper.abort();
    }));
}

fn cell(code: &str) -> CellRequest<'_> {
    CellRequest { code: code.as_bytes(), trace: None }
}

pub(super) async fn run(agent: &Rc<Agent>, session: &KernelSession, code: &str, limit: Duration) -> FinishedCell {
    session.run(agent, &cell(code), limit).await.expect("the cell runs")
}

pub(super) fn out(ran: &FinishedCell) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn a_late_cell_is_interrupted_and_the_state_is_kept() {
    with_session(KernelLanguage::Python, async |agent, session| {
        run(agent, &session, "x = 7", LONG).await;
        let late = run(agent, &session, "import time; time.sleep(600)", Duration::from_millis(200)).await;
        assert_eq!((late.how.end, late.how.lost), (CodeEnd::Late, false));
        let ran = run(agent, &session, "print(x)", LONG).await;
        assert_eq!((out(&ran).as_str(), ran.how.anew, ran.how.end), ("7\n", false, CodeEnd::Answered));
        assert_eq!(session.describe().cells, 3);
    });
}

#[test]
fn a_kernel_that_does_not_obey_is_replaced_and_the_next_cell_is_told() {
    with_session(KernelLanguage::Python, async |agent, session| {
        let deaf = "x = 1\nimport signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])";
        run(agent, &session, deaf, LONG).await;
        let late = run(agent, &session, "time.sleep(600)", Duration::from_millis(300)).await;
        assert_eq!((late.how.end, late.how.lost), (CodeEnd::Late, true));
        let ran = run(agent, &session, "print('x' in globals())", LONG).await;
        assert_eq!((out(&ran).as_str(), ran.how.anew), ("False\n", true));
        let ran = run(agent, &session, "print(1)", LONG).await;
        assert!(!ran.how.anew, "told once");
    });
}

#[test]
fn a_program_that_hides_the_interrupt_from_the_kernel_is_interrupted_itself() {
    with_session(KernelLanguage::Python, async |agent, session| {
        // `system` ignores interrupts while it waits.
        run(agent, &session, "x = 2\nimport os", LONG).await;
        let late = run(agent, &session, "os.system('sleep 600')", Duration::from_millis(300)).await;
        assert_eq!((late.how.end, late.how.lost), (CodeEnd::Late, false));
        assert_eq!(out(&run(agent, &session, "print(x)", LONG).await), "2\n");
    });
}

#[test]
fn a_kernel_that_ends_says_how_and_what_it_wrote() {
    with_session(KernelLanguage::Python, async |agent, session| {
        let ran = run(agent, &session, "import os\nprint('last words')\nos.kill(os.getpid(), 9)", LONG).await;
        assert_eq!((ran.how.end, ran.how.exit, ran.how.lost), (CodeEnd::KernelEnded, 137, true));
        assert_eq!(out(&ran), "last words\n");
        assert!(run(agent, &session, "1", LONG).await.how.anew);
        let ran = run(agent, &session, "import os; os._exit(3)", LONG).await;
        assert_eq!((ran.how.end, ran.how.exit), (CodeEnd::KernelEnded, 3));
        let broken = "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'x' * 100)\n    except OSError: \
            pass\nimport time; time.sleep(600)";
        let ran = run(agent, &session, broken, LONG).await;
        assert_eq!((ran.how.end, ran.how.lost), (CodeEnd::KernelEnded, true), "nonsense on the control socket");
    });
}

#[test]
fn output_past_the_limit_is_cut_and_stops_nobody() {
    with_session(KernelLanguage::Python, async |agent, session| {
        let flood = "import os\nfor _ in range(48): os.write(1, b'y' * 65536)\nprint('end')\nos.write(2, b'e')";
        let ran = run(agent, &session, flood, LONG).await;
        assert_eq!((ran.how.end, ran.how.exit, ran.stdout.len()), (CodeEnd::Answered, 0, 1024 * 1024));
        assert_eq!((ran.how.stdout_cut, ran.how.stderr_cut, ran.stderr.as_slice()), (true, false, &b"e"[..]));
        assert_eq!(out(&run(agent, &session, "print(2)", LONG).await), "2\n");
    });
}

#[test]
fn cells_take_turns_and_one_that_waits_too_long_never_begins() {
    with_session(KernelLanguage::Python, async |agent, session| {
        let cell = |text: &'static str, limit| run(agent, &session, text, limit);
        let (first, second, third) = tokio::join!(
            cell("import time; time.sleep(0.5); y = 1", LONG),
            cell("print(y)", LONG),
            cell("z = 1", Duration::from_millis(50)),
        );
        assert_eq!((first.how.end, out(&second).as_str()), (CodeEnd::Answered, "1\n"));
        assert_eq!(third.how.end, CodeEnd::NeverBegun);
        assert_eq!(out(&run(agent, &session, "print('z' in globals())", LONG).await), "False\n");
    });
}

#[test]
fn a_cell_that_is_left_alone_is_interrupted() {
    with_session(KernelLanguage::Python, async |agent, session| {
        run(agent, &session, "kept = 5", LONG).await;
        let noise = cell("print('noise')\nwhile True: pass");
        let left = session.run(agent, &noise, LONG);
        assert!(tokio::time::timeout(Duration::from_millis(300), left).await.is_err());
        let ran = run(agent, &session, "print(kept)", LONG).await;
        assert_eq!((out(&ran).as_str(), ran.how.anew), ("5\n", false), "its output is not the next one's");
    });
}

#[test]
fn closing_ends_the_cell_that_runs_and_the_ones_that_wait() {
    with_session(KernelLanguage::Bash, async |agent, session| {
        let close = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            session.close();
        };
        let (sleep, echo) = (cell("sleep 600"), cell("echo 1"));
        let (running, waiting, ()) =
            tokio::join!(session.run(agent, &sleep, LONG), session.run(agent, &echo, LONG), close);
        assert!(running.is_err() && waiting.is_err());
        assert!(session.run(agent, &echo, LONG).await.is_err());
    });
}

#[test]
fn a_shell_keeps_its_folder_and_variables() {
    with_session(KernelLanguage::Bash, async |agent, session| {
        run(agent, &session, "cd /usr; a=1", LONG).await;
        let ran = run(agent, &session, "pwd; echo $a; exit 4", LONG).await;
        assert_eq!((out(&ran).as_str(), ran.how.exit, ran.how.end), ("/usr\n1\n", 4, CodeEnd::KernelEnded));
        assert!(run(agent, &session, "true", LONG).await.how.anew);
    });
}

#[test]
fn each_cell_sees_the_trace_of_its_own_request() {
    let said = |language, code: &'static str| {
        let mut seen = Vec::new();
        with_session(language, async |agent, session| {
            for trace in [Some("00-aa-bb-01"), Some("00-cc-dd-01"), Some("x; no trace"), None] {
                let ran = session.run(agent, &CellRequest { code: code.as_bytes(), trace }, LONG).await;
                seen.push(out(&ran.expect("the cell runs")));
            }
        });
        seen
    };
    // A cell without a trace keeps the previous one.
    let told = ["00-aa-bb-01\n", "00-cc-dd-01\n", "00-cc-dd-01\n", "00-cc-dd-01\n"];
    let python = "import os, subprocess; print(subprocess.getoutput('echo $TRACEPARENT'))";
    assert_eq!(said(KernelLanguage::Python, python), told);
    assert_eq!(said(KernelLanguage::Bash, "echo $TRACEPARENT"), told);
}
