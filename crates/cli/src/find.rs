//! Finds the thing that a user names: by its id, by a start of the id that no other has, or by its
//! name. A whole id is used as it is, without a question to the server.

use std::str::FromStr;

use pandastack_client::{Client, ClientError, wire::ManagedDatabase};
use pandastack_model::{BuildId, SandboxId, WebhookId};

use crate::{advice::advise, exit::ExitReason};

/// Things that an error lists at most.
const LISTED_MAX: usize = 10;
/// Hex digits of a key's id.
const KEY_DIGITS: usize = 16;
/// The label that names a sandbox.
pub const NAME_LABEL: &str = "name";

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
    Sandbox,
    Snapshot,
    Volume,
    Database,
    Template,
    Build,
    Webhook,
    Key,
}

/// A thing that a user may mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    pub id: String,
    /// Names besides the id. They need not be unique.
    pub names: Vec<String>,
    /// What a list shows beside the id.
    pub about: String,
}

impl FoundKind {
    fn word(self) -> &'static str {
        match self {
            FoundKind::Sandbox => "sandbox",
            FoundKind::Snapshot => "snapshot",
            FoundKind::Volume => "volume",
            FoundKind::Database => "database",
            FoundKind::Template => "template",
            FoundKind::Build => "build",
            FoundKind::Webhook => "webhook",
            FoundKind::Key => "key",
        }
    }

    /// The command that lists these things.
    fn list_command(self) -> &'static str {
        match self {
            FoundKind::Sandbox => "pandastack sandbox list",
            FoundKind::Snapshot => "pandastack snapshot list",
            FoundKind::Volume => "pandastack volume list",
            FoundKind::Database => "pandastack db list",
            FoundKind::Template => "pandastack template list",
            FoundKind::Build => "pandastack template builds",
            FoundKind::Webhook => "pandastack webhook list",
            FoundKind::Key => "pandastack key list",
        }
    }

    /// Tells whether a text has the shape of a whole id. Names have no shape.
    fn is_whole(self, text: &str) -> bool {
        match self {
            // A database has the id of the sandbox that it runs in.
            FoundKind::Sandbox | FoundKind::Database => is_id::<SandboxId>(text),
            // With or without a prefix. What follows it is a bare UUID, like a sandbox's id.
            FoundKind::Snapshot => is_id::<SandboxId>(text.rsplit_once('_').map_or(text, |(_, uuid)| uuid)),
            FoundKind::Build => is_id::<BuildId>(text),
            FoundKind::Webhook => is_id::<WebhookId>(text),
            FoundKind::Key => text.strip_prefix("key_").is_some_and(|hex| hex.len() == KEY_DIGITS && is_hex(hex)),
            FoundKind::Volume | FoundKind::Template => false,
        }
    }

    /// Lists everything that may be meant.
    pub async fn candidates(self, client: &Client) -> Result<Vec<Candidate>, ClientError> {
        let named = |id: String| Candidate { id, ..Candidate::default() };
        Ok(match self {
            FoundKind::Sandbox => {
                let sandboxes = client.list().await?.into_iter();
                let candidate = |s: pandastack_client::wire::Sandbox| Candidate {
                    about: format!("{} {}", s.template, s.status),
                    names: s.metadata.get(NAME_LABEL).cloned().into_iter().collect(),
                    id: s.id,
                };
                sandboxes.map(candidate).collect()
            }
            FoundKind::Snapshot => {
                let snapshots = client.snapshots(None).await?.into_iter();
                snapshots.map(|s| Candidate { about: s.template, ..named(s.id) }).collect()
            }
            FoundKind::Volume => client.volumes().await?.into_iter().map(|volume| named(volume.name)).collect(),
            FoundKind::Database => client.databases().await?.iter().map(Candidate::from).collect(),
            FoundKind::Template => client.templates().await?.into_iter().map(|template| named(template.name)).collect(),
            FoundKind::Build => {
                let builds = client.builds().await?.into_iter();
                builds.map(|b| Candidate { about: format!("{} {}", b.name, b.status), ..named(b.id) }).collect()
            }
            FoundKind::Webhook => {
                let webhooks = client.webhooks().await?.into_iter();
                let candidate = |w: pandastack_client::wire::Webhook| Candidate {
                    names: [w.description, w.url.clone()].into_iter().filter(|name| !name.is_empty()).collect(),
                    about: w.url,
                    id: w.id,
                };
                webhooks.map(candidate).collect()
            }
            FoundKind::Key => {
                let keys = client.keys().await?.into_iter();
                let candidate = |k: pandastack_client::wire::ApiKey| Candidate {
                    about: k.label.clone().unwrap_or_default(),
                    names: k.label.into_iter().chain([k.prefix]).collect(),
                    id: k.id,
                };
                keys.map(candidate).collect()
            }
        })
    }

    /// Finds the id of what a text names.
    pub async fn find(self, client: &Client, text: &str) -> anyhow::Result<String> {
        if self.is_whole(text) {
            return Ok(text.to_owned());
        }
        choose(self, self.candidates(client).await.map_err(advise)?, text)
    }

    /// Does something with a thing whose ids have no shape. The server is asked for a list only if
    /// it does not know the name.
    pub async fn call<T>(
        self,
        client: &Client,
        text: &str,
        call: impl AsyncFn(&str) -> Result<T, ClientError>,
    ) -> anyhow::Result<T> {
        let missed = match call(text).await {
            Err(error) if ExitReason::of(&error) == ExitReason::NotFound || is_unknown_template(&error) => error,
            done => return done.map_err(advise),
        };
        let mut candidates = self.candidates(client).await.map_err(advise)?;
        candidates.retain(|candidate| candidate.id.starts_with(text));
        if candidates.is_empty() {
            // The server's refusal says more than we know.
            return Err(advise(missed));
        }
        call(&choose(self, candidates, text)?).await.map_err(advise)
    }
}

impl From<&ManagedDatabase> for Candidate {
    fn from(database: &ManagedDatabase) -> Self {
        let ManagedDatabase { id, label, size, status, .. } = database;
        let about = [label, size].into_iter().flatten().chain([status]).map(String::as_str).collect::<Vec<_>>();
        Self { id: id.clone(), names: label.iter().cloned().collect(), about: about.join(" ") }
    }
}

fn is_unknown_template(error: &ClientError) -> bool {
    error.code().is_some_and(|code| code == "template.unknown" || code == "template.not_found")
}

/// Chooses what a text names.
pub fn choose(kind: FoundKind, mut candidates: Vec<Candidate>, text: &str) -> anyhow::Result<String> {
    if let Some(exact) = candidates.iter().position(|candidate| candidate.id == text) {
        return Ok(candidates.swap_remove(exact).id);
    }
    let is_named = |candidate: &&Candidate| candidate.names.iter().any(|name| name == text);
    let by_name: Vec<_> = candidates.iter().filter(is_named).collect();
    let begins = |candidate: &&Candidate| !text.is_empty() && candidate.id.starts_with(text);
    let found: Vec<_> = if by_name.is_empty() { candidates.iter().filter(begins).collect() } else { by_name };
    let (word, list) = (kind.word(), kind.list_command());
    match found.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(ExitReason::NotFound.error(format!("no {word} {text:?}; see: {list}"))),
        several => {
            let mut lines: Vec<_> = several
                .iter()
                .take(LISTED_MAX)
                .map(|c| format!("\n  {}  {}", c.id, c.about).trim_end().to_owned())
                .collect();
            lines.extend(several.get(LISTED_MAX).map(|_| format!("\n  … and {} more", several.len() - LISTED_MAX)));
            let text = format!("{text:?} is not unique; use more of the id. It may be:{}", lines.concat());
            Err(ExitReason::Usage.error(text))
        }
    }
}

fn is_id<Id: FromStr>(text: &str) -> bool {
    text.parse::<Id>().is_ok()
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn candidate(id: &str, name: &str) -> Candidate {
        Candidate { id: id.into(), names: vec![name.into()], about: "mini running".into() }
    }

    fn check(text: &str, expected: Result<&str, &str>) {
        let candidates = vec![
            candidate("abc1", "web"),
            candidate("abd2", "db"),
            candidate("fed3", "db"),
            // Named like the start of another one's id, and like another one's whole id.
            candidate("1234", "abd"),
            candidate("5678", "abc1"),
        ];
        match (choose(FoundKind::Sandbox, candidates, text), expected) {
            (Ok(id), Ok(wanted)) => assert_eq!(id, wanted, "{text}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn an_id_is_preferred_to_a_name_and_a_name_to_a_start() {
        check("abc1", Ok("abc1"));
        check("web", Ok("abc1"));
        check("abd", Ok("1234"));
        check("f", Ok("fed3"));
        check("ab", Err("abc1  mini running\n  abd2  mini running"));
        check("db", Err("not unique"));
        check("zz", Err("see: pandastack sandbox list"));
        check("", Err("no sandbox"));
    }

    #[test]
    fn a_database_is_found_by_its_label() {
        let database = |id: &str, label: Option<&str>| ManagedDatabase {
            id: id.into(),
            status: "running".into(),
            label: label.map(Into::into),
            size: Some("4g".into()),
            ..ManagedDatabase::default()
        };
        let candidates: Vec<_> = [database("ab1", Some("app")), database("ac2", None)].iter().map(Into::into).collect();
        let choose = |text: &str| choose(FoundKind::Database, candidates.clone(), text);
        assert_eq!((choose("app").unwrap().as_str(), choose("ac").unwrap().as_str()), ("ab1", "ac2"));
        assert!(choose("a").unwrap_err().to_string().contains("ab1  app 4g running\n  ac2  4g running"));
        assert!(choose("x").unwrap_err().to_string().contains("see: pandastack db list"));
        assert!(FoundKind::Database.is_whole(WHOLE));
    }

    #[test]
    fn whole_ids_have_a_shape() {
        assert!(FoundKind::Sandbox.is_whole(WHOLE) && !FoundKind::Sandbox.is_whole(&WHOLE[..35]));
        assert!(!FoundKind::Sandbox.is_whole(&WHOLE.to_uppercase()));
        assert!(FoundKind::Snapshot.is_whole(&format!("lyr_{WHOLE}")) && FoundKind::Snapshot.is_whole(WHOLE));
        assert!(FoundKind::Webhook.is_whole(&format!("whk_{WHOLE}")) && !FoundKind::Webhook.is_whole(WHOLE));
        assert!(FoundKind::Key.is_whole("key_0123456789abcdef") && !FoundKind::Key.is_whole("key_0123"));
        assert!(!FoundKind::Volume.is_whole(WHOLE));
    }
}
