//! Lists a folder recursively, each folder before its contents. Links are never followed, so a walk
//! ends.

use std::{ffi::OsString, mem, path::PathBuf};

use pandastack_wire_guest::{DirEntryKind, Frame, Message, WalkDir, WalkEntries};

use super::{
    absolute, entry,
    list::{names, size_of_entry},
};
use crate::{
    limits,
    session::{AgentChannel, GuestFault},
};

/// Sends all batches but the last, and returns the last one.
pub(crate) async fn walk(channel: &AgentChannel, ask: WalkDir) -> Result<Frame, GuestFault> {
    let root = absolute(&ask.path)?;
    let depth_max = (ask.depth as usize).clamp(1, limits::DEPTH_MAX);
    let mut levels = vec![Level { folder: PathBuf::new(), names: names(root).await?.into_iter() }];
    let (mut batch, mut bytes, mut count, mut truncated) = (Vec::new(), 0, 0_u32, false);
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.next() else {
            levels.pop();
            continue;
        };
        if count.is_multiple_of(limits::ENTRIES_PER_TURN as u32) {
            tokio::task::yield_now().await;
        }
        let below = level.folder.join(name);
        // Deleted in the meantime, so it is left out.
        let Ok(mut entry) = entry::of(&root.join(&below)) else { continue };
        if count == ask.entries_max {
            truncated = true;
            break;
        }
        count += 1;
        entry.name = below.to_string_lossy().into_owned();
        if entry.kind == DirEntryKind::Directory {
            if levels.len() < depth_max {
                // A folder that cannot be read, or is too large to sort, is still listed.
                match names(&root.join(&below)).await {
                    Ok(names) => levels.push(Level { folder: below, names: names.into_iter() }),
                    Err(_) => truncated = true,
                }
            } else {
                // Deeper levels were not requested. The listing is truncated only if our own limit
                // cut the depth.
                truncated |= ask.depth as usize > limits::DEPTH_MAX;
            }
        }
        bytes += size_of_entry(&entry);
        batch.push(entry);
        if bytes > limits::ENTRIES_BYTES {
            let part = WalkEntries { entries: mem::take(&mut batch), truncated: false };
            channel.send(part.frame(channel.id)).await;
            bytes = 0;
        }
    }
    Ok(WalkEntries { entries: batch, truncated }.frame(channel.id).end())
}

/// A folder on the current path of the walk.
struct Level {
    folder: PathBuf,
    names: std::vec::IntoIter<OsString>,
}
