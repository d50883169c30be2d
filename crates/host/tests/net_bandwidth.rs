//! Tests of a slot's bandwidth limit, in comparison with a slot without one.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::net_support::{Guest, PATIENCE, World, outside::OutsideNetwork};
use pandastack_host::net::NetSlot;

const PORT: u16 = 9000;
/// How long both slots transfer data at the same time. Long compared with the limit's bucket.
const WINDOW: Duration = Duration::from_millis(1500);
const LIMIT_MBPS: u32 = 4;
/// Smallest ratio of the bytes without and with the limit. It is in the hundreds on an idle host.
const RATIO: u64 = 8;

#[derive(Clone, Copy, Debug)]
enum Direction {
    Down,
    Up,
}

/// Transfers data for all guests at once, each over its own connection. Returns the bytes received
/// for each.
fn talk(guests: &[Arc<Guest>], listener: &TcpListener, server: SocketAddr, direction: Direction) -> Vec<u64> {
    let calls: Vec<_> = guests
        .iter()
        .map(|guest| {
            let guest = guest.netns.connect(server, PATIENCE).unwrap();
            guest.set_nonblocking(false).unwrap();
            (guest, listener.accept().unwrap().0)
        })
        .collect();
    thread::scope(|scope| {
        let counts: Vec<_> = calls
            .into_iter()
            .map(|(guest, server)| {
                let (from, to) = match direction {
                    Direction::Down => (server, guest),
                    Direction::Up => (guest, server),
                };
                scope.spawn(move || pour(from));
                scope.spawn(move || drain(to))
            })
            .collect();
        counts.into_iter().map(|count| count.join().unwrap()).collect()
    })
}

/// Writes until the other side closes the connection.
fn pour(mut stream: TcpStream) {
    let bytes = vec![7; 64 * 1024];
    while stream.write_all(&bytes).is_ok() {}
}

/// Counts the bytes that arrive within the window, then closes the stream. A shutdown alone would
/// leave a writer waiting on a full TCP window.
fn drain(mut stream: TcpStream) -> u64 {
    let end = Instant::now() + WINDOW;
    let mut buffer = vec![0; 64 * 1024];
    let mut count = 0;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        stream.set_read_timeout(Some(left)).unwrap();
        count += stream.read(&mut buffer).unwrap_or(0) as u64;
    }
    count
}

#[test]
fn a_limit_slows_both_directions_and_can_be_lifted() {
    World::run(|world| async move {
        let outside = OutsideNetwork::new(&[]).unwrap();
        let listener = Arc::new(outside.netns().listen_tcp(SocketAddr::from(([0, 0, 0, 0], PORT))).unwrap());
        listener.set_nonblocking(false).unwrap();
        let server = SocketAddr::from((outside.far_address(), PORT));
        let pool = world.pool(world.settings()).await;
        let slots = [pool.take().await.unwrap(), pool.take().await.unwrap()];
        let guests: Arc<[_]> = slots.iter().map(|slot: &NetSlot| Arc::new(Guest::in_slot(slot))).collect();
        let talk = async |direction| {
            let (guests, listener) = (guests.clone(), listener.clone());
            let counts = world.block(move || talk(&guests, &listener, server, direction)).await;
            eprintln!("{direction:?}: limited {}, free {} bytes in {WINDOW:?}", counts[0], counts[1]);
            (counts[0].max(1), counts[1].max(1))
        };
        let start = Instant::now();
        slots[0].set_bandwidth(Some(LIMIT_MBPS)).await.unwrap();
        eprintln!("set a limit: {:?}", start.elapsed());
        for direction in [Direction::Down, Direction::Up] {
            let (limited, free) = talk(direction).await;
            assert!(free > limited * RATIO, "{direction:?}: {limited} against {free}");
            assert!(limited > 1, "{direction:?}: a limit is not a wall");
        }
        // Another limit, the same limit twice, and no limit.
        slots[0].set_bandwidth(Some(LIMIT_MBPS * 2)).await.unwrap();
        slots[0].set_bandwidth(Some(LIMIT_MBPS * 2)).await.unwrap();
        slots[0].set_bandwidth(None).await.unwrap();
        for direction in [Direction::Down, Direction::Up] {
            let (lifted, free) = talk(direction).await;
            assert!(lifted * RATIO > free, "{direction:?}: {lifted} against {free}");
        }
        pool.close().await.unwrap();
    });
}
