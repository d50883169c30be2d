//! `pandastack doctor`: shows the tier that this computer supports, which parts are missing, and
//! the command that fixes each problem.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;
use pandastack_cli::{NameLookup, RESOLVER_FIX, SAMPLE_NAME, look_up};
use pandastack_host::{OpenPath, open_paths};
use pandastack_sys::private;
use pandastack_vmm_qemu::choose_tier;
use serde_json::{Value, json};

use crate::{
    bake::find_agent,
    data_folder::{DEFAULT_DATA_DIR, RUN_FOLDER, run_root_of, warn_of_tier},
    find_program::find_program,
};

#[derive(Args)]
pub struct DoctorArgs {
    /// Data folder to check
    #[arg(long, env = "PANDASTACK_DATA_DIR", default_value = DEFAULT_DATA_DIR, value_name = "DIR")]
    data_dir: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// The result of one check.
struct CheckResult {
    what: &'static str,
    fine: bool,
    found: String,
    /// The command or step that fixes it.
    fix: String,
    /// A warning, shown even if the check passes.
    warning: Option<String>,
}

impl CheckResult {
    fn json(&self) -> Value {
        let Self { what, fine, found, fix, warning } = self;
        json!({ "check": what, "ok": fine, "found": found, "fix": fix, "warning": warning })
    }
}

impl DoctorArgs {
    pub async fn run(self) -> Result<ExitCode> {
        let mut findings = look(&self.data_dir);
        findings.push(names(look_up(SAMPLE_NAME).await));
        let sound = findings.iter().all(|finding| finding.fine);
        if self.json {
            let rows: Vec<_> = findings.iter().map(CheckResult::json).collect();
            println!("{}", json!({ "ok": sound, "checks": rows }));
        } else {
            for CheckResult { what, fine, found, fix, warning } in &findings {
                println!("{} {what:<12} {found}", if *fine { "✓" } else { "✗" });
                if !fine {
                    println!("  {:<12} fix: {fix}", "");
                }
                if let Some(warning) = warning {
                    println!("  {:<12} warning: {warning}", "");
                }
            }
            println!(
                "{}",
                if sound {
                    "this machine is ready: `pandastack up`"
                } else {
                    "fix the checks marked ✗, then run this again"
                }
            );
        }
        Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn look(data_dir: &Path) -> Vec<CheckResult> {
    let tier = choose_tier(None, None);
    let warning = tier.as_ref().ok().and_then(|choice| choice.tier.warning()).map(warn_of_tier);
    let tier = tier.map_or_else(|error| error.to_string(), |choice| format!("{} ({})", choice.tier, choice.reason));
    let mut findings = vec![
        CheckResult { what: "tier", fine: true, found: tier, fix: String::new(), warning },
        CheckResult {
            what: "root",
            fine: nix::unistd::geteuid().is_root(),
            found: format!("running as uid {}", nix::unistd::geteuid()),
            fix: "machines, networks and mounts need root: run with sudo".to_owned(),
            warning: None,
        },
    ];
    for (what, program, package) in [
        ("qemu", "qemu-system-x86_64", "qemu-system-x86"),
        ("network", "ip", "iproute2"),
        ("firewall", "nft", "nftables"),
        ("volume", "mkfs.xfs", "xfsprogs"),
        ("recipes", "mmdebstrap", "mmdebstrap"),
        ("disks", "mke2fs", "e2fsprogs"),
    ] {
        let found = find_program(program);
        findings.push(CheckResult {
            what,
            fine: found.is_some(),
            found: found.map_or_else(|| format!("{program} is missing"), |path| path.display().to_string()),
            fix: format!("apt-get install {package}"),
            warning: None,
        });
    }
    for (what, device, fix) in [
        ("tun", "/dev/net/tun", "modprobe tun"),
        ("loop", "/dev/loop-control", "modprobe loop; without it each sandbox copies its whole disk"),
    ] {
        let open = std::fs::OpenOptions::new().read(true).write(true).open(device);
        let found = open.as_ref().map_or_else(|error| format!("{device}: {error}"), |_| device.to_owned());
        findings.push(CheckResult { what, fine: open.is_ok(), found, fix: fix.to_owned(), warning: None });
    }
    let agent = find_agent(std::env::var_os("PANDASTACK_GUESTD").map(PathBuf::from).as_deref());
    findings.push(CheckResult {
        what: "guest agent",
        fine: agent.is_ok(),
        found: agent.map_or_else(|error| error.to_string(), |path| path.display().to_string()),
        fix: "make build, or install the package of the server again".to_owned(),
        warning: None,
    });
    findings.push(data_folder(data_dir));
    findings.push(private_data(data_dir));
    findings
}

/// Checks that other users of this computer cannot read the data folder.
fn private_data(data_dir: &Path) -> CheckResult {
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let mut open = open_paths(&data_dir, &run_root_of(&data_dir.display().to_string()));
    let run = PathBuf::from(RUN_FOLDER);
    open.extend(private::open_mode(&run).map(|mode| OpenPath { path: run, mode }));
    let found: Vec<String> = open.iter().map(ToString::to_string).collect();
    let paths: Vec<String> = open.iter().map(|open| open.path.display().to_string()).collect();
    CheckResult {
        what: "privacy",
        fine: open.is_empty(),
        found: if open.is_empty() { "no other user can read the data folder".to_owned() } else { found.join("; ") },
        fix: format!("chmod go-rwx {}; `pandastack up` does it too", paths.join(" ")),
        warning: None,
    }
}

/// Checks whether programs of this computer can open links to sandboxes and databases. The server
/// works without that, so it is only a warning.
fn names(lookup: NameLookup) -> CheckResult {
    let (found, warning) = match lookup {
        NameLookup::Found => ("the resolver knows names below localhost", None),
        NameLookup::Unknown => (
            "the resolver does not know names below localhost",
            Some(format!(
                "browsers and curl open links to sandboxes, other programs of this computer do not; to change that, \
                 run: {RESOLVER_FIX}"
            )),
        ),
    };
    CheckResult { what: "names", fine: true, found: found.to_owned(), fix: String::new(), warning }
}

fn data_folder(data_dir: &Path) -> CheckResult {
    let existing = data_dir.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let free = nix::sys::statvfs::statvfs(existing).map_or(0, |stat| stat.blocks_available() * stat.fragment_size());
    let free = pandastack_model::ByteSize::new(free);
    CheckResult {
        what: "data folder",
        fine: free >= pandastack_model::ByteSize::gib(2),
        found: format!("{} ({free} free)", data_dir.display()),
        fix: "free some space or choose another folder with --data-dir; templates and sandboxes need at least 2 GiB"
            .to_owned(),
        warning: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolver_that_lacks_names_is_warned_of_with_the_next_step() {
        let unknown = names(NameLookup::Unknown);
        assert!(unknown.fine && unknown.warning.unwrap().ends_with("run: apt-get install libnss-myhostname"));
        assert_eq!(names(NameLookup::Found).warning, None);
    }
}
