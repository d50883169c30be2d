//! Files of a real guest: streamed both ways, written whole or not at all.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_e2e::{run, shell, with_sandbox};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_testbed::Bed;
use pandastack_wire_fleet::{ByteStream, FileKind, HostPort, WriteAsk};
use sha2::{Digest, Sha256};

const PIECE_BYTES: usize = 256 * 1024;
const PIECES: usize = 256;
/// What streaming 64 MiB may add to this process: windows, queues and whatever the allocator keeps.
const GROWTH_KIB_MAX: u64 = 32 * 1024;

#[tokio::test]
async fn sixty_four_mebibytes_pass_both_ways_without_being_held() {
    with_sandbox(async |bed, id| {
        // A first small round, so that everything made once is made.
        write(bed, id, "/root/small", "small").await.unwrap();
        // Forgets the peak so far; the check of the layer may have been higher than all that follows.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = peak_memory_kib();
        let pieces = stream::iter((0..PIECES).map(|number| Ok(piece(number))));
        let ask = WriteAsk { path: "/root/big".into(), mode: Some(0o600) };
        assert_eq!(bed.host.write_file(id, ask, Box::pin(pieces)).await.unwrap(), (PIECES * PIECE_BYTES) as u64);
        let mut file = bed.host.read_file(id, "/root/big").await.unwrap();
        assert_eq!((file.entry.size, file.entry.mode & 0o777), ((PIECES * PIECE_BYTES) as u64, 0o600));
        let mut digest = Sha256::new();
        while let Some(bytes) = file.body.next().await {
            digest.update(bytes.unwrap());
        }
        let expected = (0..PIECES).fold(Sha256::new(), |digest, number| digest.chain_update(piece(number)));
        assert_eq!(digest.finalize(), expected.finalize());
        let growth = peak_memory_kib().saturating_sub(before);
        assert!(growth < GROWTH_KIB_MAX, "the host's peak memory grew by {growth} KiB");
    })
    .await;
}

#[tokio::test]
async fn a_write_that_breaks_off_leaves_the_old_contents_and_no_scraps() {
    with_sandbox(async |bed, id| {
        bed.sh(id, "mkdir /srv/box").await.unwrap();
        write(bed, id, "/srv/box/notes", "old").await.unwrap();
        let broken = Fault::new(FaultKind::Caller, "body.broken", "the body broke off");
        let body: ByteStream = Box::pin(stream::iter([Ok(Bytes::from(vec![b'n'; 400_000])), Err(broken.clone())]));
        let ask = WriteAsk { path: "/srv/box/notes".into(), mode: None };
        assert_eq!(bed.host.write_file(id, ask, body).await.unwrap_err(), broken);
        assert_eq!(read(bed, id, "/srv/box/notes").await.unwrap(), b"old");
        let alone = async || {
            let names: Vec<_> = bed.host.list_dir(id, "/srv/box").await.unwrap().into_iter().map(|e| e.name).collect();
            (names == ["notes"]).then_some(())
        };
        pandastack_testbed::wait_for("the scraps' removal", pandastack_e2e::PATIENCE, alone).await;
    })
    .await;
}

#[tokio::test]
async fn a_write_makes_the_folders_above_and_replaces_what_was_there() {
    with_sandbox(async |bed, id| {
        write(bed, id, "/srv/a/b/c.txt", "one").await.unwrap();
        write(bed, id, "/srv/a/b/c.txt", "").await.unwrap();
        assert_eq!(read(bed, id, "/srv/a/b/c.txt").await.unwrap(), b"");
        write(bed, id, "/srv/a/b/é 😀.txt", "two").await.unwrap();
        assert_eq!(run(bed, id, shell("cat '/srv/a/b/é 😀.txt'")).await.out(), "two");
    })
    .await;
}

#[tokio::test]
async fn paths_are_listed_described_and_deleted() {
    with_sandbox(async |bed, id| {
        bed.sh(
            id,
            "mkdir -p /srv/d/sub/deep && echo hello > /srv/d/file && ln -s file /srv/d/link && chmod 640 /srv/d/file",
        )
        .await
        .unwrap();
        let entries = bed.host.list_dir(id, "/srv/d").await.unwrap();
        let seen: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
        assert_eq!(seen, [("file", FileKind::File), ("link", FileKind::Symlink), ("sub", FileKind::Directory)]);
        assert_eq!(entries[1].target.as_deref(), Some("file"));
        let file = bed.host.stat(id, "/srv/d/file").await.unwrap();
        assert_eq!((file.size, file.mode & 0o777, file.kind), (6, 0o640, FileKind::File));
        bed.host.delete_path(id, "/srv/d").await.unwrap();
        bed.host.delete_path(id, "/srv/d").await.expect("deleting twice is fine");
        assert_eq!(bed.host.stat(id, "/srv/d").await.unwrap_err().kind, FaultKind::Missing);
    })
    .await;
}

#[tokio::test]
async fn wrong_paths_are_refused_with_their_reason() {
    with_sandbox(async |bed, id| {
        let missing = read(bed, id, "/srv/none").await.unwrap_err();
        assert_eq!((missing.kind, missing.code), (FaultKind::Missing, "path.not_found"));
        let missing = bed.host.list_dir(id, "/srv/none").await.unwrap_err();
        assert_eq!(missing.kind, FaultKind::Missing);
        let folder = read(bed, id, "/usr").await.unwrap_err();
        assert_eq!((folder.kind, folder.code), (FaultKind::Caller, "path.wrong_type"));
        let file = bed.host.list_dir(id, "/etc/hostname").await.unwrap_err();
        assert_eq!((file.kind, file.code), (FaultKind::Caller, "path.wrong_type"));
        let onto_folder = write(bed, id, "/usr", "x").await.unwrap_err();
        assert_eq!(onto_folder.kind, FaultKind::Caller, "{onto_folder}");
        for refused in [
            write(bed, id, "srv/relative", "x").await.map(drop),
            read(bed, id, "srv/relative").await.map(drop),
            bed.host.list_dir(id, "srv").await.map(drop),
            bed.host.stat(id, "srv").await.map(drop),
            bed.host.delete_path(id, "srv").await,
        ] {
            assert_eq!(refused.unwrap_err().kind, FaultKind::Caller, "relative paths mean nothing here");
        }
        let root = bed.host.delete_path(id, "/").await;
        assert!(root.is_err(), "the root is nobody's to delete");
        assert_eq!(bed.sh(id, "echo alive").await.unwrap(), ("alive\n".to_owned(), 0));
    })
    .await;
}

fn piece(number: usize) -> Bytes {
    Bytes::from(vec![number as u8; PIECE_BYTES])
}

async fn write(bed: &Bed, id: SandboxId, path: &str, text: &str) -> Result<u64, Fault> {
    let body: ByteStream = Box::pin(stream::iter([Ok(Bytes::from(text.to_owned()))]));
    bed.host.write_file(id, WriteAsk { path: path.to_owned(), mode: None }, body).await
}

async fn read(bed: &Bed, id: SandboxId, path: &str) -> Result<Vec<u8>, Fault> {
    let mut file = bed.host.read_file(id, path).await?;
    let mut whole = Vec::new();
    while let Some(bytes) = file.body.next().await {
        whole.extend_from_slice(&bytes?);
    }
    Ok(whole)
}

/// The most memory that this process, which is the host's here, had since that was last forgotten.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
