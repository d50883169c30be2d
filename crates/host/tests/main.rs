//! Tests of the host's network, in namespaces that the tests make. One program for all files, so
//! that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

mod net_bandwidth;
mod net_dns;
mod net_egress;
mod net_egress_change;
mod net_flows;
mod net_gateway;
mod net_ipv6;
mod net_policy;
mod net_pool;
mod net_support;
mod net_tap;
