//! Ids as types, so that the compiler rejects swapped arguments. A sandbox id is a bare lowercase
//! UUIDv4, as published clients and preview host names need; every other id has a prefix of its
//! kind.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// Text that is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind} id")]
pub struct BadId {
    kind: &'static str,
    text: String,
}

impl BadId {
    /// Keeps the beginning of the text.
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.chars().take(80).collect() }
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// Makes a fresh random id.
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }

            /// Returns the bare UUID without the prefix.
            pub fn uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0.as_hyphenated())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                let bad = || BadId::new($kind, text);
                let bare = text.strip_prefix($prefix).ok_or_else(bad)?;
                // Only the canonical lowercase form: other spellings would be a second name for the
                // same thing.
                let uuid = Uuid::try_parse(bare).map_err(|_| bad())?;
                if uuid.as_hyphenated().to_string() != bare { return Err(bad()); }
                Ok(Self(uuid))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(input)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// Id of a sandbox, the unit that users create.
    SandboxId, "sandbox", ""
);
id!(
    /// An immutable, sealed piece of memory and disk.
    LayerId, "layer", "lyr_"
);
id!(
    /// One running VM process.
    MachineId, "machine", "mch_"
);
id!(
    /// A durable disk that outlives the sandboxes that use it.
    VolumeId, "volume", "vol_"
);
id!(
    /// One attempt to make a template.
    BuildId, "build", "bld_"
);
id!(
    /// A server that runs machines.
    HostId, "host", "hst_"
);
id!(
    /// An address that receives events.
    WebhookId, "webhook", "whk_"
);
id!(
    /// One event, the same for every receiver.
    EventId, "event", "evt_"
);
id!(
    /// The delivery of one event to one webhook.
    DeliveryId, "delivery", "dlv_"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_printing_and_parsing() {
        let sandbox = SandboxId::random();
        assert_eq!(sandbox.to_string().parse::<SandboxId>().unwrap(), sandbox);
        assert_eq!(sandbox.to_string().len(), 36);
        let layer = LayerId::random();
        assert!(layer.to_string().starts_with("lyr_"));
        assert_eq!(layer.to_string().parse::<LayerId>().unwrap(), layer);
    }

    #[test]
    fn other_spellings_and_other_kinds_are_refused() {
        for text in
            ["", "x", "../etc", "lyr_", "550E8400-E29B-41D4-A716-446655440000", "550e8400e29b41d4a716446655440000"]
        {
            assert!(text.parse::<SandboxId>().is_err(), "{text}");
        }
        assert!(SandboxId::random().to_string().parse::<LayerId>().is_err());
    }
}
