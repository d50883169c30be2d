//! The kvm tier in the emulated KVM host, which has a real `/dev/kvm`: `scripts/kvm-proof` bakes
//! `mini` and uses a sandbox over the API, and `scripts/kvm-suite` runs tests of this program.
//! `PANDASTACK_KVM_SUITES` lists the modules (`state,jail`) or is `all`, the default. If the
//! computer dies, a new one runs the remaining tests. Every test must pass at its first attempt.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use pandastack_e2e::project;
use pandastack_testbed::built;

/// A module of this program, run in the KVM host.
struct Suite {
    name: &'static str,
    /// Tests that are skipped there, with the reason.
    left_out: &'static [(&'static str, &'static str)],
}

const SUITES: &[Suite] = &[
    Suite { name: "conformance_qemu", left_out: &[] },
    Suite { name: "state", left_out: &[] },
    Suite { name: "rebirth", left_out: &[] },
    Suite { name: "links", left_out: &[] },
    Suite { name: "volumes", left_out: &[] },
    Suite { name: "faults", left_out: &[] },
    Suite { name: "jail", left_out: &[] },
    Suite { name: "egress", left_out: &[] },
    Suite { name: "isolation", left_out: &[] },
    Suite { name: "identity", left_out: &[] },
    Suite { name: "agent", left_out: &[] },
    Suite { name: "files", left_out: &[] },
    Suite { name: "disk", left_out: &[] },
    Suite { name: "deep::cycles", left_out: &[] },
    Suite { name: "deep::crash", left_out: &[] },
    Suite { name: "strays", left_out: &[] },
    Suite { name: "egress_crash", left_out: &[] },
    Suite { name: "jail_server", left_out: &[] },
    Suite { name: "lifecycle_api", left_out: &[] },
];

/// Timeout of one run of the emulated computer. All suites take about two hours.
const TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Tests per allowed death of the emulated computer: it has a defect (decision 2) that ends it
/// every twenty minutes or so.
const TESTS_PER_DEATH: usize = 20;

#[test]
fn the_suite_of_the_emulated_tier_passes_on_kvm() {
    let project = project();
    assert!(built("pandastack").exists(), "`make build` builds what runs in the KVM host");
    let suites = chosen();
    let mut left: Tests = suites.iter().map(|suite| (suite.name, tests(suite))).collect();
    let asked: BTreeMap<&str, usize> = left.iter().map(|(suite, tests)| (*suite, tests.len())).collect();
    let mut lives = 1 + asked.values().sum::<usize>() / TESTS_PER_DEATH;
    loop {
        let (status, said) = run(&project, &left);
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

/// Full names of tests by suite.
type Tests = BTreeMap<&'static str, BTreeSet<String>>;

/// Runs the proof and tests in the emulated KVM host, and returns their output.
fn run(project: &Path, tests: &Tests) -> (ExitStatus, String) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "xtask", "--", "kvm-host"]);
    command.args(["--timeout", &TIMEOUT.as_secs().to_string()]);
    for (from, to) in brought(project) {
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

/// Collects all output and prints each line at once, because all suites take hours.
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

/// Whether the emulated computer itself ended, which has defects, and not the program in it.
fn computer_died(said: &str) -> bool {
    said.contains("xtask: the machine ended before the command did") || said.contains("xtask: not done after")
}

/// The passed tests with their suites: lines of the form `kvm: SUITE TEST: ok (7 s)`.
fn passed(said: &str) -> impl Iterator<Item = (&str, &str)> {
    said.lines().filter_map(|line| {
        let (test, end) = line.trim().strip_prefix("kvm: ")?.rsplit_once(": ")?;
        test.split_once(' ').filter(|_| end.starts_with("ok ("))
    })
}

/// The suites of this run.
fn chosen() -> Vec<&'static Suite> {
    let names = asked();
    for name in &names {
        assert!(name == "all" || SUITES.iter().any(|suite| suite.name == name), "{name} is no suite of the KVM host");
    }
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    let wanted = |suite: &&Suite| all || names.iter().any(|name| name == suite.name);
    SUITES.iter().filter(wanted).collect()
}

/// The suites that were requested for this run, if any.
fn asked() -> Vec<String> {
    let names = std::env::var("PANDASTACK_KVM_SUITES").unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The tests of a suite that are to run.
fn tests(suite: &Suite) -> BTreeSet<String> {
    let program = std::env::current_exe().expect("this program has a path");
    let listed =
        Command::new(program).args(["--list", "--format", "terse"]).output().expect("this program lists its tests");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let prefix = format!("{}::", suite.name);
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let mut tests: BTreeSet<String> = names.filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect();
    for (test, _) in suite.left_out {
        assert!(tests.remove(*test), "{} has no test {test} to leave out", suite.name);
    }
    assert!(!tests.is_empty(), "{} has no tests", suite.name);
    tests
}

/// Files for the KVM host, with their paths there.
fn brought(project: &Path) -> Vec<(PathBuf, String)> {
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
    let program = std::env::current_exe().expect("this program has a path");
    brought.push((program, "/opt/pandastack/tests/e2e".to_owned()));
    // Tests of the jail have the path of this helper compiled in.
    let helper = env!("CARGO_BIN_EXE_jail-probe");
    brought.push((helper.into(), helper.to_owned()));
    brought
}

/// The cached root file systems of `mini`: the machine inside has no packages to make one.
fn roots_of_mini(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("`make mini` makes the root file system").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("mini-") && !name.contains(".new-")).collect()
}
