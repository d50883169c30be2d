//! TCP ports of a guest that users may reach.

use std::{fmt, str::FromStr};

/// Port of the agent inside every guest. Only the host may connect to it.
pub const AGENT_PORT: u16 = 1050;

/// A port of a guest other than the agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestPort(u16);

/// A number that is not a valid user port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPort {
    #[error("port must be 1 to 65535")]
    Range,
    #[error("port {AGENT_PORT} is reserved for the sandbox's agent")]
    Agent,
}

impl GuestPort {
    /// Returns the number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<i64> for GuestPort {
    type Error = BadPort;

    fn try_from(number: i64) -> Result<Self, BadPort> {
        match u16::try_from(number) {
            Err(_) | Ok(0) => Err(BadPort::Range),
            Ok(AGENT_PORT) => Err(BadPort::Agent),
            Ok(number) => Ok(Self(number)),
        }
    }
}

impl FromStr for GuestPort {
    type Err = BadPort;

    fn from_str(text: &str) -> Result<Self, BadPort> {
        // Only the plain form: a sign or a leading zero would be a second name for the same port.
        let plain = !text.starts_with('0') && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<i64>().ok().filter(|_| plain).ok_or(BadPort::Range)?;
        Self::try_from(number)
    }
}

impl fmt::Display for GuestPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<u16, BadPort>) {
        assert_eq!(text.parse::<GuestPort>().map(GuestPort::get), expected, "{text:?}");
    }

    #[test]
    fn only_plain_numbers_of_users_ports_pass() {
        check("1", Ok(1));
        check("3000", Ok(3000));
        check("65535", Ok(65535));
        check("1050", Err(BadPort::Agent));
        for bad in ["", "0", "65536", "99999", "03000", "+80", "-1", " 80", "8o", "٣", "100000000000000000000"] {
            check(bad, Err(BadPort::Range));
        }
        assert_eq!(GuestPort::try_from(-1), Err(BadPort::Range));
        assert_eq!(GuestPort::try_from(1 << 40), Err(BadPort::Range));
    }
}
