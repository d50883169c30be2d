//! One limit of a plan: a number, or none.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// The word for no limit in files and JSON.
const UNLIMITED: &str = "unlimited";

/// How much of something a workspace may have. No limit is larger than every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaLimit {
    AtMost(u64),
    Unlimited,
}

impl QuotaLimit {
    /// Tells whether a total is within the limit.
    pub const fn allows(self, total: u64) -> bool {
        match self {
            Self::AtMost(most) => total <= most,
            Self::Unlimited => true,
        }
    }

    /// Returns the number. `None` without a limit.
    pub const fn number(self) -> Option<u64> {
        match self {
            Self::AtMost(most) => Some(most),
            Self::Unlimited => None,
        }
    }
}

impl fmt::Display for QuotaLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "{most}"),
            Self::Unlimited => f.write_str(UNLIMITED),
        }
    }
}

impl Serialize for QuotaLimit {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtMost(most) => out.serialize_u64(*most),
            Self::Unlimited => out.serialize_str(UNLIMITED),
        }
    }
}

impl<'de> Deserialize<'de> for QuotaLimit {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct LimitVisitor;

        impl Visitor<'_> for LimitVisitor {
            type Value = QuotaLimit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number or {UNLIMITED:?}")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<QuotaLimit, E> {
                Ok(QuotaLimit::AtMost(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<QuotaLimit, E> {
                let negative = || E::custom(format_args!("{value} is negative; write 0 or more, or {UNLIMITED:?}"));
                u64::try_from(value).map(QuotaLimit::AtMost).map_err(|_| negative())
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<QuotaLimit, E> {
                if value == UNLIMITED {
                    return Ok(QuotaLimit::Unlimited);
                }
                let shown: String = value.chars().take(40).collect();
                Err(E::custom(format_args!(
                    "{shown:?} is not a limit; write a number without quotes, or {UNLIMITED:?}"
                )))
            }
        }

        input.deserialize_any(LimitVisitor)
    }
}
