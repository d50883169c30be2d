//! Warm kernels as processes on this host.

use std::{
    io::Read,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    time::Duration,
};

use pandastack_wire_guest::{CommandLine, EnvVariable, KernelLanguage, StartProcess};
use tokio::time::Instant;

use super::{
    session::KernelSession,
    tests::{LONG, out, run, with_agent},
    warm::{self, keep},
};
use crate::{Agent, exec::ProcessCommand};

/// Only a warm kernel has this module.
const MARK: &str = "import colorsys\nx = 1\nprint('noise')";
const HAS_MARK: &str = "import sys, os; print('colorsys' in sys.modules, 'x' in globals(), os.environ.get('A'))";

async fn open(agent: &Rc<Agent>, name: &str) -> Rc<KernelSession> {
    KernelSession::open(agent, name.to_owned(), KernelLanguage::Python).await.expect("the session opens")
}

fn variable(name: &str, value: &str) -> EnvVariable {
    EnvVariable { name: name.to_owned(), value: value.to_owned() }
}

#[test]
fn sessions_start_warm_and_apart() {
    with_agent(async |agent| {
        keep(agent, KernelLanguage::Python, only(MARK), LONG).await.expect("it is warm");
        // What the sandbox gets at its rebirth.
        agent.replace_env(vec![variable("A", "new")]);
        let (one, two) = (open(agent, "one").await, open(agent, "two").await);
        assert_eq!(out(&run(agent, &one, HAS_MARK, LONG).await), "True False new\n");
        run(agent, &one, "y = 2", LONG).await;
        assert_eq!(out(&run(agent, &two, "print('y' in globals())", LONG).await), "False\n");
        let draw = "import random, tempfile; print(random.random(), tempfile.mktemp())";
        let drawn = [&one, &two].map(|session| async { out(&run(agent, session, draw, LONG).await) });
        let [first, second] = drawn;
        assert_ne!(first.await, second.await);
        // Its kernel is lost, and the next one is warm too.
        let ran = run(agent, &one, "import os; os._exit(3)", LONG).await;
        assert_eq!((ran.how.exit, ran.how.lost), (3, true));
        assert_eq!(out(&run(agent, &one, HAS_MARK, LONG).await), "True False new\n");
        let late = run(agent, &one, "import time; time.sleep(600)", Duration::from_millis(200)).await;
        assert!(!late.how.lost, "it obeys as any kernel");
    });
}

#[test]
fn what_an_interpreter_reads_at_its_start_is_read_by_a_new_one() {
    with_agent(async |agent| {
        keep(agent, KernelLanguage::Python, only(MARK), LONG).await.expect("it is warm");
        agent.replace_env(vec![variable("PYTHONPATH", "/nowhere")]);
        let session = open(agent, "one").await;
        let ran = run(agent, &session, "import sys; print('/nowhere' in sys.path, 'colorsys' in sys.modules)", LONG);
        assert_eq!(out(&ran.await), "True False\n");
    });
}

#[test]
fn a_lost_warm_kernel_is_replaced_and_code_that_fails_is_told() {
    with_agent(async |agent| {
        let error = keep(agent, KernelLanguage::Python, only("import nothing_here"), LONG).await.expect_err("it fails");
        assert!(error.to_string().contains("No module named 'nothing_here'"), "{error}");
        let code = format!(
            "{MARK}\nimport os\nprint(os.getpid(), flush=True)\nopen('{}', 'w').write(str(os.getpid()))",
            file()
        );
        keep(agent, KernelLanguage::Python, only(&code), LONG).await.expect("it is warm");
        let pid = std::fs::read_to_string(file()).expect("it says its id").parse().expect("a number");
        std::fs::remove_file(file()).expect("the file is there");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("it runs");
        let cold = open(agent, "one").await;
        assert_eq!(out(&run(agent, &cold, HAS_MARK, LONG).await), "False False None\n");
        let deadline = Instant::now() + LONG;
        while !std::path::Path::new(&file()).exists() || !warm::is_ready(agent, KernelLanguage::Python).await {
            assert!(Instant::now() < deadline, "it was not replaced");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::fs::remove_file(file()).expect("the file is there");
        let warm = open(agent, "two").await;
        assert_eq!(out(&run(agent, &warm, HAS_MARK, LONG).await), "True False None\n");
    });
}

#[test]
fn a_rehearsal_leaves_a_copy_for_the_next_session_and_nothing_else() {
    with_agent(async |agent| {
        keep(agent, KernelLanguage::Python, only(MARK), LONG).await.expect("it is warm");
        warm::rehearse(agent).await.expect("without a program there is nothing to do");
        let note = format!("{}-rehearsed", file());
        let rehearsal = format!("import os\nx = 3\nprint(os.getpid(), file=open('{note}', 'a'))");
        keep(agent, KernelLanguage::Python, [MARK.to_owned(), rehearsal], LONG).await.expect("it is warm");
        warm::rehearse(agent).await.expect("it runs");
        let said = std::fs::read_to_string(&note).expect("both wrote");
        std::fs::remove_file(&note).expect("the file is there");
        let ids: Vec<&str> = said.lines().collect();
        assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
        // What the sandbox gets at its rebirth.
        agent.births.set(agent.births.get() + 1);
        agent.replace_env(vec![variable("A", "new")]);
        let ask = format!("{HAS_MARK}; print(os.getpid())");
        let (one, two) = (open(agent, "one").await, open(agent, "two").await);
        let expected = format!("True False new\n{}\n", ids[1]);
        assert_eq!(out(&run(agent, &one, &ask, LONG).await), expected, "it has the copy that waited");
        let other = out(&run(agent, &two, &ask, LONG).await);
        assert!(other.starts_with("True False new\n") && other != expected, "{other}");
    });
}

#[test]
fn a_copy_that_waits_is_not_used_in_copies_of_its_guest() {
    with_agent(async |agent| {
        let note = format!("{}-waits", file());
        let rehearsal = format!("import os\nopen('{note}', 'w').write(str(os.getpid()))");
        keep(agent, KernelLanguage::Python, [MARK.to_owned(), rehearsal], LONG).await.expect("it is warm");
        warm::rehearse(agent).await.expect("it runs");
        let waits = std::fs::read_to_string(&note).expect("it wrote");
        std::fs::remove_file(&note).expect("the file is there");
        // A standby machine got its owner, and was then forked.
        agent.births.set(agent.births.get() + 2);
        let session = open(agent, "one").await;
        let said =
            out(&run(agent, &session, "import os, sys; print(os.getpid(), 'colorsys' in sys.modules)", LONG).await);
        assert!(said.ends_with(" True\n") && said != format!("{waits} True\n"), "{said}");
    });
}

/// A kernel without a rehearsal.
fn only(code: &str) -> [String; 2] {
    [code.to_owned(), String::new()]
}

fn file() -> String {
    std::env::temp_dir().join(format!("pandastack-warm-{}", std::process::id())).display().to_string()
}

/// Runs a program in a copy of the warm kernel: its exit code and output.
async fn once(agent: &Rc<Agent>, code: &str) -> Option<(i32, String)> {
    let program = CommandLine::Argv(vec!["python3".into(), "-c".into(), code.into()]);
    let start = StartProcess {
        program,
        cwd: Some("/usr".into()),
        env: vec![variable("B", "é")],
        user: None,
        stdin: false,
        deadline_ms: None,
        terminal: None,
        warm: Some(KernelLanguage::Python),
    };
    let command = ProcessCommand::resolve(&start, &agent.env()).expect("a command");
    let (read, write): (OwnedFd, OwnedFd) = nix::unistd::pipe().expect("a pipe");
    let (_group, ended) = warm::run_once(agent, KernelLanguage::Python, &command, code, [write.as_fd(); 2]).await?;
    drop(write);
    let end = ended.await.expect("it ends");
    let mut said = String::new();
    std::fs::File::from(read).read_to_string(&mut said).expect("text");
    Some((end.code, said))
}

#[test]
fn a_program_runs_once_beside_the_sessions() {
    with_agent(async |agent| {
        assert_eq!(once(agent, "1").await, None, "nothing is warm");
        keep(agent, KernelLanguage::Python, only(MARK), LONG).await.expect("it is warm");
        let session = open(agent, "one").await;
        run(agent, &session, "secret = 1", LONG).await;
        let code = "import os, sys\nprint(os.getcwd(), os.environ['B'], 'colorsys' in sys.modules, \
            'secret' in globals())\n5\nsys.exit(4)";
        assert_eq!(once(agent, code).await, Some((4, "/usr é True False\n".to_owned())));
        let (code, said) = once(agent, "def f():\n    1 / 0\nf()").await.expect("it ran");
        let frames = "Traceback (most recent call last):\n  File \"<string>\", line 3, in <module>\n";
        assert!(
            code == 1 && said.starts_with(frames) && said.ends_with("ZeroDivisionError: division by zero\n"),
            "{said}"
        );
        assert_eq!(once(agent, "1 +").await, None, "an interpreter says what is wrong with it");
        assert_eq!(once(agent, "import os; os.kill(os.getpid(), 9)").await.expect("it ran").0, 137);
    });
}

#[test]
fn a_process_that_cannot_be_copied_is_handed_out_and_replaced() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        return;
    }
    with_agent(async |agent| {
        let node = KernelLanguage::JavaScript;
        keep(agent, node, only("globalThis.mark = 1"), LONG).await.expect("it is warm");
        agent.replace_env(vec![variable("A", "new")]);
        let session = KernelSession::open(agent, "one".to_owned(), node).await.expect("the session opens");
        let asked = "console.log(globalThis.mark, process.env.A, process.env.HOME)";
        assert_eq!(out(&run(agent, &session, asked, LONG).await), "1 new /root\n");
        assert!(!warm::is_ready(agent, node).await);
        let cold = KernelSession::open(agent, "two".to_owned(), node).await.expect("the session opens");
        assert_eq!(out(&run(agent, &cold, asked, LONG).await), "undefined new /root\n");
        let deadline = Instant::now() + LONG;
        while !warm::is_ready(agent, node).await {
            assert!(Instant::now() < deadline, "it was not replaced");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // A copy of this guest would hand out the same generators.
        agent.births.set(agent.births.get() + 1);
        let other_life = KernelSession::open(agent, "three".to_owned(), node).await.expect("the session opens");
        assert_eq!(out(&run(agent, &other_life, asked, LONG).await), "undefined new /root\n");
    });
}
