//! The kvm tier, proved in the emulated KVM host, a machine whose `/dev/kvm` is real: one boot in which `scripts/kvm-proof`
//! bakes `mini` and walks a sandbox through its whole life over the API, and `scripts/kvm-suite` runs the tests that every
//! other run has on the emulated tier.
//!
//! Every run has the suites that there is time for. `PANDASTACK_KVM_SUITES=all` has all of them, a list of names has those:
//!
//! ```text
//! PANDASTACK_KVM_SUITES=state,jail cargo test --workspace --test kvm_tier -- --nocapture
//! ```
//!
//! Every test has to pass there. If the emulated computer dies, which is no test's fault, a new one goes on with those that are
//! left. What each suite came to is printed, and every test that is left out with its reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use pandastack_e2e::project;
use pandastack_testbed::built;
use serde_json::Value;

/// A test program of this package, as it runs in the KVM host.
struct Suite {
    name: &'static str,
    runs: Runs,
    /// Tests that make no sense there, and why.
    left_out: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Always,
    WhenAsked,
}

const SUITES: &[Suite] = &[
    Suite { name: "conformance_qemu", runs: Runs::Always, left_out: &[] },
    Suite { name: "state", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "rebirth", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "links", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "volumes", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "faults", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "jail", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "egress", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "isolation", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "identity", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "agent", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "files", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "disk", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "cycles", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "crash", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "strays", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "egress_crash", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "jail_server", runs: Runs::WhenAsked, left_out: &[] },
    Suite { name: "lifecycle_api", runs: Runs::WhenAsked, left_out: &[] },
];

/// Two of these are less than the test runner gives this test, so that what was said until then is seen.
const TIMEOUT: Duration = Duration::from_secs(700);

/// Whoever asks for more has the time for it.
const TIMEOUT_ASKED: Duration = Duration::from_secs(7200);

/// How many tests the emulated computer gets through before it may die once more: it has a fault of its own (decision 2),
/// which meets it every twenty minutes or so.
const TESTS_PER_DEATH: usize = 20;

/// A program that tests of the jail start.
const HELPER: &str = "jail-probe";

#[test]
fn the_suite_of_the_emulated_tier_passes_on_kvm() {
    let project = project();
    assert!(built("pandastack").exists(), "`make build` builds what runs in the KVM host");
    let suites = chosen();
    let programs = programs(&project, &suites);
    let mut left: Tests = suites.iter().map(|suite| (suite.name, tests(&programs[suite.name], suite))).collect();
    let asked: BTreeMap<&str, usize> = left.iter().map(|(suite, tests)| (*suite, tests.len())).collect();
    let mut lives = 1 + asked.values().sum::<usize>() / TESTS_PER_DEATH;
    loop {
        let (status, said) = run(&project, &programs, &left);
        for (suite, test) in passed(&said) {
            if let Some(tests) = left.get_mut(suite) {
                tests.remove(test);
            }
        }
        let died = computer_died(&said);
        if died && lives > 0 {
            lives -= 1;
            println!("kvm tier: FLAKY: the emulated computer itself died; on with the tests it still owes");
            continue;
        }
        assert!(!died && status.success(), "kvm-host ended with {status}");
        assert!(said.lines().any(|line| line.trim() == "kvm: ok"), "the walk did not reach its end");
        break;
    }
    for suite in &suites {
        let failed = left[suite.name].len();
        println!("kvm tier, {}: {} passed, {failed} failed", suite.name, asked[suite.name] - failed);
        for (test, why) in suite.left_out {
            println!("kvm tier, {}: left out {test}: {why}", suite.name);
        }
    }
    left.retain(|_, tests| !tests.is_empty());
    assert!(left.is_empty(), "not passed on the kvm tier: {left:?}");
}

/// Names of tests by the names of their programs.
type Tests = BTreeMap<&'static str, BTreeSet<String>>;

/// Runs the walk and tests in the emulated KVM host, and gives what was said there.
fn run(project: &Path, programs: &BTreeMap<String, PathBuf>, tests: &Tests) -> (ExitStatus, String) {
    let mut command = Command::new(env!("CARGO"));
    let timeout = if asked().is_empty() { TIMEOUT } else { TIMEOUT_ASKED };
    command.args(["run", "--quiet", "--package", "xtask", "--", "kvm-host"]);
    command.args(["--timeout", &timeout.as_secs().to_string()]);
    for (from, to) in brought(project, programs) {
        command.arg("--with").arg(format!("{}:{to}", from.display()));
    }
    command.args(["--", "sh", "-c", "kvm-proof && kvm-suite \"$@\"", "kvm"]);
    for (suite, tests) in tests.iter().filter(|(_, tests)| !tests.is_empty()) {
        command.arg(format!("{suite},{}", Vec::from_iter(tests.iter().map(String::as_str)).join(",")));
    }
    let mut child =
        command.current_dir(project).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo starts");
    let errors = child.stderr.take().expect("it is piped");
    let errors = std::thread::spawn(move || shown(errors));
    let said = shown(child.stdout.take().expect("it is piped"));
    let said = said + &errors.join().expect("the reader ends");
    (child.wait().expect("cargo ends"), said)
}

/// Everything that is said, and each line is shown at once: a run of all suites takes hours.
fn shown(said: impl Read) -> String {
    let mut whole = String::new();
    for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        whole.push_str(&line);
        whole.push('\n');
    }
    whole
}

/// Whether the end was that of the emulated computer, which has faults of its own, and not of what ran in it.
fn computer_died(said: &str) -> bool {
    said.contains("xtask: the machine ended before the command did") || said.contains("xtask: not done after")
}

/// The tests that passed, each with its program: lines of the form `kvm: PROGRAM TEST: ok (7 s)`.
fn passed(said: &str) -> impl Iterator<Item = (&str, &str)> {
    said.lines().filter_map(|line| {
        let (test, end) = line.trim().strip_prefix("kvm: ")?.rsplit_once(": ")?;
        let good = end.starts_with("ok (") || end.starts_with("FLAKY (");
        test.split_once(' ').filter(|_| good)
    })
}

/// The suites of this run.
fn chosen() -> Vec<&'static Suite> {
    let names = asked();
    for name in &names {
        assert!(name == "all" || SUITES.iter().any(|suite| suite.name == name), "{name} is no suite of the KVM host");
    }
    let wanted = |suite: &&Suite| match names.first().map(String::as_str) {
        None => suite.runs == Runs::Always,
        Some("all") => true,
        Some(_) => names.iter().any(|name| name == suite.name),
    };
    SUITES.iter().filter(wanted).collect()
}

/// The names of suites that whoever started this run asked for, if any.
fn asked() -> Vec<String> {
    let names = std::env::var("PANDASTACK_KVM_SUITES").unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The tests of a program that are to run.
fn tests(program: &Path, suite: &Suite) -> BTreeSet<String> {
    let listed =
        Command::new(program).args(["--list", "--format", "terse"]).output().expect("a program lists its tests");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut tests: BTreeSet<String> =
        listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
    for (test, _) in suite.left_out {
        assert!(tests.remove(*test), "{} has no test {test} to leave out", suite.name);
    }
    assert!(!tests.is_empty(), "{} has no tests", suite.name);
    tests
}

/// The built test programs and what they start. With the features of the whole workspace, which are those that
/// the running tests were built with, so that nothing is built again.
fn programs(project: &Path, suites: &[&Suite]) -> BTreeMap<String, PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--quiet", "--workspace", "--no-run", "--message-format", "json"]).current_dir(project);
    for suite in suites {
        command.args(["--test", suite.name]);
    }
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let program = |message: Value| {
        let ours = message["manifest_path"].as_str()?.ends_with("/e2e/Cargo.toml");
        let name = message["target"]["name"].as_str().filter(|_| ours)?;
        let wanted = name == HELPER || suites.iter().any(|suite| suite.name == name);
        wanted.then_some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    messages.filter_map(program).collect()
}

/// What goes into the KVM host, and where it lies there.
fn brought(project: &Path, programs: &BTreeMap<String, PathBuf>) -> Vec<(PathBuf, String)> {
    let home = std::env::var("HOME").expect("tests run with a home folder");
    let cache = std::env::var("PANDASTACK_CACHE_DIR").unwrap_or_else(|_| format!("{home}/.cache/pandastack"));
    let roots = Path::new(&cache).join("rootfs");
    let mut brought: Vec<(PathBuf, String)> = roots_of_mini(&roots)
        .into_iter()
        .map(|root| (roots.join(&root), format!("/work/cache/rootfs/{root}")))
        .collect();
    for script in ["kvm-proof", "kvm-suite"] {
        brought.push((project.join("scripts").join(script), format!("/opt/pandastack/{script}")));
    }
    for (name, program) in programs {
        let to = match name.as_str() {
            // A test has its path compiled in.
            HELPER => program.display().to_string(),
            _ => format!("/opt/pandastack/tests/{name}"),
        };
        brought.push((program.clone(), to));
    }
    brought
}

/// The cached root file systems of `mini`: the machine inside has no packages to make one from.
fn roots_of_mini(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("`make mini` makes the root file system").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("mini-") && !name.contains(".new-")).collect()
}
