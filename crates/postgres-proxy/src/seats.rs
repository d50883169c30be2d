//! Counts connections and tunnels: in all, by client address and by database. A connection beyond
//! the limit of tunnels is kept just long enough to be told so. Logins in progress have a smaller
//! limit: they need no password.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    figures::ProxyFigures,
    limits::{
        LOGINS_PER_ADDRESS_MAX, LOGINS_PER_DATABASE_MAX, SPARE_CONNECTIONS, SPARE_CONNECTIONS_PER_ADDRESS, TUNNELS_MAX,
        TUNNELS_PER_ADDRESS_MAX, TUNNELS_PER_DATABASE_MAX,
    },
    name::DatabaseName,
    refusal::ClientRefusal,
};

/// How many tunnels there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelLimits {
    pub total: usize,
    pub per_database: usize,
    pub per_address: usize,
    /// Logins in progress at one database.
    pub logins_per_database: usize,
    /// Those of one client address.
    pub logins_per_address: usize,
}

impl Default for TunnelLimits {
    fn default() -> Self {
        Self {
            total: TUNNELS_MAX,
            per_database: TUNNELS_PER_DATABASE_MAX,
            per_address: TUNNELS_PER_ADDRESS_MAX,
            logins_per_database: LOGINS_PER_DATABASE_MAX,
            logins_per_address: LOGINS_PER_ADDRESS_MAX,
        }
    }
}

/// All seats.
pub struct Seats {
    limits: TunnelLimits,
    taken: Mutex<TakenSeats>,
    figures: Arc<ProxyFigures>,
}

#[derive(Default)]
struct TakenSeats {
    connections: usize,
    tunnels: usize,
    connections_by_address: HashMap<IpAddr, usize>,
    tunnels_by_address: HashMap<IpAddr, usize>,
    tunnels_by_database: HashMap<DatabaseName, usize>,
    logins_by_database: HashMap<DatabaseName, usize>,
    logins_by_address: HashMap<(IpAddr, DatabaseName), usize>,
}

/// The seat of a connection, until it is dropped.
pub struct ConnectionSeat {
    seats: Arc<Seats>,
    address: IpAddr,
}

/// The seat of a tunnel, until it is dropped.
pub struct TunnelSeat {
    seats: Arc<Seats>,
    address: IpAddr,
    database: DatabaseName,
}

/// The seat of a login in progress, until it is dropped.
pub struct LoginSeat {
    seats: Arc<Seats>,
    address: IpAddr,
    database: DatabaseName,
}

impl Seats {
    pub fn new(limits: TunnelLimits, figures: Arc<ProxyFigures>) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default(), figures })
    }

    /// Takes a seat for a connection, or refuses to talk with it at all.
    pub fn connection(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSeat> {
        let address = network(peer);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = taken.connections_by_address.get(&address).copied().unwrap_or_default();
        if taken.connections >= self.limits.total.saturating_add(SPARE_CONNECTIONS)
            || of_address >= self.limits.per_address.saturating_add(SPARE_CONNECTIONS_PER_ADDRESS)
        {
            return None;
        }
        taken.connections += 1;
        *taken.connections_by_address.entry(address).or_default() += 1;
        Some(ConnectionSeat { seats: self.clone(), address })
    }

    fn tunnel(self: &Arc<Self>, address: IpAddr, database: DatabaseName) -> Result<TunnelSeat, ClientRefusal> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.tunnels >= self.limits.total {
            return Err(ClientRefusal::TooMany("this server"));
        }
        if taken.tunnels_by_address.get(&address).is_some_and(|count| *count >= self.limits.per_address) {
            return Err(ClientRefusal::TooMany("this server from your address"));
        }
        if taken.tunnels_by_database.get(&database).is_some_and(|count| *count >= self.limits.per_database) {
            return Err(ClientRefusal::TooMany("this database"));
        }
        taken.tunnels += 1;
        *taken.tunnels_by_address.entry(address).or_default() += 1;
        *taken.tunnels_by_database.entry(database).or_default() += 1;
        self.figures.tunnel_opened();
        Ok(TunnelSeat { seats: self.clone(), address, database })
    }

    fn login(self: &Arc<Self>, address: IpAddr, database: DatabaseName) -> Option<LoginSeat> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_database = taken.logins_by_database.get(&database).copied().unwrap_or_default();
        let of_address = taken.logins_by_address.get(&(address, database)).copied().unwrap_or_default();
        if of_database >= self.limits.logins_per_database || of_address >= self.limits.logins_per_address {
            return None;
        }
        *taken.logins_by_database.entry(database).or_default() += 1;
        *taken.logins_by_address.entry((address, database)).or_default() += 1;
        Some(LoginSeat { seats: self.clone(), address, database })
    }
}

impl ConnectionSeat {
    /// Takes a seat for this connection's tunnel.
    pub fn tunnel(&self, database: DatabaseName) -> Result<TunnelSeat, ClientRefusal> {
        self.seats.tunnel(self.address, database)
    }

    /// Takes a seat for this connection's login, if one is free.
    pub fn login(&self, database: DatabaseName) -> Option<LoginSeat> {
        self.seats.login(self.address, database)
    }
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.connections -= 1;
        give_back(&mut taken.connections_by_address, &self.address);
    }
}

impl Drop for TunnelSeat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.tunnels -= 1;
        give_back(&mut taken.tunnels_by_address, &self.address);
        give_back(&mut taken.tunnels_by_database, &self.database);
        self.seats.figures.tunnel_ended();
    }
}

impl Drop for LoginSeat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        give_back(&mut taken.logins_by_database, &self.database);
        give_back(&mut taken.logins_by_address, &(self.address, self.database));
    }
}

fn give_back<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The address that counts: one client usually has a whole /64 of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44";
    const B: &str = "1b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44";

    fn few(total: usize, per_database: usize, per_address: usize) -> TunnelLimits {
        TunnelLimits { total, per_database, per_address, ..TunnelLimits::default() }
    }

    #[test]
    fn logins_of_one_address_leave_seats_to_others() {
        let limits = TunnelLimits { logins_per_database: 3, logins_per_address: 2, ..TunnelLimits::default() };
        let seats = Seats::new(limits, Arc::default());
        let (a, b) = (A.parse().unwrap(), B.parse().unwrap());
        let [stranger, owner, third] =
            ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|peer| seats.connection(peer.parse().unwrap()).unwrap());
        let half_open = [stranger.login(a).unwrap(), stranger.login(a).unwrap()];
        assert!(stranger.login(a).is_none(), "the address has its share");
        let other_database = stranger.login(b).unwrap();
        let login = owner.login(a).unwrap();
        assert!(third.login(a).is_none(), "the database has its share");
        drop(login);
        let login = third.login(a).unwrap();
        drop((half_open, other_database, login));
        let taken = seats.taken.lock().unwrap();
        assert!(taken.logins_by_database.is_empty() && taken.logins_by_address.is_empty());
    }

    #[test]
    fn each_limit_refuses_and_a_dropped_seat_is_free_again() {
        let figures = Arc::new(ProxyFigures::default());
        let seats = Seats::new(few(3, 2, 2), figures.clone());
        let (a, b) = (A.parse().unwrap(), B.parse().unwrap());
        let [one, two, three] =
            ["10.0.0.1", "::ffff:10.0.0.2", "fd00::1"].map(|peer| seats.connection(peer.parse().unwrap()).unwrap());
        let first = one.tunnel(a).unwrap();
        let second = two.tunnel(a).unwrap();
        let text = |refused: Result<TunnelSeat, ClientRefusal>| refused.err().unwrap().to_string();
        assert!(text(three.tunnel(a)).contains("this database"));
        let third = one.tunnel(b).unwrap();
        assert!(text(three.tunnel(b)).contains("this server;"));
        drop(second);
        assert!(text(one.tunnel(b)).contains("your address"));
        drop((first, third, one, two, three));
        assert_eq!(figures.counts().active_connections, 0);
        let taken = seats.taken.lock().unwrap();
        assert!(taken.connections == 0 && taken.connections_by_address.is_empty());
        assert!(taken.tunnels_by_address.is_empty() && taken.tunnels_by_database.is_empty());
    }

    #[test]
    fn one_network_leaves_connections_to_others() {
        let seats = Seats::new(few(10, 1, 1), Arc::default());
        let held: Vec<_> =
            (0..100_u16).map_while(|at| seats.connection(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, at]))).collect();
        assert_eq!(held.len(), 1 + SPARE_CONNECTIONS_PER_ADDRESS);
        assert!(seats.connection("fd00:0:0:1::1".parse().unwrap()).is_some());
    }
}
