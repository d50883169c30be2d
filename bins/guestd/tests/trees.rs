//! Operations on whole folders: changes, walks, watches, archives.
use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{Agent, Client};
use pandastack_wire_guest::{
    self as wire, CreateDir, Credit, ErrorKind, Frame, FrameKind, Message, PathChangeKind, PathChanges, RenamePath,
    SetMode, UnpackReply, WINDOW_BYTES, WalkDir, WalkEntries, WatchPath, frame_cost,
};

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn walk(client: &mut Client, path: &Path, depth: u32, entries_max: u32) -> (Vec<String>, bool) {
    client.send(WalkDir { path: text(path), depth, entries_max }.frame(1));
    let mut names = Vec::new();
    loop {
        let frame = client.expect(1, FrameKind::WalkEntries);
        let part = WalkEntries::parse(&frame.payload).unwrap();
        names.extend(part.entries.into_iter().map(|entry| entry.name));
        if frame.flags.is_end() {
            return (names, part.truncated);
        }
    }
}

fn pack(client: &mut Client, path: &Path) -> Vec<u8> {
    client.send(wire::PathMessage { path: text(path) }.frame(1, FrameKind::Pack));
    client.expect(1, FrameKind::Meta);
    let mut archive = Vec::new();
    loop {
        let frame = client.expect(1, FrameKind::Data);
        archive.extend_from_slice(&frame.payload);
        if frame.flags.is_end() {
            return archive;
        }
        client.credit(1, frame_cost(frame.payload.len()));
    }
}

/// Sends an archive and returns the last frame.
fn unpack(client: &mut Client, path: &Path, archive: &[u8]) -> Frame {
    client.send(wire::PathMessage { path: text(path) }.frame(1, FrameKind::Unpack));
    let mut window = WINDOW_BYTES;
    for piece in archive.chunks(100_000) {
        while window < piece.len() {
            let frame = client.next(1);
            match frame.kind {
                FrameKind::Credit => window += Credit::parse(&frame.payload).unwrap().bytes as usize,
                _ => return frame,
            }
        }
        window -= piece.len();
        client.send(Frame::new(1, FrameKind::Data, piece.to_vec()));
    }
    client.send(Frame::new(1, FrameKind::Data, Vec::new()).end());
    loop {
        let frame = client.next(1);
        if frame.kind != FrameKind::Credit {
            return frame;
        }
    }
}

fn refused(client: &mut Client, path: &Path, archive: &[u8]) -> String {
    let frame = unpack(client, path, archive);
    assert_eq!(frame.kind, FrameKind::Error, "{frame:?}");
    let error = wire::Error::parse(&frame.payload).unwrap();
    assert_eq!(error.kind, ErrorKind::Invalid, "{}", error.text);
    error.text
}

/// Makes a tree with difficult cases: empty folders, odd names, links, modes.
fn plant(root: &Path) {
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::write(root.join("deep/er/file"), "hello").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"bin\xff\xfe\n name")), [0, 255, 10]).unwrap();
    fs::write(root.join("n".repeat(180)), "long").unwrap();
    fs::write(root.join("big"), vec![7; 3_000_001]).unwrap();
    fs::set_permissions(root.join("big"), fs::Permissions::from_mode(0o4751)).unwrap();
    symlink("deep/er/file", root.join("link")).unwrap();
    symlink(format!("deep/../{}", "n".repeat(180)), root.join("long-link")).unwrap();
    symlink("../../big", root.join("deep/er/up")).unwrap();
}

fn check(root: &Path) {
    assert!(fs::read_dir(root.join("empty")).unwrap().next().is_none());
    assert_eq!(fs::read(root.join("deep/er/file")).unwrap(), b"hello");
    assert_eq!(fs::read(root.join(OsStr::from_bytes(b"bin\xff\xfe\n name"))).unwrap(), [0, 255, 10]);
    assert_eq!(fs::read(root.join("long-link")).unwrap(), b"long");
    assert_eq!(fs::read(root.join("deep/er/up")).unwrap(), vec![7; 3_000_001]);
    assert_eq!(fs::metadata(root.join("big")).unwrap().mode() & 0o7777, 0o4751);
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("deep/er/file"));
}

#[test]
fn folders_are_made_moved_and_given_modes() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (mut client, root) = (agent.connect(), folder.path());
    let mut ask = |frame: Frame, outcome: Result<(), ErrorKind>| {
        client.send(frame);
        match outcome {
            Ok(()) => drop(client.expect(1, FrameKind::Done)),
            Err(kind) => drop(client.expect_error(1, kind)),
        }
    };
    let make = |path: &str, parents| CreateDir { path: text(&root.join(path)), parents }.frame(1);
    ask(make("a/b", false), Err(ErrorKind::Missing));
    ask(make("a/b", true), Ok(()));
    ask(make("a/b", true), Ok(()));
    ask(make("a/b", false), Err(ErrorKind::Denied));
    ask(CreateDir { path: "relative".into(), parents: true }.frame(1), Err(ErrorKind::Invalid));
    fs::write(root.join("a/file"), "x").unwrap();
    fs::write(root.join("other"), "y").unwrap();
    let rename = |from: &str, to: &str, overwrite| {
        RenamePath { from: text(&root.join(from)), to: text(&root.join(to)), overwrite }.frame(1)
    };
    ask(rename("a/file", "other", false), Err(ErrorKind::Denied));
    ask(rename("a/file", "other", true), Ok(()));
    assert_eq!(fs::read(root.join("other")).unwrap(), b"x");
    ask(rename("a/file", "third", true), Err(ErrorKind::Missing));
    ask(rename("a", "moved", false), Ok(()));
    fs::write(root.join("moved/b/file"), "x").unwrap();
    symlink("/etc/hostname", root.join("moved/link")).unwrap();
    let before = fs::metadata("/etc/hostname").map(|meta| meta.mode()).ok();
    ask(SetMode { path: text(&root.join("moved")), mode: 0o700, recursive: true }.frame(1), Ok(()));
    for path in ["moved", "moved/b", "moved/b/file"] {
        assert_eq!(fs::metadata(root.join(path)).unwrap().mode() & 0o7777, 0o700, "{path}");
    }
    assert_eq!(fs::metadata("/etc/hostname").map(|meta| meta.mode()).ok(), before, "links are not followed");
    ask(SetMode { path: text(&root.join("none")), mode: 0o700, recursive: false }.frame(1), Err(ErrorKind::Missing));
}

#[test]
fn a_walk_shows_folders_before_their_entries_and_says_what_it_leaves_out() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (mut client, root) = (agent.connect(), folder.path());
    fs::create_dir_all(root.join("b/c/d")).unwrap();
    fs::write(root.join("b/c/file"), "").unwrap();
    fs::write(root.join("a"), "").unwrap();
    symlink("..", root.join("b/up")).unwrap();
    assert_eq!(walk(&mut client, root, 1, 100), (vec!["a".into(), "b".into()], false));
    let all = ["a", "b", "b/c", "b/c/d", "b/c/file", "b/up"].map(str::to_owned);
    assert_eq!(walk(&mut client, root, u32::MAX, 100), (all.to_vec(), false));
    assert_eq!(walk(&mut client, root, 2, 100).0, ["a", "b", "b/c", "b/up"]);
    assert_eq!(walk(&mut client, root, 100, 6), (all.to_vec(), false));
    assert_eq!(walk(&mut client, root, 100, 5), (all[..5].to_vec(), true));
    for number in 0..3000 {
        fs::write(root.join(format!("b/c/d/{number:0>100}")), "").unwrap();
    }
    assert_eq!(walk(&mut client, root, 100, 100_000).0.len(), 3006);
    client.send(WalkDir { path: text(&root.join("a")), depth: 1, entries_max: 1 }.frame(1));
    client.expect_error(1, ErrorKind::WrongType);
}

/// Collects changes until one matches.
fn hear(client: &mut Client, until: impl Fn(&wire::PathChange) -> bool) -> Vec<(PathChangeKind, String)> {
    let mut heard = Vec::new();
    loop {
        let frame = client.expect(1, FrameKind::Changes);
        client.credit(1, frame_cost(frame.payload.len()));
        for change in PathChanges::parse(&frame.payload).unwrap().changes {
            heard.push((change.kind, change.path.clone()));
            if until(&change) {
                return heard;
            }
        }
    }
}

#[test]
fn a_watch_tells_everything_after_it_was_promised() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (mut client, root) = (agent.connect(), folder.path());
    fs::create_dir_all(root.join("old/deep")).unwrap();
    client.send(WatchPath { path: text(root), recursive: true }.frame(1));
    client.expect(1, FrameKind::Watching);
    fs::write(root.join("old/deep/file"), "x").unwrap();
    let at = |path: &str| text(&root.join(path));
    let heard = hear(&mut client, |change| change.kind == PathChangeKind::Written);
    assert_eq!(heard[0], (PathChangeKind::Created, at("old/deep/file")));
    // New folders, and the entries made in them before they were watched.
    fs::create_dir_all(root.join("new/one/two")).unwrap();
    fs::write(root.join("new/one/two/file"), "").unwrap();
    let last = at("new/one/two/file");
    let heard = hear(&mut client, |change| change.path == last);
    assert!(heard.contains(&(PathChangeKind::Created, at("new"))), "{heard:?}");
    // A moved folder is followed and reported by its new name.
    fs::rename(root.join("old/deep"), root.join("new/deep")).unwrap();
    fs::remove_file(root.join("new/deep/file")).unwrap();
    let heard = hear(&mut client, |change| change.kind == PathChangeKind::Deleted);
    assert_eq!(heard.last().unwrap().1, at("new/deep/file"));
    assert!(
        heard.contains(&(PathChangeKind::MovedFrom, at("old/deep")))
            && heard.contains(&(PathChangeKind::MovedTo, at("new/deep")))
    );
    fs::set_permissions(root.join("old"), fs::Permissions::from_mode(0o700)).unwrap();
    hear(&mut client, |change| change.kind == PathChangeKind::Attributes && change.path == at("old"));
    // Deleting the root ends the watch with an error.
    fs::remove_dir_all(root).unwrap();
    hear(&mut client, |change| change.kind == PathChangeKind::Deleted && change.path == text(root));
    client.expect_error(1, ErrorKind::Missing);
}

#[test]
fn more_changes_than_the_kernel_keeps_are_told_as_such() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (mut client, root) = (agent.connect(), folder.path());
    client.send(WatchPath { path: text(root), recursive: false }.frame(1));
    client.expect(1, FrameKind::Watching);
    let queue: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let long = "x".repeat(200);
    // Enough changes to fill the window and the kernel's queue while nothing is read.
    for number in 0..queue + WINDOW_BYTES / 200 {
        let path = root.join(format!("{long}{}", number % 64));
        fs::write(&path, "").unwrap();
        fs::remove_file(&path).unwrap();
    }
    hear(&mut client, |change| change.kind == PathChangeKind::Overflow);
    client.send_empty(1, FrameKind::Cancel);
    client.send(WatchPath { path: text(&root.join("none")), recursive: false }.frame(2));
    client.expect_error(2, ErrorKind::Missing);
}

#[test]
fn watches_are_few() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    for channel in 1..=16 {
        client.send(WatchPath { path: text(folder.path()), recursive: true }.frame(channel));
        client.expect(channel, FrameKind::Watching);
    }
    client.send(WatchPath { path: text(folder.path()), recursive: true }.frame(17));
    client.expect_error(17, ErrorKind::Full);
    client.send_empty(3, FrameKind::Cancel);
    client.expect_error(3, ErrorKind::Cancelled);
    client.send(WatchPath { path: text(folder.path()), recursive: true }.frame(17));
    client.expect(17, FrameKind::Watching);
}

#[test]
fn a_tree_survives_the_way_out_and_in() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (mut client, from, to) = (agent.connect(), folder.path().join("from"), folder.path().join("to"));
    plant(&from);
    let archive = pack(&mut client, &from);
    assert_eq!(archive.len() % 512, 0);
    let frame = unpack(&mut client, &to, &archive);
    let done = UnpackReply::parse(&frame.payload).unwrap();
    assert_eq!((frame.kind, done.entries, done.bytes), (FrameKind::Unpacked, 10, 5 + 3 + 4 + 3_000_001));
    check(&to);
    // A second time, over the existing files.
    assert_eq!(unpack(&mut client, &to, &archive).kind, FrameKind::Unpacked);
    check(&to);
    let left: Vec<_> = walk(&mut client, &to, 100, 100).0;
    assert!(left.len() == 10 && left.iter().all(|name| !name.contains(".part")), "{left:?}");
}

#[test]
fn archives_are_those_of_other_programs() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (mut client, from) = (agent.connect(), folder.path().join("from"));
    plant(&from);
    let archive = pack(&mut client, &from);
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    let mut tar = Command::new("tar").arg("-xpf-").arg("-C").arg(&theirs).stdin(Stdio::piped()).spawn().unwrap();
    tar.stdin.take().unwrap().write_all(&archive).unwrap();
    assert!(tar.wait().unwrap().success());
    check(&theirs);
    for format in ["gnu", "posix", "oldgnu"] {
        let out =
            Command::new("tar").arg(format!("--format={format}")).arg("-cC").arg(&from).arg(".").output().unwrap();
        assert!(out.status.success(), "{format}");
        let to = folder.path().join(format);
        assert_eq!(unpack(&mut client, &to, &out.stdout).kind, FrameKind::Unpacked, "{format}");
        check(&to);
    }
    // A single file, and a hard link.
    assert!(pack(&mut client, &from.join("link")).starts_with(b"link\0"));
    fs::hard_link(from.join("big"), from.join("deep/twin")).unwrap();
    let out = Command::new("tar").arg("-cC").arg(&from).arg(".").output().unwrap();
    let to = folder.path().join("twins");
    assert_eq!(unpack(&mut client, &to, &out.stdout).kind, FrameKind::Unpacked);
    assert_eq!(fs::metadata(to.join("deep/twin")).unwrap().ino(), fs::metadata(to.join("big")).unwrap().ino());
}

/// Encodes one entry in the oldest form.
fn entry(name: &str, kind: u8, link: &str, data: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    block[136..147].copy_from_slice(b"00000000000");
    block[148..156].copy_from_slice(b"        ");
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block.extend_from_slice(data);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

#[test]
fn evil_archives_stay_inside() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (mut client, to) = (agent.connect(), folder.path().join("inside"));
    fs::create_dir(&to).unwrap();
    fs::create_dir(folder.path().join("outside")).unwrap();
    symlink(folder.path().join("outside"), to.join("absolute")).unwrap();
    symlink("../outside", to.join("relative")).unwrap();
    let file = |name: &str| entry(name, b'0', "", b"evil");
    for archive in [
        file("../evil"),
        file("/tmp/pandastack-evil"),
        file("a/../../evil"),
        entry("link", b'2', "/etc/passwd", b""),
        entry("link", b'2', "../outside", b""),
        entry("link", b'1', "../outside/x", b""),
        entry("link", b'1', "/etc/passwd", b""),
        entry("link", b'1', "none", b""),
        file("absolute/evil"),
        file("relative/evil"),
        // A chain of links, each of which looks harmless.
        [entry("d/", b'5', "", b""), entry("d/l", b'2', "..", b""), entry("e", b'2', "d/l/..", b""), file("e/evil")]
            .concat(),
        entry("device", b'3', "", b""),
        entry("pipe", b'6', "", b""),
        file("whole")[..700].to_vec(),
        vec![7; 1024],
        b"short".to_vec(),
        entry("././@LongLink", b'L', "", &vec![b'n'; 100_000]),
    ] {
        refused(&mut client, &to, &archive);
    }
    assert!(fs::read_dir(folder.path().join("outside")).unwrap().next().is_none());
    assert!(!folder.path().join("evil").exists() && !Path::new("/tmp/pandastack-evil").exists());
    let left: Vec<_> = walk(&mut client, &to, 100, 100).0;
    assert!(left.iter().all(|name| !name.contains(".part")), "{left:?}");
    // A link replaces a link, and a file replaces a link: nothing is written through it.
    assert_eq!(unpack(&mut client, &to, &file("relative")).kind, FrameKind::Unpacked);
    assert!(fs::symlink_metadata(to.join("relative")).unwrap().is_file());
    assert_eq!(unpack(&mut client, &to, &[]).kind, FrameKind::Unpacked, "nothing is an archive of nothing");
    let path = to.join("relative/below");
    client.send(wire::PathMessage { path: text(&path) }.frame(1, FrameKind::Unpack));
    client.expect_error(1, ErrorKind::WrongType);
}
