//! Code sessions through the whole host.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use pandastack_model::{CodeLanguage, FaultKind, SandboxId};
use pandastack_testbed::{FakeBed, HandshakeBehaviour, wait_for, with_fake_bed};
use pandastack_wire_fleet::{CellEnd, CellEvent, CellParams, ExecEvent, HostPort};

use crate::SOON;

async fn cell(bed: &FakeBed, id: SandboxId, session: &str, code: &str) -> Vec<CellEvent> {
    let (session, code) = (session.parse().unwrap(), Bytes::from(code.to_owned()));
    let cell = bed.host.run_cell(id, CellParams { session, code, limit: Duration::from_secs(60) }).await.unwrap();
    cell.collect().await
}

#[tokio::test]
async fn cells_run_and_refusals_have_their_kinds() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let open = async |name: &str| bed.host.open_code(id, &name.parse().unwrap(), CodeLanguage::Python).await;
        assert_eq!(open("one").await.unwrap().id.as_str(), "one");
        let full = open("full").await.unwrap_err();
        assert_eq!((full.kind, full.code), (FaultKind::Quota, "session.too_many"));
        let none = open("none").await.unwrap_err();
        assert_eq!((none.kind, none.code), (FaultKind::Caller, "language.unavailable"));
        let events = cell(bed, id, "one", "echo hi").await;
        assert_eq!(events[0], CellEvent::Stdout(Bytes::from_static(b"hi")));
        let CellEvent::Ended(ended) = &events[1] else { panic!("{events:?}") };
        assert_eq!((ended.how, ended.took), (CellEnd::Answered { exit: 0 }, Duration::from_millis(5)));
        // More than a frame, less than a window.
        let long = format!("echo {}", "y".repeat(700_000));
        assert_eq!(cell(bed, id, "one", &long).await.len(), 2);
        let late = cell(bed, id, "one", "late").await;
        assert!(matches!(&late[..], [CellEvent::Ended(ended)] if ended.how == CellEnd::Late));
        let unknown = cell(bed, id, "none", "1").await;
        assert!(matches!(&unknown[..], [CellEvent::Failed(fault)] if fault.code == "session.not_found"));
        assert_eq!(bed.host.close_code(id, &"none".parse().unwrap()).await.unwrap_err().code, "session.not_found");
        bed.host.close_code(id, &"one".parse().unwrap()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_guest_that_says_too_much_about_a_cell_is_not_heard_out() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let events = cell(bed, id, "one", "flood").await;
        assert!(matches!(events.last(), Some(CellEvent::Failed(fault)) if fault.code == "guest.confused"));
        assert_eq!(bed.run(id, "true").await.unwrap().1, ExecEvent::Exit { code: 0 }, "its link goes on");
    })
    .await;
}

#[tokio::test]
async fn a_cell_nobody_waits_for_is_cancelled() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let (session, code) = ("one".parse().unwrap(), Bytes::from_static(b"for ever"));
        let ask = CellParams { session, code, limit: Duration::from_secs(60) };
        drop(bed.host.run_cell(id, ask).await.unwrap());
        wait_for("the cell's end", SOON, async || (bed.script.sent() > 0).then_some(())).await;
    })
    .await;
}

/// A guest sealed before sessions existed would reject the request as invalid and close its link.
#[tokio::test]
async fn an_older_guest_is_not_asked() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        bed.script.set_behaviour(HandshakeBehaviour::Older);
        let (id, _) = bed.create().await;
        let fault = bed.host.open_code(id, &"one".parse().unwrap(), CodeLanguage::Python).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "session.unsupported"));
        assert_eq!(bed.run(id, "true").await.unwrap().1, ExecEvent::Exit { code: 0 });
        assert_eq!(bed.script.welcomes(), 1, "the link was never lost");
    })
    .await;
}
