//! Safe Linux wrappers. Knows no sandbox. The only room that may use `unsafe`, except a VMM of our
//! own.

pub mod cgroup;
pub mod descriptors;
pub mod entropy;
pub mod extents;
pub mod filter;
pub mod init;
mod inject;
pub mod interface;
pub mod jail;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub mod lookups;
pub mod mounts;
pub mod netns;
pub mod nflog;
pub mod oom;
pub mod pagemap;
pub mod pidfd;
pub mod private;
pub mod process;
pub mod pty;

#[cfg(feature = "kvm")]
pub mod kvm;
#[cfg(feature = "probe")]
pub mod raw;
pub mod reflink;
pub mod socket;
pub mod tap;
pub mod tcp_repair;
pub mod trim;
pub mod usage;
pub mod written;
