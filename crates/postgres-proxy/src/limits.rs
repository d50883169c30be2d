//! Bounds of the proxy: connections, the bytes and the time that a client gets before its tunnel.

use std::time::Duration;

/// Tunnels in all, to one database, and from one client address.
pub const TUNNELS_MAX: usize = 4096;
pub const TUNNELS_PER_DATABASE_MAX: usize = 500;
pub const TUNNELS_PER_ADDRESS_MAX: usize = 1000;
/// Logins in progress: at one database, and from one client address to it. Whoever knows a host
/// name can begin a login, so those that do not end must leave most tunnels to others.
pub const LOGINS_PER_DATABASE_MAX: usize = 100;
pub const LOGINS_PER_ADDRESS_MAX: usize = 30;
/// Connections beyond those limits, in all and from one address. They exist to be refused with a
/// reason, and to carry cancel requests.
pub const SPARE_CONNECTIONS: usize = 256;
pub const SPARE_CONNECTIONS_PER_ADDRESS: usize = 32;
const _: () = assert!(SPARE_CONNECTIONS_PER_ADDRESS < SPARE_CONNECTIONS, "one address must leave spare ones");
const _: () = assert!(TUNNELS_PER_DATABASE_MAX <= TUNNELS_MAX, "one database must fit");
const _: () = assert!(LOGINS_PER_DATABASE_MAX < TUNNELS_PER_DATABASE_MAX, "logins must leave tunnels");
const _: () = assert!(LOGINS_PER_ADDRESS_MAX < LOGINS_PER_DATABASE_MAX, "one address must leave logins");

/// How long a client may take from its first byte to its startup message, TLS included.
pub const CLIENT_HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long a client waits for its turn to log in, and how often it asks: a burst is served in
/// turns.
pub const LOGIN_WAIT_MAX: Duration = Duration::from_secs(20);
pub const LOGIN_RETRY: Duration = Duration::from_millis(100);
/// How long a login may take once the database has the startup message, as in PostgreSQL.
pub const LOGIN_MAX: Duration = Duration::from_secs(60);
/// How long a client is held while its database wakes.
pub const BACKEND_OPEN_MAX: Duration = Duration::from_secs(120);
/// How long a cancel request may take, from its arrival until the database closes.
pub const CANCEL_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to read a refusal, or to close after the database did.
pub const CLIENT_LINGER_MAX: Duration = Duration::from_secs(2);
/// How long a stop waits until the clients were told.
pub const TUNNEL_STOP_MAX: Duration = Duration::from_secs(1);

/// Longest startup message, as in PostgreSQL.
pub const STARTUP_BYTES_MAX: usize = 10_000;
/// How many encryption requests a client may send before it goes on.
pub const ENCRYPTION_ROUNDS_MAX: usize = 4;
/// Shortest and longest secret of a cancel key: protocol 3.0 has 4 bytes, 3.2 up to 256.
pub const CANCEL_SECRET_BYTES_MIN: usize = 4;
pub const CANCEL_SECRET_BYTES_MAX: usize = 256;
/// Longest text of a refusal.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 1000;
/// Bytes that are read from a client whose connection was refused.
pub const LINGER_BYTES_MAX: usize = 64 * 1024;

/// Bytes that a client may send before its database is open.
pub const EARLY_BYTES_MAX: usize = 4096;

/// Buffer of each direction while little passes, and while much does.
pub const QUIET_BUFFER_BYTES: usize = 8 * 1024;
pub const FULL_BUFFER_BYTES: usize = 128 * 1024;
const _: () = assert!(QUIET_BUFFER_BYTES > CANCEL_SECRET_BYTES_MAX + 9, "a whole cancel key must fit the buffer");

/// When the kernel asks a silent peer whether it still exists, how often, and how many times.
pub const KEEPALIVE_IDLE_SECONDS: u32 = 60;
pub const KEEPALIVE_INTERVAL_SECONDS: u32 = 15;
pub const KEEPALIVE_PROBES: u32 = 4;
