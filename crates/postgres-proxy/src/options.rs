//! The startup parameter `options`: takes out what is meant for the proxy, leaves the rest as it
//! was. Words are split as PostgreSQL does: at white space, and a backslash protects one byte.

use crate::{databases::BackendPort, name::DatabaseName, refusal::ClientRefusal};

/// Settings that the pooler keeps for each client, or that change no result. It drops all others.
const FIT_FOR_POOLER: [&[u8]; 8] = [
    b"application_name",
    b"client_encoding",
    b"DateStyle",
    b"IntervalStyle",
    b"TimeZone",
    b"standard_conforming_strings",
    b"extra_float_digits",
    b"geqo",
];

/// What a client asked the proxy for, and what goes on to the database.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProxyOptions {
    pub port: Option<BackendPort>,
    pub database: Option<DatabaseName>,
    /// The other words.
    pub rest: Vec<u8>,
    /// Among them are some that the pooler would drop.
    pub needs_session: bool,
}

/// A setting of the proxy.
enum ProxySetting<'a> {
    Session(&'a [u8]),
    Database(&'a [u8]),
}

impl ProxyOptions {
    /// Reads the parameter's value.
    pub fn parse(value: &[u8]) -> Result<Self, ClientRefusal> {
        let mut found = Self::default();
        let mut words = words(value).peekable();
        while let Some(word) = words.next() {
            // `-c name=value` is two words, `-cname=value` and `--name=value` are one.
            let second = if word == b"-c" { words.next() } else { None };
            let setting =
                second.unwrap_or_else(|| word.strip_prefix(b"-c").or_else(|| word.strip_prefix(b"--")).unwrap_or(word));
            match own(setting) {
                Some(ProxySetting::Session(value)) => found.port = Some(port(value)?),
                Some(ProxySetting::Database(value)) => found.database = Some(database(value)?),
                None => {
                    found.needs_session |= !fits_pooler(setting);
                    found.keep(word);
                    second.into_iter().for_each(|second| found.keep(second));
                }
            }
        }
        Ok(found)
    }

    fn keep(&mut self, word: &[u8]) {
        if !self.rest.is_empty() {
            self.rest.push(b' ');
        }
        self.rest.extend(word);
    }
}

fn own(setting: &[u8]) -> Option<ProxySetting<'_>> {
    let at = setting.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&setting[..at], &setting[at + 1..]);
    match name {
        b"pandastack.session" | b"pandastack_session" | b"session" => Some(ProxySetting::Session(value)),
        b"pandastack.database" | b"pandastack_database" | b"database" => Some(ProxySetting::Database(value)),
        _ => None,
    }
}

fn fits_pooler(setting: &[u8]) -> bool {
    let name = setting.split(|byte| *byte == b'=').next().unwrap_or_default();
    FIT_FOR_POOLER.iter().any(|fit| fit.eq_ignore_ascii_case(name))
}

fn port(value: &[u8]) -> Result<BackendPort, ClientRefusal> {
    match value.to_ascii_lowercase().as_slice() {
        b"on" | b"true" | b"yes" | b"1" => Ok(BackendPort::Session),
        b"off" | b"false" | b"no" | b"0" => Ok(BackendPort::Pooled),
        _ => Err(ClientRefusal::BadSession),
    }
}

fn database(value: &[u8]) -> Result<DatabaseName, ClientRefusal> {
    let text = String::from_utf8_lossy(value);
    text.parse().map_err(|_| ClientRefusal::BadDatabase {
        text: text.chars().filter(|letter| !letter.is_control()).take(100).collect(),
    })
}

/// The words, still with their backslashes.
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let begin = rest.iter().position(|byte| !is_space(*byte))?;
        rest = &rest[begin..];
        let mut at = 0;
        while at < rest.len() && !is_space(rest[at]) {
            at += if rest[at] == b'\\' { 2 } else { 1 };
        }
        let (word, after) = rest.split_at(at.min(rest.len()));
        rest = after;
        Some(word)
    })
}

/// Includes the vertical tab, as PostgreSQL does.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44";

    fn parsed(text: &str) -> (Option<BackendPort>, Option<String>, String) {
        let found = ProxyOptions::parse(text.as_bytes()).unwrap();
        let database = found.database.map(|name| name.to_string());
        (found.port, database, String::from_utf8(found.rest).unwrap())
    }

    #[test]
    fn settings_of_the_proxy_are_taken_out_in_every_form() {
        for text in [
            "-c pandastack.session=on",
            "-cpandastack_session=true",
            "--session=1",
            "session=ON",
            "  -c   session=yes ",
            "-c session=off -c session=on",
        ] {
            assert_eq!(parsed(text), (Some(BackendPort::Session), None, String::new()), "{text}");
        }
        assert_eq!(parsed("session=off").0, Some(BackendPort::Pooled));
        for text in [format!("database={ID}"), format!("-c pandastack.database={}", ID.to_uppercase())] {
            assert_eq!(parsed(&text), (None, Some(ID.to_owned()), String::new()), "{text}");
        }
    }

    #[test]
    fn everything_else_stays() {
        for text in ["-c search_path=a\\ session=on", "-c", "--work_mem=4MB -e", "", "session", "a\\"] {
            assert_eq!(parsed(text), (None, None, text.to_owned()));
        }
        let mixed = format!("-c geqo=off database={ID} --session=on -c statement_timeout=5s");
        let expected = "-c geqo=off -c statement_timeout=5s".to_owned();
        assert_eq!(parsed(&mixed), (Some(BackendPort::Session), Some(ID.to_owned()), expected));
    }

    #[test]
    fn words_that_the_pooler_would_drop_need_a_session() {
        for (text, needs_session) in [
            ("", false),
            ("  ", false),
            ("session=on", false),
            ("-c geqo=off", false),
            ("-ctimezone=UTC --DateStyle=ISO -c extra_float_digits=3", false),
            ("-c search_path=a", true),
            ("--search-path=a session=off", true),
            ("-c geqo=off -cwork_mem=4MB", true),
            ("-c geqo_effort=1", true),
            ("-e", true),
            ("-c", true),
        ] {
            assert_eq!(ProxyOptions::parse(text.as_bytes()).unwrap().needs_session, needs_session, "{text}");
        }
    }

    #[test]
    fn bad_values_are_refused() {
        assert!(matches!(ProxyOptions::parse(b"session=maybe"), Err(ClientRefusal::BadSession)));
        assert!(matches!(ProxyOptions::parse(b"database=x"), Err(ClientRefusal::BadDatabase { text }) if text == "x"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(value in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(found) = ProxyOptions::parse(&value) {
                prop_assert!(found.rest.len() <= value.len());
            }
        }

        #[test]
        fn reading_the_rest_again_changes_nothing(value in "[-c= \\\\a-e.]{0,60}") {
            let once = ProxyOptions::parse(value.as_bytes()).unwrap();
            let twice = ProxyOptions::parse(&once.rest).unwrap();
            prop_assert_eq!(twice.rest, once.rest);
        }
    }
}
