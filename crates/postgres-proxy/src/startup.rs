//! The first packets of a connection, which have a length but no type: encryption requests, cancel
//! requests and the startup message. Reads no byte beyond the packet: what follows may be TLS.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::{
    cancel::CancelKey,
    databases::BackendPort,
    limits::{CANCEL_SECRET_BYTES_MAX, CANCEL_SECRET_BYTES_MIN, STARTUP_BYTES_MAX},
    name::DatabaseName,
    options::ProxyOptions,
    refusal::{ClientRefusal, HandshakeEnd},
};

const CANCEL_CODE: u32 = 80_877_102;
const TLS_CODE: u32 = 80_877_103;
const GSS_CODE: u32 = 80_877_104;
const MAJOR: u16 = 3;
/// Settings that the pooler accepts at a login and drops (`ignore_startup_parameters` of its file).
/// `options` is looked into, and nobody misses `extra_float_digits`.
const DROPPED_BY_POOLER: [&[u8]; 4] =
    [b"search_path", b"statement_timeout", b"lock_timeout", b"idle_in_transaction_session_timeout"];
/// Length and code.
const HEAD_BYTES: usize = 8;

/// The first packet of a connection, or of the TLS session in it.
#[derive(Debug)]
pub enum FirstPacket {
    TlsRequest,
    GssRequest,
    Cancel(CancelKey),
    Startup(StartupMessage),
}

/// A startup message. Its `Debug` does not show the parameters: they belong to the client.
pub struct StartupMessage {
    version: u32,
    parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for StartupMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartupMessage").field("parameters", &self.parameters.len()).finish_non_exhaustive()
    }
}

/// What the startup message says to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientWish {
    pub port: BackendPort,
    pub database: Option<DatabaseName>,
}

impl FirstPacket {
    /// Reads one packet.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, HandshakeEnd> {
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head).await?;
        let [a, b, c, d, code @ ..] = head;
        let (length, code) = (u32::from_be_bytes([a, b, c, d]) as usize, u32::from_be_bytes(code));
        let Some(rest) = length.checked_sub(HEAD_BYTES) else {
            return Err(ClientRefusal::Malformed("its length is too small").into());
        };
        if length > STARTUP_BYTES_MAX {
            // Something that is no PostgreSQL client gets no answer that it cannot read.
            return Err(match (code >> 16) == u32::from(MAJOR) {
                true => ClientRefusal::TooLong.into(),
                false => io::Error::from(io::ErrorKind::InvalidData).into(),
            });
        }
        let mut body = vec![0; rest];
        from.read_exact(&mut body).await?;
        Self::parse(code, &body)
    }

    fn parse(code: u32, body: &[u8]) -> Result<Self, HandshakeEnd> {
        match code {
            TLS_CODE if body.is_empty() => Ok(Self::TlsRequest),
            GSS_CODE if body.is_empty() => Ok(Self::GssRequest),
            TLS_CODE | GSS_CODE => Err(ClientRefusal::Malformed("an encryption request has 8 bytes").into()),
            CANCEL_CODE => match body.split_first_chunk() {
                Some((pid, secret)) if (CANCEL_SECRET_BYTES_MIN..=CANCEL_SECRET_BYTES_MAX).contains(&secret.len()) => {
                    Ok(Self::Cancel(CancelKey { pid: *pid, secret: secret.into() }))
                }
                _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            },
            _ => Ok(Self::Startup(StartupMessage::parse(code, body)?)),
        }
    }
}

impl StartupMessage {
    fn parse(version: u32, body: &[u8]) -> Result<Self, ClientRefusal> {
        let [a, b, c, d] = version.to_be_bytes();
        let (major, minor) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if major != MAJOR {
            return Err(ClientRefusal::Protocol { major, minor });
        }
        let mut parameters = Vec::new();
        let mut rest = body;
        loop {
            let name = take_text(&mut rest)?;
            if name.is_empty() {
                break;
            }
            parameters.push((name.to_vec(), take_text(&mut rest)?.to_vec()));
        }
        match rest.is_empty() {
            true => Ok(Self { version, parameters }),
            false => Err(ClientRefusal::Malformed("bytes follow the last parameter")),
        }
    }

    /// Takes out what is meant for the proxy.
    pub fn take_wish(&mut self) -> Result<ClientWish, ClientRefusal> {
        let (mut asked_port, mut database) = (None, None);
        let mut needs_session = self.parameters.iter().any(|(name, value)| needs_session(name, value));
        for (name, value) in &mut self.parameters {
            if name != b"options" || value.is_empty() {
                continue;
            }
            let options = ProxyOptions::parse(value)?;
            needs_session |= options.needs_session;
            if options.port.is_none() && options.database.is_none() {
                continue;
            }
            asked_port = options.port.or(asked_port);
            database = options.database.or(database);
            *value = options.rest;
            if value.is_empty() {
                name.clear();
            }
        }
        self.parameters.retain(|(name, _)| !name.is_empty());
        let fitting = if needs_session { BackendPort::Session } else { BackendPort::Pooled };
        Ok(ClientWish { port: asked_port.unwrap_or(fitting), database })
    }

    /// The message as bytes.
    pub fn packet(&self) -> Vec<u8> {
        let mut packet = vec![0; 4];
        packet.extend(self.version.to_be_bytes());
        for (name, value) in &self.parameters {
            packet.extend(name);
            packet.push(0);
            packet.extend(value);
            packet.push(0);
        }
        packet.push(0);
        let length = u32::try_from(packet.len()).expect("no longer than what was read");
        packet[..4].copy_from_slice(&length.to_be_bytes());
        packet
    }
}

impl CancelKey {
    /// The cancel request with this key.
    pub fn packet(&self) -> Vec<u8> {
        let length = HEAD_BYTES + self.pid.len() + self.secret.len();
        let mut packet = u32::try_from(length).expect("the secret is bounded").to_be_bytes().to_vec();
        packet.extend(CANCEL_CODE.to_be_bytes());
        packet.extend(self.pid);
        packet.extend(&self.secret);
        packet
    }
}

/// Tells whether a parameter is lost in the pooler: it cannot carry replication, and tables would
/// be made in another schema than that of `search_path`.
fn needs_session(name: &[u8], value: &[u8]) -> bool {
    (name == b"replication" && is_replication(value))
        || DROPPED_BY_POOLER.iter().any(|dropped| dropped.eq_ignore_ascii_case(name))
}

fn is_replication(value: &[u8]) -> bool {
    !matches!(value.to_ascii_lowercase().as_slice(), b"" | b"off" | b"false" | b"no" | b"0")
}

/// Takes a text that ends with a zero byte.
fn take_text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ClientRefusal> {
    let end = rest.iter().position(|byte| *byte == 0).ok_or(ClientRefusal::Malformed("a parameter has no end"))?;
    let (text, after) = rest.split_at(end);
    *rest = &after[1..];
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(parameters: &[(&str, &str)]) -> StartupMessage {
        let parameters = parameters.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        StartupMessage { version: 3 << 16, parameters: parameters.collect() }
    }

    async fn read(bytes: &[u8]) -> Result<FirstPacket, HandshakeEnd> {
        let mut rest = bytes;
        FirstPacket::read(&mut rest).await
    }

    #[tokio::test]
    async fn a_startup_message_comes_out_as_it_came_in() {
        let sent = message(&[("user", "a"), ("database", "b"), ("options", "-c geqo=off")]).packet();
        let Ok(FirstPacket::Startup(mut read)) = read(&sent).await else { panic!("no startup message") };
        let wish = read.take_wish().unwrap();
        assert_eq!(wish, ClientWish { port: BackendPort::Pooled, database: None });
        assert_eq!(read.packet(), sent);
    }

    #[test]
    fn options_for_the_proxy_do_not_reach_the_database() {
        for (options, rest) in [
            ("-c pandastack.session=on", vec![("user", "a")]),
            ("-c geqo=off session=on", vec![("user", "a"), ("options", "-c geqo=off")]),
        ] {
            let mut sent = message(&[("user", "a"), ("options", options)]);
            assert_eq!(sent.take_wish().unwrap().port, BackendPort::Session);
            assert_eq!(sent.packet(), message(&rest).packet(), "{options}");
        }
    }

    #[test]
    fn replication_goes_past_the_pooler() {
        for (value, port) in
            [("database", BackendPort::Session), ("on", BackendPort::Session), ("off", BackendPort::Pooled)]
        {
            assert_eq!(message(&[("replication", value)]).take_wish().unwrap().port, port, "{value}");
        }
    }

    #[test]
    fn settings_that_the_pooler_would_drop_go_past_it() {
        for (parameter, port) in [
            (("search_path", "tenant"), BackendPort::Session),
            (("search_path", ""), BackendPort::Session),
            (("Statement_Timeout", "5s"), BackendPort::Session),
            (("lock_timeout", "5s"), BackendPort::Session),
            (("idle_in_transaction_session_timeout", "5s"), BackendPort::Session),
            (("options", "-c search_path=tenant"), BackendPort::Session),
            (("options", "-c geqo=off"), BackendPort::Pooled),
            (("options", " "), BackendPort::Pooled),
            (("extra_float_digits", "3"), BackendPort::Pooled),
            (("application_name", "search_path"), BackendPort::Pooled),
            (("client_encoding", "UTF8"), BackendPort::Pooled),
            (("DateStyle", "ISO"), BackendPort::Pooled),
            (("TimeZone", "UTC"), BackendPort::Pooled),
        ] {
            let sent = [("user", "a"), parameter];
            let mut read = message(&sent);
            assert_eq!(read.take_wish().unwrap().port, port, "{parameter:?}");
            assert_eq!(read.packet(), message(&sent).packet(), "the database gets it");
            // What the client asks for counts more.
            for (asked, port) in [("session=off", BackendPort::Pooled), ("session=on", BackendPort::Session)] {
                for sent in [[("options", asked), parameter], [parameter, ("options", asked)]] {
                    assert_eq!(message(&sent).take_wish().unwrap().port, port, "{sent:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn packets_that_are_none_are_refused() {
        let packet =
            |length: u32, code: u32, body: &[u8]| [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat();
        let v3 = 3 << 16;
        for (bytes, state) in [
            (packet(4, v3, b""), "08P01"),
            (packet(10_001, v3, b""), "08P01"),
            (packet(9, TLS_CODE, b"x"), "08P01"),
            (packet(9, 2 << 16, b"\0"), "0A000"),
            (packet(10, v3, b"ab"), "08P01"),
            (packet(10, v3, b"\0\0"), "08P01"),
            (packet(10, v3, b"a\0"), "08P01"),
        ] {
            match read(&bytes).await {
                Err(HandshakeEnd::Refused(refusal)) => assert_eq!(refusal.sql_state(), state, "{bytes:?}"),
                other => panic!("{bytes:?} gives {other:?}"),
            }
        }
        assert!(matches!(read(b"GET / HTTP/1.1\r\n\r\n").await, Err(HandshakeEnd::Lost(_))));
        assert!(matches!(read(&packet(15, CANCEL_CODE, &[0; 7])).await, Err(HandshakeEnd::Lost(_))));
    }

    #[tokio::test]
    async fn a_cancel_request_comes_out_as_it_came_in() {
        for secret in [4, 32, 256] {
            let key = CancelKey { pid: [1, 2, 3, 4], secret: vec![7; secret].into() };
            let Ok(FirstPacket::Cancel(read)) = read(&key.packet()).await else { panic!("no cancel request") };
            assert_eq!(read.packet(), key.packet());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(code in any::<u32>(), body in prop::collection::vec(any::<u8>(), 0..300)) {
            for code in [code, 3 << 16, CANCEL_CODE, TLS_CODE] {
                if let Ok(FirstPacket::Startup(mut message)) = FirstPacket::parse(code, &body) {
                    let _ = message.take_wish();
                    prop_assert!(message.packet().len() <= body.len() + HEAD_BYTES);
                }
            }
        }
    }
}
