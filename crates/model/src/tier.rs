//! Isolation level of a machine; reported as `isolation` on every sandbox and host.

use std::{fmt, str::FromStr};

/// Kinds of machine, weakest first, so that `>=` means "at least".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// In memory, for tests.
    Fake,
    /// Own kernel on an emulated CPU.
    Emulated,
    /// Own kernel on hardware virtualization.
    Kvm,
}

/// Text that is not a tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tier {0:?}: use kvm or emulated")]
pub struct BadTier(String);

impl Tier {
    /// Returns the name used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::Fake => "fake",
            Tier::Emulated => "emulated",
            Tier::Kvm => "kvm",
        }
    }
}

/// Warning for the tier that QEMU gives no security guarantee for.
const EMULATION_WARNING: &str = "QEMU gives no security guarantee for emulated machines: only the jail separates a \
                                 sandbox from the host. Use a host with hardware virtualization for untrusted code";

impl Tier {
    /// Returns a warning for users who run untrusted code at this tier. `None` if it is built for
    /// that.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Tier::Emulated => Some(EMULATION_WARNING),
            Tier::Kvm | Tier::Fake => None,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = BadTier;

    fn from_str(text: &str) -> Result<Self, BadTier> {
        match text {
            "fake" => Ok(Tier::Fake),
            "emulated" => Ok(Tier::Emulated),
            "kvm" => Ok(Tier::Kvm),
            _ => Err(BadTier(text.chars().take(40).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_is_the_strongest() {
        assert!(Tier::Kvm > Tier::Emulated && Tier::Emulated > Tier::Fake);
        assert_eq!("kvm".parse::<Tier>(), Ok(Tier::Kvm));
        assert!("KVM ".parse::<Tier>().is_err());
        assert!(Tier::Emulated.warning().is_some() && Tier::Kvm.warning().is_none());
    }
}
