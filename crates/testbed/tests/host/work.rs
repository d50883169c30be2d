//! The main use of sandboxes: programs and files, through the whole host.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use pandastack_model::FaultKind;
use pandastack_testbed::{FakeBed, finish, with_fake_bed};
use pandastack_wire_fleet::{ExecControl, ExecEvent, ExecParams, HostPort, Program, WriteParams};

use crate::{SOON, output_rests};

#[tokio::test]
async fn programs_run_and_tell_how_they_ended() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        assert_eq!(bed.run(id, "true").await.unwrap(), (String::new(), ExecEvent::Exit { code: 0 }));
        assert_eq!(bed.run(id, "false").await.unwrap().1, ExecEvent::Exit { code: 1 });
        assert_eq!(bed.run(id, "echo a b").await.unwrap().0, "a b\n");
        let fault = bed.run(id, "no-such-program").await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Missing);
        let sleeping = bed.exec(id, "sleep 1000").await.unwrap();
        sleeping.control.send(ExecControl::Signal(15)).await.unwrap();
        assert_eq!(finish(sleeping).await.1, ExecEvent::Exit { code: 143 });
    })
    .await;
}

#[tokio::test]
async fn a_deadline_passes_in_the_guests_own_time() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let ask = ExecParams {
            program: Program::Argv(vec!["sleep".to_owned(), "1000".to_owned()]),
            cwd: None,
            env: Default::default(),
            user: None,
            stdin: false,
            deadline: Some(Duration::from_secs(60)),
            terminal: None,
        };
        let session = bed.host.exec(id, ask).await.unwrap();
        bed.script.clock.advance(Duration::from_secs(61));
        assert_eq!(finish(session).await.1, ExecEvent::TimedOut { after: Duration::from_secs(60) });
    })
    .await;
}

/// More input than any window, echoed back: neither side holds it whole, and credit paces both.
#[tokio::test]
async fn input_flows_through_the_window() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let session = bed.exec(id, "cat").await.unwrap();
        let control = session.control.clone();
        let piece = Bytes::from(vec![b'x'; 700_000]);
        let feed = async {
            for _ in 0..10 {
                control.send(ExecControl::Stdin(piece.clone())).await.unwrap();
            }
            control.send(ExecControl::CloseStdin).await.unwrap();
        };
        let ((), (output, last)) = tokio::join!(feed, finish(session));
        assert_eq!((output.len(), last), (7_000_000, ExecEvent::Exit { code: 0 }));
    })
    .await;
}

/// Unread output stops the program, but not the caller's input to it.
#[tokio::test]
async fn a_caller_who_is_behind_can_still_steer() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let session = bed.exec(id, "yes").await.unwrap();
        output_rests(bed).await;
        // More than the queue in between holds: they are passed on although no output is read.
        for _ in 0..100 {
            let steered = session.control.send(ExecControl::Signal(15));
            tokio::time::timeout(SOON, steered).await.expect("a signal is taken").unwrap();
        }
        assert_eq!(finish(session).await.1, ExecEvent::Exit { code: 143 });
    })
    .await;
}

#[tokio::test]
async fn a_dropped_exec_ends_its_program() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        drop(bed.exec(id, "yes").await.unwrap());
        output_rests(bed).await;
        bed.run(id, "true").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn files_go_in_and_come_out() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let body = stream::iter((0..12).map(|at| Ok(Bytes::from(vec![at; 300_000])))).boxed();
        let ask = WriteParams { path: "/data/big".to_owned(), mode: None };
        assert_eq!(bed.host.write_file(id, ask, body).await.unwrap(), 3_600_000);
        let file = bed.host.read_file(id, "/data/big").await.unwrap();
        assert_eq!(file.entry.size, 3_600_000);
        let contents: Vec<Bytes> = file.body.try_collect().await.unwrap();
        assert_eq!(contents.concat().len(), 3_600_000);
        let names: Vec<_> = bed.host.list_dir(id, "/data").await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["big"]);
        bed.host.delete_path(id, "/data").await.unwrap();
        bed.host.delete_path(id, "/data").await.unwrap();
        assert_eq!(bed.host.stat(id, "/data/big").await.unwrap_err().kind, FaultKind::Missing);
        assert_eq!(bed.host.read_file(id, "/data/big").await.err().unwrap().code, "path.not_found");
    })
    .await;
}

#[tokio::test]
async fn siblings_share_no_files() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let ((one, _), (two, _)) = (bed.create().await, bed.create().await);
        let body = stream::iter([Ok(Bytes::from_static(b"mine"))]).boxed();
        bed.host.write_file(one, WriteParams { path: "/note".to_owned(), mode: None }, body).await.unwrap();
        assert!(bed.host.stat(one, "/note").await.is_ok());
        assert!(bed.host.stat(two, "/note").await.is_err());
    })
    .await;
}
