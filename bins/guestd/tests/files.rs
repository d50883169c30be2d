//! File transfers in both directions.
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use crate::common::{Agent, Client, wait_for};
use pandastack_wire_guest::{
    self as wire, BytesWritten, Credit, DirEntries, DirEntry, DirEntryKind, EntryMetadata, ErrorKind, Frame, FrameKind,
    Message, ReadFile, WINDOW_BYTES, WriteFile,
};

const CHUNK: usize = 256 * 1024;

fn path_frame(path: &Path, kind: FrameKind) -> Frame {
    wire::PathMessage { path: path.to_str().unwrap().into() }.frame(1, kind)
}

fn write_frame(path: &Path, mode: Option<u32>) -> Frame {
    WriteFile { path: path.to_str().unwrap().into(), mode }.frame(1)
}

fn read_frame(path: &Path) -> Frame {
    ReadFile { path: path.to_str().unwrap().into() }.frame(1)
}

/// Sends contents in blocks within the window, and returns the number of bytes written.
fn upload(client: &mut Client, path: &Path, mode: Option<u32>, blocks: usize, block: &[u8]) -> u64 {
    client.send(write_frame(path, mode));
    let mut window = WINDOW_BYTES;
    for _ in 0..blocks {
        while window < block.len() {
            window += Credit::parse(&client.expect(1, FrameKind::Credit).payload).unwrap().bytes as usize;
        }
        client.send(Frame::new(1, FrameKind::Data, block.to_vec()));
        window -= block.len();
    }
    client.send(Frame::new(1, FrameKind::Data, Vec::new()).end());
    loop {
        let frame = client.next(1);
        match frame.kind {
            FrameKind::Credit => {}
            FrameKind::Written => return BytesWritten::parse(&frame.payload).unwrap().bytes,
            _ => panic!("{:?}", wire::Error::parse(&frame.payload)),
        }
    }
}

/// Receives contents piece by piece, and returns the agent's description of the file.
fn download(client: &mut Client, path: &Path, mut piece: impl FnMut(&[u8])) -> DirEntry {
    client.send(read_frame(path));
    let meta = EntryMetadata::parse(&client.expect(1, FrameKind::Meta).payload).unwrap();
    loop {
        let frame = client.expect(1, FrameKind::Data);
        piece(&frame.payload);
        if frame.flags.is_end() {
            return meta.entry;
        }
        client.credit(1, frame.payload.len());
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read_back() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    let path = folder.path().join("made/on the way/file");
    assert_eq!(upload(&mut client, &path, None, 3, b"abc"), 9);
    let mut contents = Vec::new();
    let entry = download(&mut client, &path, |piece| contents.extend_from_slice(piece));
    assert_eq!(contents, b"abcabcabc");
    assert_eq!((entry.name.as_str(), entry.kind, entry.size, entry.mode), ("file", DirEntryKind::File, 9, 0o644));
    assert_eq!(upload(&mut client, &path, Some(0o4750), 0, b""), 0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o4750);
    download(&mut client, &path, |piece| assert!(piece.is_empty()));
    let mut kernel = Vec::new();
    download(&mut client, Path::new("/proc/version"), |piece| kernel.extend_from_slice(piece));
    assert!(kernel.starts_with(b"Linux"), "files without a size are read too");
}

#[test]
fn large_files_do_not_stay_in_memory() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    let path = folder.path().join("large");
    let blocks = 64 * 4;
    assert_eq!(upload(&mut client, &path, None, blocks, &vec![7; CHUNK]), 64 << 20);
    fs::File::create(folder.path().join("sparse")).unwrap().set_len(256 << 20).unwrap();
    for (name, size, value) in [("large", 64 << 20, 7), ("sparse", 256 << 20, 0)] {
        let mut received = 0;
        download(&mut client, &folder.path().join(name), |piece| {
            assert!(piece.iter().all(|byte| *byte == value));
            received += piece.len();
        });
        assert_eq!(received, size);
    }
    assert!(agent.memory() < 24 << 20, "{} bytes", agent.memory());
}

#[test]
fn a_replaced_file_keeps_its_mode_and_its_links() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    let (path, link) = (folder.path().join("script"), folder.path().join("link"));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    symlink("script", &link).unwrap();
    upload(&mut client, &link, None, 1, b"new");
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o751);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names_in(folder.path()), ["link", "script"]);
}

#[test]
fn an_unfinished_write_leaves_nothing() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let begin = |client: &mut Client| {
        client.send(write_frame(&path, None));
        client.send(Frame::new(1, FrameKind::Data, b"half".to_vec()));
        wait_for("the temporary file", || names_in(folder.path()).len() == 2);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    };
    begin(&mut client);
    client.send_empty(1, FrameKind::Cancel);
    client.expect_error(1, ErrorKind::Cancelled);
    assert_eq!(names_in(folder.path()), ["file"]);
    begin(&mut client);
    drop(client);
    wait_for("its end", || names_in(folder.path()) == ["file"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn too_much_data_ends_the_channel_only() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    client.send_empty(2, FrameKind::Quiesce);
    client.expect(2, FrameKind::Done);
    // While file systems are frozen nothing is consumed, so only one window can be sent.
    client.send(write_frame(&folder.path().join("file"), None));
    (0..5).for_each(|_| client.send(Frame::new(1, FrameKind::Data, vec![0; CHUNK])));
    client.expect_error(1, ErrorKind::Invalid);
    client.send_empty(2, FrameKind::Thaw);
    client.expect(2, FrameKind::Done);
    assert_eq!(names_in(folder.path()), [""; 0]);
    assert_eq!(upload(&mut client, &folder.path().join("file"), None, 1, b"fine"), 4);
}

#[test]
fn listings_are_sorted_and_complete() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    let long = "n".repeat(200);
    (0..3000).for_each(|n| fs::write(folder.path().join(format!("{n:05}-{long}")), "").unwrap());
    fs::create_dir(folder.path().join("a folder")).unwrap();
    symlink("/nowhere", folder.path().join("z link")).unwrap();
    fs::write(folder.path().join("sized"), "12345").unwrap();
    fs::write(folder.path().join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"z\xff")), "").unwrap();
    client.send(path_frame(folder.path(), FrameKind::List));
    let (mut entries, mut frames) = (Vec::new(), 0);
    loop {
        let frame = client.expect(1, FrameKind::Entries);
        entries.extend(DirEntries::parse(&frame.payload).unwrap().entries);
        frames += 1;
        if frame.flags.is_end() {
            break;
        }
    }
    assert_eq!((entries.len(), frames > 1), (3004, true));
    assert!(entries.is_sorted_by_key(|entry| entry.name.clone()));
    let by_name = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(by_name("a folder").kind, DirEntryKind::Directory);
    assert_eq!(
        (by_name("z link").kind, by_name("z link").target.as_deref()),
        (DirEntryKind::Symlink, Some("/nowhere"))
    );
    assert_eq!((by_name("sized").size, by_name("z\u{fffd}").kind), (5, DirEntryKind::File));
}

#[test]
fn stat_describes_without_following() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    symlink("target", folder.path().join("link")).unwrap();
    let mut stat = |path: &Path| {
        client.send(path_frame(path, FrameKind::Stat));
        let frame = client.expect(1, FrameKind::Meta);
        assert!(frame.flags.is_end());
        EntryMetadata::parse(&frame.payload).unwrap().entry
    };
    assert_eq!(stat(&folder.path().join("link")).target.as_deref(), Some("target"));
    let root = stat(Path::new("/"));
    assert_eq!((root.name.as_str(), root.kind), ("/", DirEntryKind::Directory));
    assert_eq!(stat(Path::new("/dev/null")).kind, DirEntryKind::Other);
    assert!(stat(Path::new("/etc/passwd")).modified > 0);
}

#[test]
fn delete_is_thorough_and_careful() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("deep/deeper")).unwrap();
    fs::write(folder.path().join("kept"), "kept").unwrap();
    symlink(folder.path(), tree.join("deep/up")).unwrap();
    symlink("kept", folder.path().join("link")).unwrap();
    for path in [tree, folder.path().join("link"), folder.path().join("never was"), folder.path().join("never/was")] {
        client.send(path_frame(&path, FrameKind::Delete));
        client.expect(1, FrameKind::Done);
    }
    assert_eq!(names_in(folder.path()), ["kept"]);
    for path in ["/", "//", "/.", "/..", "/tmp/..", "/usr/bin/../.."] {
        client.send(path_frame(Path::new(path), FrameKind::Delete));
        client.expect_error(1, ErrorKind::Invalid);
    }
}

#[test]
fn refusals_are_told_apart() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mut client = agent.connect();
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (missing, file) = (Path::new("/no/such"), Path::new("/etc/passwd"));
    let cases = [
        (read_frame(missing), ErrorKind::Missing),
        (read_frame(Path::new("/etc")), ErrorKind::WrongType),
        (read_frame(&fifo), ErrorKind::WrongType),
        (read_frame(Path::new("/etc/passwd/x")), ErrorKind::WrongType),
        (read_frame(Path::new("etc/passwd")), ErrorKind::Invalid),
        (read_frame(Path::new("")), ErrorKind::Invalid),
        (read_frame(Path::new("/etc\0/passwd")), ErrorKind::Invalid),
        (write_frame(Path::new("/etc"), None), ErrorKind::WrongType),
        (write_frame(Path::new("/"), None), ErrorKind::WrongType),
        (write_frame(Path::new("/tmp/new/"), None), ErrorKind::WrongType),
        (write_frame(Path::new("/dev/null"), None), ErrorKind::WrongType),
        (write_frame(Path::new("/etc/passwd/x"), None), ErrorKind::WrongType),
        (write_frame(Path::new("tmp/x"), None), ErrorKind::Invalid),
        (path_frame(missing, FrameKind::List), ErrorKind::Missing),
        (path_frame(file, FrameKind::List), ErrorKind::WrongType),
        (path_frame(Path::new("."), FrameKind::List), ErrorKind::Invalid),
        (path_frame(missing, FrameKind::Stat), ErrorKind::Missing),
        (path_frame(Path::new("x"), FrameKind::Delete), ErrorKind::Invalid),
    ];
    for (frame, kind) in cases {
        client.send(frame);
        client.expect_error(1, kind);
    }
    // A full file system: 64 KiB of tmpfs.
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let mounted =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "small"]).arg(&small).status();
    if mounted.is_ok_and(|status| status.success()) {
        client.send(write_frame(&small.join("file"), None));
        client.send(Frame::new(1, FrameKind::Data, vec![1; CHUNK]).end());
        client.expect_error(1, ErrorKind::Full);
        assert_eq!(names_in(&small), [""; 0]);
        std::process::Command::new("umount").arg(&small).status().unwrap();
    }
}
