//! The rebirth message that follows every restore: which parts of a guest's identity are renewed.
//! `docs/fork-correctness.md` is the contract.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pandastack_kit::{Clock, SystemClock, random_bytes, random_hex};
use pandastack_model::SandboxId;
use pandastack_wire_guest::{EnvVariable, Identity, Rebirth};

use crate::guest::{GuestSession, LinkError};

/// Maximum attempts on a host so busy that no exchange is quick.
const CLOCK_TRIES_MAX: usize = 3;

/// The identity of a restored guest.
pub enum GuestIdentity<'a> {
    /// A new sandbox: everything that must differ between siblings is renewed.
    New { id: SandboxId, env: &'a BTreeMap<String, String> },
    /// No sandbox yet: everything is replaced again when the machine is assigned to one.
    Nobody,
    /// The identity from before it slept: only clock, entropy and secret are new.
    Same,
}

impl GuestIdentity<'_> {
    /// Makes the message, with the current time.
    pub fn rebirth(&self, secret: &[u8]) -> Rebirth {
        Rebirth {
            wall_clock_ns: SystemClock.now_ns(),
            entropy: random_bytes::<64>().to_vec(),
            secret: secret.to_vec(),
            identity: self.identity(),
        }
    }

    fn identity(&self) -> Option<Identity> {
        let (hostname, env) = match self {
            GuestIdentity::Same => return None,
            GuestIdentity::Nobody => ("sandbox-standby0".to_owned(), Vec::new()),
            GuestIdentity::New { id, env } => {
                let variable =
                    |(name, value): (&String, &String)| EnvVariable { name: name.clone(), value: value.clone() };
                let mut env: Vec<EnvVariable> = env.iter().map(variable).collect();
                env.push(EnvVariable { name: "PANDASTACK_SANDBOX_ID".to_owned(), value: id.to_string() });
                (format!("sandbox-{}", &id.to_string()[..8]), env)
            }
        };
        Some(Identity { hostname, machine_id: random_hex::<16>(), env, network: None })
    }
}

/// Sets a guest's clock, and repeats it until an exchange takes no longer than this. The guest also
/// gets fresh entropy and keeps everything else. Work on the session continues.
pub async fn set_clock(session: &GuestSession, secret: &[u8], exchange_max: Duration) -> Result<(), LinkError> {
    for _ in 0..CLOCK_TRIES_MAX {
        let told = Instant::now();
        session.rebirth(&GuestIdentity::Same.rebirth(secret)).await?;
        if told.elapsed() <= exchange_max {
            break;
        }
    }
    Ok(())
}

/// Decodes the hexadecimal secret of a manifest.
pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).filter_map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_life_has_a_name_of_its_own_and_a_wake_keeps_the_old_one() {
        let (one, two) = (SandboxId::random(), SandboxId::random());
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let first = GuestIdentity::New { id: one, env: &env }.rebirth(b"s");
        let second = GuestIdentity::New { id: two, env: &env }.rebirth(b"s");
        let (first_identity, second_identity) = (first.identity.unwrap(), second.identity.unwrap());
        assert_ne!(first_identity.hostname, second_identity.hostname);
        assert_ne!(first_identity.machine_id, second_identity.machine_id);
        assert_ne!(first.entropy, second.entropy);
        assert_eq!(first_identity.env.len(), 2);
        assert_eq!(GuestIdentity::Same.rebirth(b"s").identity, None);
    }

    #[test]
    fn secrets_come_back_from_hex() {
        assert_eq!(unhex("00ff10"), [0, 255, 16]);
        assert_eq!(unhex(""), [0_u8; 0]);
    }
}
