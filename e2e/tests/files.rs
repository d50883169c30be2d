//! Files of a real guest: streamed in both directions, written atomically.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_e2e::{Events, HttpDoor, answer, in_turn, run, shell, with_sandbox};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_testbed::Bed;
use pandastack_wire_fleet::{ByteStream, FileKind, HostPort, WriteParams};
use reqwest::Method;
use serde_json::json;
use sha2::{Digest, Sha256};

const PIECE_BYTES: usize = 256 * 1024;
const PIECES: usize = 256;
/// Memory that streaming 64 MiB may add to this process: windows, queues and allocator overhead.
const GROWTH_KIB_MAX: u64 = 32 * 1024;

#[tokio::test]
async fn files_keep_their_guarantees() {
    with_sandbox(async |bed, id| {
        in_turn! { (bed, id) after the_folder_is_empty:
            sixty_four_mebibytes_pass_both_ways_without_being_held,
            a_write_that_breaks_off_leaves_the_old_contents_and_no_scraps,
            a_write_makes_the_folders_above_and_replaces_what_was_there,
            paths_are_listed_described_and_deleted,
            wrong_paths_are_refused_with_their_reason,
            directories_are_made_moved_listed_and_given_modes,
            a_change_made_right_after_the_head_is_told,
            a_tree_with_everything_passes_both_ways_as_an_archive,
            an_evil_archive_writes_nothing_outside,
        }
    })
    .await;
}

async fn the_folder_is_empty(bed: &Bed, id: SandboxId) {
    bed.out(id, "rm -rf /srv && mkdir /srv").await;
}

async fn sixty_four_mebibytes_pass_both_ways_without_being_held(bed: &Bed, id: SandboxId) {
    // A small first round, so that one-time allocations are done.
    write(bed, id, "/root/small", "small").await.unwrap();
    // Resets the peak: the verification of the layer may have been higher than all that
    // follows.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak_memory_kib();
    let pieces = stream::iter((0..PIECES).map(|number| Ok(piece(number))));
    let ask = WriteParams { path: "/root/big".into(), mode: Some(0o600) };
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
}

async fn a_write_that_breaks_off_leaves_the_old_contents_and_no_scraps(bed: &Bed, id: SandboxId) {
    bed.sh(id, "mkdir /srv/box").await.unwrap();
    write(bed, id, "/srv/box/notes", "old").await.unwrap();
    let broken = Fault::new(FaultKind::Caller, "body.broken", "the body broke off");
    let body: ByteStream = Box::pin(stream::iter([Ok(Bytes::from(vec![b'n'; 400_000])), Err(broken.clone())]));
    let ask = WriteParams { path: "/srv/box/notes".into(), mode: None };
    assert_eq!(bed.host.write_file(id, ask, body).await.unwrap_err(), broken);
    assert_eq!(read(bed, id, "/srv/box/notes").await.unwrap(), b"old");
    let alone = async || {
        let names: Vec<_> = bed.host.list_dir(id, "/srv/box").await.unwrap().into_iter().map(|e| e.name).collect();
        (names == ["notes"]).then_some(())
    };
    pandastack_testbed::wait_for("the scraps' removal", pandastack_e2e::PATIENCE, alone).await;
}

async fn a_write_makes_the_folders_above_and_replaces_what_was_there(bed: &Bed, id: SandboxId) {
    write(bed, id, "/srv/a/b/c.txt", "one").await.unwrap();
    write(bed, id, "/srv/a/b/c.txt", "").await.unwrap();
    assert_eq!(read(bed, id, "/srv/a/b/c.txt").await.unwrap(), b"");
    write(bed, id, "/srv/a/b/é 😀.txt", "two").await.unwrap();
    assert_eq!(run(bed, id, shell("cat '/srv/a/b/é 😀.txt'")).await.out(), "two");
}

async fn paths_are_listed_described_and_deleted(bed: &Bed, id: SandboxId) {
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
}

async fn wrong_paths_are_refused_with_their_reason(bed: &Bed, id: SandboxId) {
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
}

async fn directories_are_made_moved_listed_and_given_modes(bed: &Bed, id: SandboxId) {
    let door = HttpDoor::open(bed).await;
    let post = async |route: &str, body: serde_json::Value| {
        answer(door.call(Method::POST, id, &format!("/fs/{route}")).json(&body)).await
    };
    assert_eq!(post("mkdir", json!({"path": "/srv/a/b"})).await.0, 404);
    assert_eq!(post("mkdir", json!({"path": "/srv/a/b", "parents": true})).await.0, 201);
    assert_eq!(post("mkdir", json!({"path": "/srv/a/b"})).await.0, 409);
    write(bed, id, "/srv/a/b/file", "one").await.unwrap();
    write(bed, id, "/srv/taken", "two").await.unwrap();
    assert_eq!(post("move", json!({"from": "/srv/a/b/file", "to": "/srv/taken"})).await.0, 409);
    let (status, moved) = post("move", json!({"from": "/srv/a/b/file", "to": "/srv/taken", "overwrite": true})).await;
    assert_eq!((status, moved), (200, json!({"path": "/srv/taken"})));
    assert_eq!(read(bed, id, "/srv/taken").await.unwrap(), b"one");
    assert_eq!(post("chmod", json!({"path": "/srv/a", "mode": "0711", "recursive": true})).await.0, 200);
    assert_eq!(bed.host.stat(id, "/srv/a/b").await.unwrap().mode & 0o7777, 0o711);
    bed.sh(id, "ln -s .. /srv/a/b/up").await.unwrap();
    let (status, listing) = answer(door.call(Method::GET, id, "/fs/dir?path=/srv/a&recursive=1")).await;
    let paths: Vec<_> = listing["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!((status, paths), (200, vec![json!("/srv/a/b"), json!("/srv/a/b/up")]));
    let (_, all) = answer(door.call(Method::GET, id, "/fs/dir?path=/usr&recursive=1")).await;
    assert!(all["entries"].as_array().unwrap().len() <= 20_000);
    door.close().await;
}

async fn a_change_made_right_after_the_head_is_told(bed: &Bed, id: SandboxId) {
    let door = HttpDoor::open(bed).await;
    bed.sh(id, "mkdir -p /srv/w/old/deep").await.unwrap();
    for round in 0..5 {
        let mut events = Events::open(door.call(Method::GET, id, "/fs/watch?path=/srv/w&recursive=1")).await;
        let path = format!("/srv/w/old/deep/file{round}");
        write(bed, id, &path, "x").await.unwrap();
        let (name, data) = events.next().await.unwrap();
        assert_eq!((name.as_str(), data), ("ready", json!({"path": "/srv/w"})));
        // A file is written to a temporary name and then renamed.
        while events.next().await.expect("the change").1["path"] != path.as_str() {}
    }
    let mut events = Events::open(door.call(Method::GET, id, "/fs/watch?path=/srv/w&recursive=1")).await;
    bed.sh(id, "mkdir -p /srv/w/new/er && echo x > /srv/w/new/er/file && rm -r /srv/w").await.unwrap();
    let mut seen = Vec::new();
    let last = loop {
        let (name, data) = events.next().await.expect("an end that is said");
        if name == "error" {
            break data;
        }
        seen.push(format!("{} {}", data["type"].as_str().unwrap_or_default(), data["path"].as_str().unwrap()));
    };
    assert!(
        seen.contains(&"created /srv/w/new".to_owned()) && seen.contains(&"deleted /srv/w/old".to_owned()),
        "{seen:?}"
    );
    assert_eq!(last["error"], "the watched path was deleted or moved");
    assert_eq!(events.next().await, None);
    assert_eq!(answer(door.call(Method::GET, id, "/fs/watch?path=/srv/none")).await.0, 404);
    door.close().await;
}

async fn a_tree_with_everything_passes_both_ways_as_an_archive(bed: &Bed, id: SandboxId) {
    let door = HttpDoor::open(bed).await;
    let plant = "mkdir -p /srv/t/empty /srv/t/deep/er && cd /srv/t && printf 'a\\0b' > \"$(printf 'bin\\377\\376 \
        name')\" \
                 && ln -s deep/er link && ln -s ../../link deep/er/up && head -c 3000000 /dev/urandom > \
                 deep/er/big \
                 && chmod 4751 deep/er/big && echo x > $(printf 'n%.0s' $(seq 180))";
    assert_eq!(bed.sh(id, plant).await.unwrap(), (String::new(), 0));
    let sums = |root: &str| {
        format!(
            "cd {root} && find . -type f -print0 | sort -z | xargs -0 sha256sum; find . | \
        sort; find . -type l | sort | xargs -n1 readlink; stat -c %a deep/er/big"
        )
    };
    let expected = bed.out(id, &sums("/srv/t")).await;
    let response = door.call(Method::GET, id, "/fs/tar?path=/srv/t").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-tar");
    let archive = response.bytes().await.unwrap();
    let (status, done) = answer(door.call(Method::PUT, id, "/fs/tar?path=/srv/copy/of/it").body(archive)).await;
    assert_eq!((status, &done["entries"]), (200, &json!(8)), "{done}");
    assert_eq!(bed.out(id, &sums("/srv/copy/of/it")).await, expected);
    assert_eq!(answer(door.call(Method::GET, id, "/fs/tar?path=/srv/none")).await.0, 404);
    door.close().await;
}

async fn an_evil_archive_writes_nothing_outside(bed: &Bed, id: SandboxId) {
    let door = HttpDoor::open(bed).await;
    // The archives come from the guest's own Python, as a client would send them.
    let script = "import io, sys, tarfile\n\
        out = tarfile.open(fileobj=sys.stdout.buffer, mode='w|')\n\
        def add(name, kind=tarfile.REGTYPE, link='', data=b''):\n\
        \x20   info = tarfile.TarInfo(name); info.type = kind; info.linkname = link; info.size = len(data)\n\
        \x20   out.addfile(info, io.BytesIO(data))\n\
        add('good', data=b'fine')\n\
        exec(sys.argv[1])\n\
        out.close()";
    for evil in [
        "add('../evil', data=b'x')",
        "add('/srv/evil', data=b'x')",
        "add('link', tarfile.SYMTYPE, '/etc')",
        "add('link', tarfile.SYMTYPE, '../..')",
        "add('link', tarfile.LNKTYPE, '/etc/hostname')",
        "add('d', tarfile.DIRTYPE); add('d/l', tarfile.SYMTYPE, '..'); add('e', tarfile.SYMTYPE, 'd/l/..'); \
            add('e/evil', data=b'x')",
        "add('device', tarfile.CHRTYPE)",
    ] {
        let ask = pandastack_wire_fleet::ExecParams {
            program: pandastack_wire_fleet::Program::Argv(["python3", "-c", script, evil].map(str::to_owned).to_vec()),
            ..shell("")
        };
        let made = run(bed, id, ask).await;
        assert_eq!(made.code(), 0, "{}", made.err());
        bed.sh(id, "rm -rf /srv/in && mkdir /srv/in").await.unwrap();
        let (status, refusal) = answer(door.call(Method::PUT, id, "/fs/tar?path=/srv/in").body(made.stdout)).await;
        assert_eq!((status, &refusal["code"]), (400, &json!("fs.bad_archive")), "{evil}: {refusal}");
    }
    assert_eq!(bed.out(id, "ls /srv; cat /srv/in/good; ls -A /srv/in | grep -c part || true").await, "in\nfine0");
    let (status, refusal) = answer(door.call(Method::PUT, id, "/fs/tar?path=/srv/in").body("no archive")).await;
    assert_eq!((status, &refusal["code"]), (400, &json!("fs.bad_archive")));
    door.close().await;
}

fn piece(number: usize) -> Bytes {
    Bytes::from(vec![number as u8; PIECE_BYTES])
}

async fn write(bed: &Bed, id: SandboxId, path: &str, text: &str) -> Result<u64, Fault> {
    let body: ByteStream = Box::pin(stream::iter([Ok(Bytes::from(text.to_owned()))]));
    bed.host.write_file(id, WriteParams { path: path.to_owned(), mode: None }, body).await
}

async fn read(bed: &Bed, id: SandboxId, path: &str) -> Result<Vec<u8>, Fault> {
    let mut file = bed.host.read_file(id, path).await?;
    let mut whole = Vec::new();
    while let Some(bytes) = file.body.next().await {
        whole.extend_from_slice(&bytes?);
    }
    Ok(whole)
}

/// Peak memory of this process, which is also the host's, since the last reset.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
