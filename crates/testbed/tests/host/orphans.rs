//! What a host has and control's database never knew, with the real host and its ledger.

use std::sync::Arc;

use pandastack_control::{Control, ControlPlace, DatabaseAddress, OrphanCounts, Orphans};
use pandastack_kit::{Scope, SystemClock};
use pandastack_model::{ByteSize, SandboxId, SandboxState, VolumeAccess, VolumeId, VolumeMount};
use pandastack_testbed::{FakeBed, spec, wait_for, with_fake_bed};
use pandastack_wire_fleet::{EnsureParams, HostPort};

use crate::SOON;

/// A sandbox that would end at once when idle, with its volume.
#[tokio::test]
async fn an_unknown_sandbox_sleeps_with_its_memory_and_goes_to_a_workspace() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (volume, id) = (VolumeId::random(), SandboxId::random());
        bed.host.make_volume(volume, ByteSize::mib(16)).await.unwrap();
        let mount = VolumeMount { volume, path: "/data".to_owned(), access: VolumeAccess::ReadWrite };
        let mut wanted = spec("mini");
        (wanted.ttl_seconds, wanted.persistent, wanted.volumes) = (3600, false, vec![mount]);
        wanted.metadata.insert("name".to_owned(), "later".to_owned());
        bed.host.ensure(EnsureParams { id, generation: 1, spec: wanted }).await.unwrap();
        bed.put(id, "/file", "precious").await.unwrap();

        let (folder, scope) = (tempfile::tempdir().unwrap(), Scope::new());
        let place = ControlPlace::in_folder(folder.path());
        let host: Arc<dyn HostPort> = bed.host.clone();
        let control = Control::open(&place, host, scope.clone(), Arc::new(SystemClock)).await.unwrap();
        control.bootstrap(Some("pds_00000000000000000000000000000001".to_owned())).await.unwrap();
        let sleeps = async || (bed.state(id).await == Some(SandboxState::Asleep)).then_some(());
        wait_for("it sleeps", SOON, sleeps).await;
        let recorded = bed.host.recorded().await.unwrap();
        let kept = &recorded[0].ask.spec;
        assert_eq!((kept.ttl_seconds, kept.persistent), (0, true), "nothing ends it by itself");
        assert!(recorded[0].since_ns.is_some());

        let orphans = open(&place.database).await;
        let list = orphans.list().await.unwrap();
        let seen: Vec<_> = list.iter().map(|one| (one.kind, one.id.clone(), one.host_state.as_str())).collect();
        assert_eq!(seen, [("sandbox", id.to_string(), "running"), ("volume", volume.to_string(), "used")]);
        assert!(list[1].since_ns.is_some_and(|since| since > 0), "the disk knows when it was made");
        orphans.adopt(&id.to_string(), "default", None).await.unwrap();
        control.look_after_orphans().await.unwrap();
        assert!(orphans.list().await.unwrap().is_empty());
        orphans.close().await;

        let kept = bed.host.recorded().await.unwrap()[0].ask.spec.clone();
        assert_eq!((kept.ttl_seconds, kept.persistent), (3600, false), "it has its idle limit again");
        assert_eq!(bed.text(id, "/file").await.unwrap(), "precious");
        scope.close(SOON).await;
        control.close().await;
        // The next start of control knows it.
        let scope = Scope::new();
        let host: Arc<dyn HostPort> = bed.host.clone();
        let control = Control::open(&place, host, scope.clone(), Arc::new(SystemClock)).await.unwrap();
        assert_eq!(control.count_orphans().await.unwrap(), OrphanCounts::default());
        assert_eq!(bed.state(id).await, Some(SandboxState::Running));
        scope.close(SOON).await;
        control.close().await;
        bed.host.remove(id).await.unwrap();
        bed.host.remove_volume(volume).await.unwrap();
    })
    .await;
}

async fn open(database: &DatabaseAddress) -> Orphans {
    Orphans::open(database, 1).await.unwrap()
}
