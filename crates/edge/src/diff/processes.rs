//! Compares the processes of two guests by their command lines.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_public::RunningProgram;

use super::files::content;
use crate::{
    Edge,
    limits::{DIFF_COMMAND_CHARS_MAX, DIFF_PIDS_MAX, DIFF_PROCESSES_MAX, DIFF_READS_AT_ONCE},
};

/// Processes that only one of two guests has.
pub struct FoundProcesses {
    pub here: Vec<RunningProgram>,
    pub there: Vec<RunningProgram>,
    pub truncated: bool,
}

/// Compares the processes of two guests.
pub async fn compare(edge: &Edge, (here, there): (SandboxId, SandboxId)) -> Result<FoundProcesses, Fault> {
    let ((left, left_cut), (right, right_cut)) = tokio::try_join!(running(edge, here), running(edge, there))?;
    let (here, there) = (without(&left, &right), without(&right, &left));
    Ok(FoundProcesses { here, there, truncated: left_cut || right_cut })
}

/// Lists the processes of a guest. Threads of its kernel have no command line. Returns also whether
/// there are more.
async fn running(edge: &Edge, id: SandboxId) -> Result<(Vec<RunningProgram>, bool), Fault> {
    let entries = edge.host.list_dir(id, "/proc").await?;
    let mut pids: Vec<u32> = entries.iter().filter_map(|entry| entry.name.parse().ok()).collect();
    let is_cut = pids.len() > DIFF_PIDS_MAX;
    pids.sort_unstable();
    pids.truncate(DIFF_PIDS_MAX);
    let read = stream::iter(pids).map(|pid| async move {
        // A process may end meanwhile.
        let line = content(edge, id, &format!("/proc/{pid}/cmdline")).await.ok()?;
        let command = command(&line);
        (!command.is_empty()).then_some(RunningProgram { pid, command })
    });
    let read = read.buffered(DIFF_READS_AT_ONCE).filter_map(std::future::ready);
    let mut found: Vec<RunningProgram> = read.take(DIFF_PROCESSES_MAX + 1).collect().await;
    let is_cut = is_cut || found.len() > DIFF_PROCESSES_MAX;
    found.truncate(DIFF_PROCESSES_MAX);
    Ok((found, is_cut))
}

/// Turns a command line with NUL bytes into text.
fn command(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end_matches('\0').replace('\0', " ").chars().take(DIFF_COMMAND_CHARS_MAX).collect()
}

/// Returns the processes that the others do not have. One with the same command line stands for
/// one.
fn without(these: &[RunningProgram], others: &[RunningProgram]) -> Vec<RunningProgram> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for other in others {
        *known.entry(&other.command).or_default() += 1;
    }
    let alone = these.iter().filter(|one| match known.get_mut(one.command.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    alone.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(pid: u32, command: &str) -> RunningProgram {
        RunningProgram { pid, command: command.to_owned() }
    }

    #[test]
    fn processes_are_compared_by_their_command_lines() {
        let here = [program(1, "init"), program(5, "sleep 9"), program(6, "sleep 9"), program(7, "python app.py")];
        let there = [program(1, "init"), program(9, "sleep 9"), program(10, "make")];
        assert_eq!(without(&here, &there), [program(6, "sleep 9"), program(7, "python app.py")]);
        assert_eq!(without(&there, &here), [program(10, "make")]);
        assert_eq!(command(b"sh\0-c\0x y\0\0"), "sh -c x y");
        assert_eq!(command(&vec![b'x'; 9999]).len(), DIFF_COMMAND_CHARS_MAX);
    }
}
