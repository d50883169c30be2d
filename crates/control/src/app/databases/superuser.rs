//! A session of the superuser that waits in the machine of a database. It is sealed and forked with
//! the machine, so a copy gets its own password without a new process or login. Without KVM each of
//! those takes a good part of a second. Everything works without the session, only slower.

use std::{future::ready, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{
    AttachParams, ExecParams, FollowUntil, OutputEvent, ProcessView, Program, SpawnParams, StdinAfterWrite,
};
use pandastack_wire_public::DATABASE_ROLE;

use super::{credentials::random_text, guest::TOOL};
use crate::{Control, limits::DATABASE_SESSION_MAX};

/// Name of the process in the guest.
const TAG: &str = "pandastack-superuser";

/// Bytes of messages that are read at most.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

impl Control {
    /// Opens the session if there is none. A failure is only logged.
    pub(super) async fn open_superuser_session(&self, id: SandboxId) {
        let opened = tokio::time::timeout(DATABASE_SESSION_MAX, self.try_open_superuser_session(id)).await;
        if let Err(fault) = opened.unwrap_or_else(|_| Err(no_session("it did not open in time"))) {
            tracing::warn!(database = %id, %fault, "could not open a session in a database");
        }
    }

    async fn try_open_superuser_session(&self, id: SandboxId) -> Result<(), Fault> {
        if self.superuser_session(id).await?.is_some() {
            return Ok(());
        }
        let program = Program::Argv(vec![TOOL.to_owned(), "superuser".to_owned()]);
        let exec = ExecParams {
            program,
            cwd: Some("/".to_owned()),
            user: Some("0".to_owned()),
            stdin: true,
            deadline: None,
            ..ExecParams::shell("", Duration::ZERO)
        };
        self.host.spawn(id, SpawnParams { exec, tag: Some(TAG.to_owned()) }).await.map(drop)
    }

    /// Sets the password of the tenant's role and ends its sessions. On failure the session is
    /// closed, so that it cannot do it later.
    pub(super) async fn set_password_in_session(&self, id: SandboxId, verifier: &str) -> Result<(), Fault> {
        let change = format!("ALTER ROLE {DATABASE_ROLE} PASSWORD '{verifier}';");
        // The view `pg_stat_activity` joins tables. Without KVM that takes longer than the rest.
        let end_sessions = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity(NULL) \
             WHERE usesysid = '{DATABASE_ROLE}'::regrole \\g /dev/null"
        );
        let statements = [&change[..], &end_sessions];
        let late = |_| Err(no_session("it did not answer in time"));
        let session = tokio::time::timeout(DATABASE_SESSION_MAX, self.superuser_session(id));
        let session = session.await.unwrap_or_else(late)?.ok_or_else(|| no_session("there is none"))?;
        let set = tokio::time::timeout(DATABASE_SESSION_MAX, self.run_in_session(id, &session, &statements));
        let set = set.await.unwrap_or_else(|_| Err(no_session("it did not answer in time")));
        if set.is_err() {
            self.host.forget(id, session.number).await?;
        }
        set
    }

    async fn superuser_session(&self, id: SandboxId) -> Result<Option<ProcessView>, Fault> {
        let processes = self.host.processes(id).await?;
        let is_it = |process: &ProcessView| process.tag.as_deref() == Some(TAG) && process.ended.is_none();
        Ok(processes.into_iter().rfind(is_it))
    }

    /// Runs statements one after the other, and stops at the first that fails.
    async fn run_in_session(&self, id: SandboxId, session: &ProcessView, statements: &[&str]) -> Result<(), Fault> {
        // Output of earlier statements does not have it.
        let done = random_text();
        let mut script = String::new();
        for statement in statements {
            script.push_str(&format!("{statement}\n\\if :ERROR\n\\warn {done} failed\n\\else\n"));
        }
        script.push_str(&format!("\\warn {done} done\n{}", "\\endif\n".repeat(statements.len())));
        let body = stream::once(ready(Ok(Bytes::from(script))));
        self.host.feed(id, session.number, Box::pin(body), StdinAfterWrite::StaysOpen).await?;
        let (process, offset) = (session.number, session.stdout_bytes + session.stderr_bytes);
        let mut output = self.host.attach(id, AttachParams { process, offset, until: FollowUntil::End }).await?;
        let mut printed = Vec::new();
        while let Some(event) = output.next().await {
            match event? {
                OutputEvent::Stderr(piece) => printed.extend_from_slice(&piece),
                OutputEvent::End(_) => break,
                OutputEvent::At(_) | OutputEvent::Stdout(_) => {}
            }
            let text = String::from_utf8_lossy(&printed);
            if text.contains(&format!("{done} done\n")) {
                return Ok(());
            }
            if text.contains(&format!("{done} failed\n")) || printed.len() > OUTPUT_BYTES_MAX {
                break;
            }
        }
        Err(no_session("it did not run the statements"))
    }
}

fn no_session(reason: &str) -> Fault {
    Fault::new(FaultKind::Unavailable, "database.no_session", format!("the session in the database: {reason}"))
}
