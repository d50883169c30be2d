//! Tests of slots from start to end: made, taken, given back, adopted after a crash, and removed
//! completely.

use std::time::{Duration, Instant};

use crate::net_support::{Guest, PATIENCE, World, outside};
use futures_util::FutureExt as _;
use pandastack_host::net::{NetError, NetLeftovers, NetPool, NetSettings, leftovers, sweep};
use pandastack_kit::Scope;
use pandastack_model::Egress;

async fn left(world: &World) -> NetLeftovers {
    leftovers(&world.instance).await.unwrap()
}

async fn until_ready(pool: &NetPool, wanted: usize) {
    let deadline = Instant::now() + PATIENCE;
    while pool.counts().ready != wanted {
        assert!(Instant::now() < deadline, "{:?}", pool.counts());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn fifty_cycles_leave_nothing() {
    World::run(|world| async move {
        // No slots made ahead, so that the making itself is measured.
        let pool = world.pool(NetSettings { ready: 0, ..world.settings() }).await;
        let (mut taking, mut returning) = (Duration::ZERO, Duration::ZERO);
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let start = Instant::now();
            let slot = pool.take().await.unwrap();
            taking += start.elapsed();
            names.insert(slot.name().to_owned());
            let start = Instant::now();
            pool.give_back(slot).await.unwrap();
            returning += start.elapsed();
        }
        eprintln!("make a slot: {:?}, remove a slot: {:?}", taking / 50, returning / 50);
        assert_eq!(names.len(), 50, "a name is not used again at once");
        let NetLeftovers { namespaces, links, tables } = left(&world).await;
        assert_eq!((namespaces.len(), links.len(), tables.len()), (0, 1, 1), "only the pool's own link and table");
        pool.close().await.unwrap();
        assert_eq!(left(&world).await, NetLeftovers::default());
    });
}

#[test]
fn slots_made_ahead_are_handed_out_at_once() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 3, ..world.settings() }).await;
        until_ready(&pool, 3).await;
        let slot = pool.take().now_or_never().expect("nothing is made while somebody waits").unwrap();
        until_ready(&pool, 3).await;
        assert_eq!(pool.counts().present, 4);
        pool.give_back(slot).await.unwrap();
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
        assert!(matches!(pool.take().await, Err(NetError::Closed)));
    });
}

#[test]
fn close_removes_taken_slots_too() {
    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let taken = [pool.take().await.unwrap(), pool.take().await.unwrap()];
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
        drop(taken);
    });
}

#[test]
fn a_dropped_call_loses_no_slot() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 0, ..world.settings() }).await;
        assert!(tokio::time::timeout(Duration::from_millis(1), pool.take()).await.is_err(), "too quick to be dropped");
        until_ready(&pool, 1).await;
        let slot = pool.take().await.unwrap();
        assert_eq!(pool.counts().present, 1);
        let _ = tokio::time::timeout(Duration::from_micros(1), pool.give_back(slot)).await;
        let deadline = Instant::now() + PATIENCE;
        while pool.counts().present > 0 {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        pool.close().await.unwrap();
    });
}

#[test]
fn a_full_pool_says_so() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 0, max: 2, ..world.settings() }).await;
        let first = pool.take().await.unwrap();
        let _second = pool.take().await.unwrap();
        assert!(matches!(pool.take().await, Err(NetError::Full { max: 2 })));
        pool.give_back(first).await.unwrap();
        pool.take().await.unwrap();
        pool.close().await.unwrap();
        let wrong = NetSettings { ready: 9, max: 2, ..world.settings() };
        assert!(matches!(NetPool::start(wrong, &world.scope).await, Err(NetError::Settings { ready: 9, max: 2 })));
    });
}

#[test]
fn many_can_take_at_once() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 0, max: 16, ..world.settings() }).await;
        let start = Instant::now();
        let taken = futures_util::future::try_join_all((0..16).map(|_| pool.take())).await.unwrap();
        eprintln!("16 slots at once: {:?}", start.elapsed());
        let names: std::collections::BTreeSet<_> = taken.iter().map(|slot| slot.name()).collect();
        assert_eq!(names.len(), 16);
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
    });
}

#[test]
fn a_crash_is_swept_and_kept_slots_are_adopted() {
    World::run(|world| async move {
        let (_outside, _) = outside(&["203.0.113.7"]);
        // A separate scope that stands for a killed process: the pool is not closed in order.
        let crashed = Scope::new();
        let pool = NetPool::start(NetSettings { ready: 2, ..world.settings() }, &crashed).await.unwrap();
        until_ready(&pool, 2).await;
        let (kept, lost) = (pool.take().await.unwrap(), pool.take().await.unwrap());
        let guest = Guest::in_slot(&kept);
        let kept_name = kept.name().to_owned();
        let address = kept.uplink_address();
        crashed.close(Duration::from_secs(5)).await;
        drop((kept, lost, pool));
        assert!(left(&world).await.namespaces.len() >= 2);

        sweep(&world.instance, std::slice::from_ref(&kept_name)).await.unwrap();
        assert_eq!(left(&world).await.namespaces, [kept_name.as_str()]);
        let pool = world.pool(world.settings()).await;
        let slot = pool.adopt(&kept_name, &Egress::Open).await.unwrap();
        assert_eq!(slot.uplink_address(), address);
        assert!(pool.adopt(&kept_name, &Egress::Open).await.is_err(), "nobody else gets it");
        assert!(pool.adopt("pds-000000-1", &Egress::Open).await.is_err());
        assert!(guest.greeting("203.0.113.7:80".parse().unwrap()).is_ok(), "its traffic goes on");
        pool.give_back(slot).await.unwrap();
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
    });
}

#[test]
fn detaching_leaves_what_is_taken() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 2, ..world.settings() }).await;
        until_ready(&pool, 2).await;
        let slot = pool.take().await.unwrap();
        pool.detach().await.unwrap();
        assert_eq!(left(&world).await.namespaces, [slot.name()]);
        drop(slot);
        sweep(&world.instance, &[]).await.unwrap();
        assert!(left(&world).await.is_empty());
    });
}

#[test]
fn instances_share_a_host() {
    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let neighbour = format!("{}-neighbour", world.instance);
        let other = world.pool(NetSettings { instance: neighbour.clone(), ..world.settings() }).await;
        let (mine, theirs) = (pool.take().await.unwrap(), other.take().await.unwrap());
        assert_ne!(mine.uplink_address(), theirs.uplink_address());
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
        let NetLeftovers { namespaces, tables, .. } = leftovers(&neighbour).await.unwrap();
        assert!(namespaces.iter().any(|name| name == theirs.name()));
        assert_eq!(tables.len(), 1);
        other.close().await.unwrap();
        assert!(leftovers(&neighbour).await.unwrap().is_empty());
    });
}

#[test]
fn a_half_made_slot_is_undone() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 0, ..world.settings() }).await;
        // A link with the name of the second slot: its namespace can be made, but its uplink
        // cannot.
        let probe = pool.take().await.unwrap();
        let next = format!("{}{}", probe.name().trim_end_matches('0'), 1);
        crate::net_support::outside::ip(&["link", "add", &next, "type", "veth", "peer", "name", "pdblock"], "")
            .unwrap();
        assert!(matches!(pool.take().await, Err(NetError::Command { .. })));
        assert_eq!(left(&world).await.namespaces, [probe.name()]);
        let slot = pool.take().await.unwrap();
        assert_ne!(slot.name(), next);
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
    });
}

/// Mounts over a namespace's name. The first removal only unmounts this, so the name stays until
/// the next removal.
fn obstruct(slot: &str) {
    let name = std::path::Path::new("/run/netns").join(slot);
    let (kind, flags): (Option<&str>, _) = (None, nix::mount::MsFlags::MS_BIND);
    nix::mount::mount(Some(&name), &name, kind, flags, kind).unwrap();
}

#[test]
fn a_slot_whose_removal_failed_keeps_its_number_until_it_is_removed() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 0, max: 1, ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let name = slot.name().to_owned();
        assert!(matches!(pool.remove_stray(&name).await, Err(NetError::Unknown { .. })), "somebody has it");
        obstruct(&name);
        pool.give_back(slot).await.unwrap_err();
        assert_eq!(left(&world).await.namespaces, [name.as_str()]);
        assert!(matches!(pool.take().await, Err(NetError::Full { max: 1 })), "a new slot must not meet what is left");
        assert!(pool.present().is_empty() && pool.stuck().contains(&name), "nobody has it");

        pool.remove_stray(&name).await.unwrap();
        assert!(pool.stuck().is_empty() && left(&world).await.namespaces.is_empty());
        let next = pool.take().await.unwrap();
        pool.give_back(next).await.unwrap();
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
    });
}

#[test]
fn an_orphan_whose_removal_failed_keeps_its_number_until_it_is_removed() {
    World::run(|world| async move {
        let crashed = Scope::new();
        let pool = NetPool::start(NetSettings { ready: 0, ..world.settings() }, &crashed).await.unwrap();
        let slot = pool.take().await.unwrap();
        let name = slot.name().to_owned();
        crashed.close(Duration::from_secs(5)).await;
        drop((slot, pool));

        let pool = world.pool(NetSettings { ready: 0, max: 1, ..world.settings() }).await;
        obstruct(&name);
        pool.discard(&name).await.unwrap_err();
        assert!(matches!(pool.take().await, Err(NetError::Full { max: 1 })));
        assert!(pool.present().is_empty() && pool.stuck().contains(&name), "nobody has it");
        pool.remove_stray(&name).await.unwrap();
        pool.take().await.unwrap();
        pool.close().await.unwrap();
        assert!(left(&world).await.is_empty());
    });
}
