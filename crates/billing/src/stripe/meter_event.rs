//! One meter event, and the identifier that lets Stripe recognise it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::settings::is_token;
use crate::{
    calendar::UtcHour,
    limits::{METER_EVENT_NAME_BYTES_MAX, METER_IDENTIFIER_BYTES_MAX, STRIPE_ID_BYTES_MAX},
};

/// A meter event as it is posted. Every retry posts the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterEvent {
    pub event_name: String,
    /// Stripe's id of the customer.
    pub customer: String,
    /// Whole micro-dollars. Stripe takes no fractions. An event of zero need not be posted.
    pub value: u64,
    pub identifier: String,
    /// Unix time that the usage belongs to.
    pub timestamp_s: u64,
}

/// Why an event cannot be posted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterEventError {
    #[error("the meter's event name must have 1 to {METER_EVENT_NAME_BYTES_MAX} characters")]
    EventName,
    #[error("the customer must be an id of Stripe with at most {STRIPE_ID_BYTES_MAX} characters")]
    Customer,
}

impl MeterEvent {
    /// Makes the event of an org for an hour. Its time is the last second of the hour, so that it
    /// belongs to the same month as the usage.
    pub fn new(
        org: &str,
        event_name: &str,
        customer: &str,
        hour: UtcHour,
        value: u64,
    ) -> Result<Self, MeterEventError> {
        if event_name.is_empty() || event_name.len() > METER_EVENT_NAME_BYTES_MAX {
            return Err(MeterEventError::EventName);
        }
        if !is_token(customer) {
            return Err(MeterEventError::Customer);
        }
        Ok(Self {
            event_name: event_name.to_owned(),
            customer: customer.to_owned(),
            value,
            identifier: meter_identifier(org, event_name, hour),
            timestamp_s: hour.last_s(),
        })
    }
}

/// Returns the identifier of an org's meter in an hour: always the same for the same three, and
/// never the same for others. At most 100 characters, whatever the names are.
pub fn meter_identifier(org: &str, event_name: &str, hour: UtcHour) -> String {
    let mut hash = Sha256::new();
    for part in [org, event_name] {
        // The length keeps ("a", "bc") apart from ("ab", "c").
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(hour.start_s().to_be_bytes());
    let mut identifier = format!("pandastack-{}-", hour.start_s());
    for byte in &hash.finalize()[..20] {
        let _ = write!(identifier, "{byte:02x}");
    }
    debug_assert!(identifier.len() <= METER_IDENTIFIER_BYTES_MAX);
    identifier
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn hour(start_s: u64) -> UtcHour {
        UtcHour::starting_at(start_s).unwrap()
    }

    #[test]
    fn an_identifier_is_stable_unique_and_short() {
        // printf '\0\0\0\0\0\0\0\x05org-1\0\0\0\0\0\0\0\x05usage\0\0\0\0\x69\xa3\x81\x80' | sha256sum
        assert_eq!(meter_identifier("org-1", "usage", hour(1_772_323_200)), IDENTIFIER_OF_ORG_1);
        let long = "x".repeat(10_000);
        let mut seen = HashSet::new();
        for org in ["a", "ab", "", &long] {
            for meter in ["bc", "c", "abc", &long] {
                for start_s in [0, 3600, u64::MAX / 1_000_000_000 / 3600 * 3600] {
                    let identifier = meter_identifier(org, meter, hour(start_s));
                    assert!(identifier.len() <= METER_IDENTIFIER_BYTES_MAX && is_token(&identifier), "{identifier}");
                    assert!(seen.insert(identifier));
                }
            }
        }
    }

    const IDENTIFIER_OF_ORG_1: &str = "pandastack-1772323200-738bb7c921e655afcdeb7317e8847ae881bd1066";

    #[test]
    fn an_event_that_stripe_cannot_take_is_refused_here() {
        let event = |name: &str, customer: &str| MeterEvent::new("org", name, customer, hour(0), 1);
        assert_eq!(event("", "cus_1"), Err(MeterEventError::EventName));
        assert_eq!(event(&"x".repeat(101), "cus_1"), Err(MeterEventError::EventName));
        for bad in ["", "cus 1", "cus_1&payload[value]=9", &"c".repeat(256)] {
            assert_eq!(event("usage", bad), Err(MeterEventError::Customer), "{bad}");
        }
        assert_eq!(event("usage", "cus_1").unwrap().timestamp_s, 3599);
    }
}
