//! Tests of the ledger on a real file: the next process finds what was written.

use pandastack_model::{
    Egress, LayerId, MachineId, Owner, SandboxId, SandboxOrigin, SandboxSpec, SandboxState, VolumeAccess, VolumeId,
    VolumeMount,
};
use pandastack_wire_fleet::LayerHold;

use super::*;

async fn ledger() -> (tempfile::TempDir, Ledger) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&folder.path().join("ledger.db")).await.unwrap();
    (folder, ledger)
}

fn spec() -> SandboxSpec {
    SandboxSpec {
        owner: Some(Owner("w".into())),
        origin: SandboxOrigin::Layer(LayerId::random()),
        persistent: true,
        egress: Egress::Only(vec!["*.debian.org".parse().unwrap(), "203.0.113.0/24".parse().unwrap()]),
        bandwidth_mbps: Some(10),
        volumes: vec![VolumeMount { volume: VolumeId::random(), path: "/data".into(), access: VolumeAccess::ReadOnly }],
        ..SandboxSpec::of("mini".parse().unwrap())
    }
}

#[tokio::test]
async fn what_was_intended_is_found_again() {
    let (folder, ledger) = ledger().await;
    let (machine, sandbox, layer) = (MachineId::random(), SandboxId::random(), LayerId::random());
    ledger.intend(machine, "slot-1", Some(layer)).await.unwrap();
    ledger.started(machine, Some(42)).await.unwrap();
    ledger.assigned(machine, sandbox).await.unwrap();
    ledger.close().await;
    let ledger = Ledger::open(&folder.path().join("ledger.db")).await.unwrap();
    let expected =
        MachineRow { id: machine, slot: "slot-1".into(), layer: Some(layer), pid: Some(42), sandbox: Some(sandbox) };
    assert_eq!(ledger.machines().await.unwrap(), [expected]);
    ledger.gone(machine).await.unwrap();
    ledger.gone(machine).await.unwrap();
    assert!(ledger.machines().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_sandbox_comes_back_as_it_was() {
    let (_folder, ledger) = ledger().await;
    let (id, spec) = (SandboxId::random(), spec());
    ledger.wanted(id, 7, &spec).await.unwrap();
    ledger.wanted(id, 9, &SandboxSpec::of("base".parse().unwrap())).await.unwrap();
    let asleep =
        SandboxRecord { state: SandboxState::Asleep, layer: Some(LayerId::random()), secret: Some(vec![1, 2, 3]) };
    ledger.record_durably(id, &asleep).await.unwrap();
    let rows = ledger.sandboxes().await.unwrap();
    assert_eq!((rows.len(), rows[0].generation), (1, 7), "the first word counts");
    assert_eq!((&rows[0].spec, &rows[0].record), (&spec, &asleep));
    let failed = SandboxRecord { state: SandboxState::Failed { reason: "killed".into() }, layer: None, secret: None };
    ledger.record(id, &failed).await.unwrap();
    assert_eq!(ledger.sandboxes().await.unwrap()[0].record, failed);
    ledger.sandbox_gone(id).await.unwrap();
    assert!(ledger.sandboxes().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_layer_is_unused_only_without_machine_sleeper_and_owner() {
    let (_folder, ledger) = ledger().await;
    let (layer, machine, sandbox) = (LayerId::random(), MachineId::random(), SandboxId::random());
    ledger.sealing(layer, sandbox).await.unwrap();
    assert_eq!(ledger.unused_layers().await.unwrap(), [layer]);
    ledger.keep(layer).await.unwrap();
    assert_eq!(ledger.layer(layer).await.unwrap().unwrap().hold, LayerHold::Kept);
    assert!(ledger.unused_layers().await.unwrap().is_empty());
    ledger.intend(machine, "slot-1", Some(layer)).await.unwrap();
    ledger.unkeep(layer).await.unwrap();
    assert!(ledger.unused_layers().await.unwrap().is_empty(), "a machine runs on it");
    ledger.wanted(sandbox, 1, &spec()).await.unwrap();
    let asleep = SandboxRecord { state: SandboxState::Asleep, layer: Some(layer), secret: None };
    ledger.record(sandbox, &asleep).await.unwrap();
    ledger.gone(machine).await.unwrap();
    assert!(ledger.unused_layers().await.unwrap().is_empty(), "a sandbox sleeps in it");
    ledger.sandbox_gone(sandbox).await.unwrap();
    assert_eq!(ledger.unused_layers().await.unwrap(), [layer]);
    ledger.layer_gone(layer).await.unwrap();
    assert!(ledger.layers().await.unwrap().is_empty());
}

/// A write to a full disk gets its own error, and writes work again when there is space.
#[tokio::test]
async fn a_full_disk_is_named_and_forgotten() {
    let (_dir, ledger) = ledger().await;
    let limit = async |pages: &str| {
        let set = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::raw_sql(set).execute(&ledger.pool).await.unwrap();
    };
    // SQLite never sets the limit below the current number of pages.
    limit("1").await;
    let mut written = 0;
    let refused = loop {
        match ledger.wanted(SandboxId::random(), 1, &spec()).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1000, "the disk is never full");
    };
    let fault = Fault::from(refused);
    assert_eq!((fault.kind, fault.code), (FaultKind::Storage, "host.storage"), "{fault}");
    limit("1000000").await;
    ledger.wanted(SandboxId::random(), 1, &spec()).await.unwrap();
    assert_eq!(ledger.sandboxes().await.unwrap().len(), written + 1);
    let other = LedgerError::Corrupt { id: "x".into(), field: "spec" };
    assert_eq!(Fault::from(other).kind, FaultKind::Bug);
}

/// A template's layer has no row of its own.
#[tokio::test]
async fn a_layer_is_needed_while_a_machine_runs_on_it_whoever_sealed_it() {
    let (_folder, ledger) = ledger().await;
    let (sealed, template) = (LayerId::random(), LayerId::random());
    let (machine, blank) = (MachineId::random(), MachineId::random());
    ledger.sealing(sealed, SandboxId::random()).await.unwrap();
    ledger.intend(machine, "slot-1", Some(template)).await.unwrap();
    ledger.intend(blank, "slot-2", None).await.unwrap();
    assert_eq!(ledger.needed_layers().await.unwrap(), [sealed, template].into());
    ledger.gone(machine).await.unwrap();
    assert_eq!(ledger.needed_layers().await.unwrap(), [sealed].into());
}

#[tokio::test]
async fn a_ledger_of_the_first_version_is_taken_over_and_a_newer_one_refused() {
    let (folder, ledger) = ledger().await;
    let file = folder.path().join("ledger.db");
    sqlx::raw_sql("DROP TABLE sandboxes; DROP TABLE layers; PRAGMA user_version = 1")
        .execute(&ledger.pool)
        .await
        .unwrap();
    ledger.close().await;
    let ledger = Ledger::open(&file).await.unwrap();
    assert!(ledger.sandboxes().await.unwrap().is_empty());
    sqlx::raw_sql("PRAGMA user_version = 4").execute(&ledger.pool).await.unwrap();
    ledger.close().await;
    assert!(matches!(Ledger::open(&file).await, Err(LedgerError::Version { found: 4 })));
}
