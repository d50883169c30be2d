//! The operator's program that sets and removes DNS records. Started without a shell, with a
//! deadline, and with its whole process group ended at the deadline.

use std::{
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

use super::AcmeDomain;
use crate::limits::{ACME_HOOK_MAX, ACME_HOOK_OUTPUT_BYTES_MAX};

/// A program that is called as `PROGRAM present|cleanup DOMAIN RECORD VALUE`.
#[derive(Clone, Debug)]
pub struct DnsHook {
    program: PathBuf,
    time_max: Duration,
}

/// Why a DNS record could not be set.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("start the DNS hook {}: {cause}; it must be a program that this server may run", program.display())]
    Start { program: PathBuf, cause: io::Error },
    #[error("the DNS hook {} took more than {} seconds and was ended", program.display(), time_max.as_secs())]
    Slow { program: PathBuf, time_max: Duration },
    #[error("the DNS hook {} ended with {status}: {said:?}; run it by hand to see why", program.display())]
    Failed { program: PathBuf, status: ExitStatus, said: String },
}

/// A process group that ends with its owner.
struct HookGroup(Child);

impl Drop for HookGroup {
    fn drop(&mut self) {
        // The id is known only while the process was not waited for, so it names no other group.
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

impl DnsHook {
    pub fn new(program: PathBuf) -> Self {
        Self { program, time_max: ACME_HOOK_MAX }
    }

    /// Sets the record.
    pub async fn present(&self, domain: &AcmeDomain, value: &str) -> Result<(), HookError> {
        self.call("present", domain, value).await
    }

    /// Removes the record.
    pub async fn cleanup(&self, domain: &AcmeDomain, value: &str) -> Result<(), HookError> {
        self.call("cleanup", domain, value).await
    }

    async fn call(&self, action: &str, domain: &AcmeDomain, value: &str) -> Result<(), HookError> {
        let program = || self.program.clone();
        let mut command = Command::new(&self.program);
        command.args([action, domain.name(), &domain.record(), value]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
        let child = command.spawn().map_err(|cause| HookError::Start { program: program(), cause })?;
        let mut group = HookGroup(child);
        let said = group.0.stderr.take();
        let work = async {
            let said = match said {
                Some(said) => last_words(said).await,
                None => String::new(),
            };
            (group.0.wait().await, said)
        };
        let ended = tokio::time::timeout(self.time_max, work).await;
        let (status, said) = ended.map_err(|_| HookError::Slow { program: program(), time_max: self.time_max })?;
        let status = status.map_err(|cause| HookError::Start { program: program(), cause })?;
        if status.success() { Ok(()) } else { Err(HookError::Failed { program: program(), status, said }) }
    }
}

/// Reads everything and keeps the end.
async fn last_words(mut from: impl AsyncRead + Unpin) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        kept.drain(..kept.len().saturating_sub(ACME_HOOK_OUTPUT_BYTES_MAX));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn hook(folder: &tempfile::TempDir, script: &str) -> DnsHook {
        let program = folder.path().join("hook");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        DnsHook { program, time_max: Duration::from_secs(60) }
    }

    #[tokio::test]
    async fn a_hook_gets_its_arguments_and_its_failure_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let domain: AcmeDomain = "*.box.example".parse().unwrap();
        let hooked = hook(&folder, &format!("echo \"$#: $*\" >> {}", said.display()));
        hooked.present(&domain, "-value; $(x)").await.unwrap();
        hooked.cleanup(&domain, "-value; $(x)").await.unwrap();
        let expected = "4: present box.example _acme-challenge.box.example -value; $(x)\n";
        assert_eq!(fs::read_to_string(&said).unwrap(), format!("{expected}{}", expected.replace("present", "cleanup")));
        let long = hook(&folder, "yes | head -c 3000000 >&2; echo the zone is locked >&2; exit 3");
        let text = long.present(&domain, "v").await.unwrap_err().to_string();
        assert!(text.contains("the zone is locked") && text.len() < 10_000, "{text}");
        let missing = DnsHook::new(folder.path().join("nothing"));
        assert!(matches!(missing.present(&domain, "v").await, Err(HookError::Start { .. })));
    }

    #[tokio::test]
    async fn a_hook_that_hangs_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", note.display());
        // Enough to write the file, also on a slow machine.
        let hooked = DnsHook { time_max: Duration::from_secs(3), ..hook(&folder, &script) };
        let domain: AcmeDomain = "box.example".parse().unwrap();
        assert!(matches!(hooked.present(&domain, "v").await, Err(HookError::Slow { .. })));
        let child = fs::read_to_string(&note).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        // A zombie is dead too: nobody may be there to wait for it.
        let lives = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        tokio::time::timeout(Duration::from_secs(60), async {
            while lives() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("the hook's child ends");
    }
}
