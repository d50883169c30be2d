//! The kvm tier, proved in the emulated KVM host: the probe says kvm, a sandbox is created by restore, runs Python, and
//! goes away. `scripts/kvm-proof` is what runs inside.

use std::{path::Path, process::Command};

use pandastack_testbed::built;

#[test]
fn a_sandbox_lives_and_dies_on_kvm() {
    let home = std::env::var("HOME").expect("tests run with a home folder");
    let cache = std::env::var("PANDASTACK_CACHE_DIR").unwrap_or_else(|_| format!("{home}/.cache/pandastack"));
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the project");
    assert!(built("pandastack").exists(), "`make build` builds what runs in the KVM host");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "kvm-host", "--timeout", "500"])
        .args(["--with", &format!("{cache}/rootfs:/work/cache/rootfs")])
        .args(["--with", "scripts/kvm-proof:/opt/pandastack/kvm-proof", "--", "kvm-proof"])
        .current_dir(project)
        .output()
        .expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "kvm-host ended with {}", output.status);
    assert!(said.lines().any(|line| line.trim() == "kvm: ok"), "the proof did not reach its end");
}
