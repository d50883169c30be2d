//! Refusals as PostgreSQL clients print them: an ErrorResponse with severity, SQLSTATE and a
//! message that names the next step.

use std::{borrow::Cow, io, time::Duration};

use crate::{
    databases::OpenRefusal,
    limits::{REFUSAL_TEXT_BYTES_MAX, STARTUP_BYTES_MAX},
    name::{DatabaseName, HostSuffix},
};

/// Why a client gets no tunnel.
#[derive(Debug, thiserror::Error)]
pub enum ClientRefusal {
    #[error("this server requires TLS; connect with sslmode=require")]
    Plain,
    #[error(
        "a direct TLS connection must offer the ALPN protocol \"postgresql\"; use libpq 17 or newer, or \
         sslnegotiation=postgres"
    )]
    NoAlpn,
    #[error(
        "no database was named; connect to the host <database id>{suffix}, or add options='database=<database id>' \
         if the client sends no TLS server name"
    )]
    NoDatabase { suffix: HostSuffix },
    #[error("\"{text}\" in options is no database id; give the UUID of the database")]
    BadDatabase { text: String },
    #[error("the host name and options name two different databases; remove database= from options")]
    TwoDatabases,
    #[error("pandastack.session in options must be on or off")]
    BadSession,
    #[error("the startup message is not valid: {0}; check that the client is a PostgreSQL client")]
    Malformed(&'static str),
    #[error("the startup message is longer than {STARTUP_BYTES_MAX} bytes; send fewer parameters")]
    TooLong,
    #[error("protocol {major}.{minor} is not supported; use a client for PostgreSQL 7.4 or newer")]
    Protocol { major: u16, minor: u16 },
    #[error("too many encryption requests; connect with sslmode=require")]
    Rounds,
    #[error("too many connections to {0}; close some, or use fewer in the client's pool")]
    TooMany(&'static str),
    #[error("too many connections are logging in to this database at the moment; try again in a few seconds")]
    LoginsBusy,
    #[error("the login took longer than {} seconds; connect again", .0.as_secs_f32())]
    LoginSlow(Duration),
    #[error("database {0} did not wake in time; try again in a few seconds")]
    Slow(DatabaseName),
    #[error("{}", open_text(*database, refusal))]
    Open { database: DatabaseName, refusal: OpenRefusal },
    #[error("the proxy is stopping; connect again")]
    Stopping,
}

/// Why a connection ends before its tunnel.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeEnd {
    /// The client is told.
    #[error(transparent)]
    Refused(#[from] ClientRefusal),
    /// The client is gone, or speaks something else.
    #[error("connection")]
    Lost(#[from] io::Error),
}

/// Why clients get no tunnel, in few words, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The client wants no TLS.
    Plain,
    /// The first packets are not those of a client that is supported.
    Protocol,
    /// No database is named, or in a wrong way.
    NoName,
    /// There is no such database.
    Unknown,
    /// A limit of connections.
    TooMany,
    /// It is not ready, or did not wake in time.
    NotReady,
    Failed,
    Denied,
    Busy,
    Unavailable,
    Stopping,
}

impl RefusalReason {
    /// In the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Plain,
        Self::Protocol,
        Self::NoName,
        Self::Unknown,
        Self::TooMany,
        Self::NotReady,
        Self::Failed,
        Self::Denied,
        Self::Busy,
        Self::Unavailable,
        Self::Stopping,
    ];

    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Protocol => "protocol",
            Self::NoName => "no_name",
            Self::Unknown => "unknown",
            Self::TooMany => "too_many",
            Self::NotReady => "not_ready",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::Stopping => "stopping",
        }
    }
}

impl ClientRefusal {
    /// The reason as the metrics count it. `None`: the client was too slow, which counts as a
    /// failed handshake, as it does before the startup message.
    pub fn reason(&self) -> Option<RefusalReason> {
        Some(match self {
            Self::Plain => RefusalReason::Plain,
            Self::NoDatabase { .. } | Self::TwoDatabases | Self::BadDatabase { .. } | Self::BadSession => {
                RefusalReason::NoName
            }
            Self::NoAlpn | Self::Malformed(_) | Self::TooLong | Self::Rounds | Self::Protocol { .. } => {
                RefusalReason::Protocol
            }
            Self::TooMany(_) | Self::LoginsBusy => RefusalReason::TooMany,
            Self::LoginSlow(_) => return None,
            Self::Slow(_) => RefusalReason::NotReady,
            Self::Stopping => RefusalReason::Stopping,
            Self::Open { refusal, .. } => match refusal {
                OpenRefusal::Unknown => RefusalReason::Unknown,
                OpenRefusal::Starting => RefusalReason::NotReady,
                OpenRefusal::Unavailable => RefusalReason::Unavailable,
                OpenRefusal::Failed(_) => RefusalReason::Failed,
                OpenRefusal::Denied(_) => RefusalReason::Denied,
                OpenRefusal::Busy(_) => RefusalReason::Busy,
            },
        })
    }

    /// The SQLSTATE that drivers look at.
    pub fn sql_state(&self) -> &'static str {
        match self {
            Self::Plain => "28000",
            Self::NoDatabase { .. } | Self::TwoDatabases => "08004",
            Self::BadDatabase { .. } => "3D000",
            Self::BadSession => "22023",
            Self::NoAlpn | Self::Malformed(_) | Self::TooLong | Self::Rounds => "08P01",
            Self::Protocol { .. } => "0A000",
            Self::TooMany(_) | Self::LoginsBusy => "53300",
            // As PostgreSQL says it.
            Self::LoginSlow(_) => "57014",
            Self::Slow(_) => "57P03",
            Self::Stopping => "57P01",
            Self::Open { refusal, .. } => match refusal {
                OpenRefusal::Unknown => "3D000",
                OpenRefusal::Starting | OpenRefusal::Unavailable => "57P03",
                OpenRefusal::Failed(_) => "58000",
                OpenRefusal::Denied(_) => "28000",
                OpenRefusal::Busy(_) => "53300",
            },
        }
    }

    /// The ErrorResponse.
    pub fn packet(&self) -> Vec<u8> {
        let text = self.to_string();
        let mut end = text.len().min(REFUSAL_TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut body = Vec::with_capacity(end + 32);
        for (field, value) in [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', self.sql_state()), (b'M', &text[..end])] {
            body.push(field);
            // A zero byte would end the field early.
            body.extend(value.bytes().filter(|byte| *byte != 0));
            body.push(0);
        }
        body.push(0);
        let length = u32::try_from(body.len() + 4).expect("the text is bounded");
        let mut packet = vec![b'E'];
        packet.extend(length.to_be_bytes());
        packet.extend(body);
        packet
    }
}

fn open_text(database: DatabaseName, refusal: &OpenRefusal) -> Cow<'_, str> {
    match refusal {
        OpenRefusal::Unknown => {
            format!("database {database} does not exist; check the host name of the connection URL").into()
        }
        OpenRefusal::Starting => format!("database {database} is starting; try again in a few seconds").into(),
        OpenRefusal::Failed(text) | OpenRefusal::Denied(text) | OpenRefusal::Busy(text) => text.as_str().into(),
        OpenRefusal::Unavailable => {
            format!("database {database} cannot be reached now; try again in a few seconds").into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_in_their_order() {
        for (at, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{reason:?}");
        }
    }

    #[test]
    fn a_packet_has_its_fields_and_its_length() {
        let packet = ClientRefusal::Plain.packet();
        assert_eq!(packet[0], b'E');
        assert_eq!(u32::from_be_bytes(packet[1..5].try_into().unwrap()) as usize, packet.len() - 1);
        let fields: Vec<&[u8]> = packet[5..].split(|byte| *byte == 0).collect();
        assert_eq!(fields[..3], [&b"SFATAL"[..], b"VFATAL", b"C28000"]);
        assert_eq!(fields[3], b"Mthis server requires TLS; connect with sslmode=require");
        assert!(packet.ends_with(&[0, 0]));
    }

    #[test]
    fn foreign_text_neither_ends_a_field_nor_grows() {
        let database = "0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44".parse().unwrap();
        let refusal = OpenRefusal::Failed(format!("a\0b{}", "ä".repeat(5000)));
        let packet = ClientRefusal::Open { database, refusal }.packet();
        assert!(packet.len() < REFUSAL_TEXT_BYTES_MAX + 64);
        let (message, end) = packet.split_at(packet.len() - 2);
        assert_eq!(end, [0, 0]);
        assert!(message.windows(3).any(|part| part == b"Mab"));
    }
}
