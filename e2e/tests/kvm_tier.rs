//! The kvm tier, proved in the emulated KVM host: the probe says kvm, a sandbox is created by restore, runs Python, and
//! goes away. `scripts/kvm-proof` is what runs inside.

use std::{path::Path, process::Command};

use pandastack_testbed::built;

#[test]
fn a_sandbox_lives_and_dies_on_kvm() {
    let home = std::env::var("HOME").expect("tests run with a home folder");
    let cache = std::env::var("PANDASTACK_CACHE_DIR").unwrap_or_else(|_| format!("{home}/.cache/pandastack"));
    // Asked at run time: clones share one target folder, and a path compiled in may be another clone's.
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("the test runner says where the package lies");
    let project = Path::new(&package).parent().expect("the package lies in the project");
    assert!(built("pandastack").exists(), "`make build` builds what runs in the KVM host");
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "xtask", "--", "kvm-host", "--timeout", "1200"]);
    for root in roots_of_mini(&Path::new(&cache).join("rootfs")) {
        command.args(["--with", &format!("{cache}/rootfs/{root}:/work/cache/rootfs/{root}")]);
    }
    let output = command
        .args(["--with", "scripts/kvm-proof:/opt/pandastack/kvm-proof", "--", "kvm-proof"])
        .current_dir(project)
        .output()
        .expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "kvm-host ended with {}", output.status);
    assert!(said.lines().any(|line| line.trim() == "kvm: ok"), "the proof did not reach its end");
}

/// The cached root file systems of `mini`: the machine inside has no packages to make one from.
fn roots_of_mini(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("`make mini` makes the root file system").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("mini-") && !name.contains(".new-")).collect()
}
