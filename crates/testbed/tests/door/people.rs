//! Persons and organisations, for the tests of who may do what.

use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Door, answer};

const PASSWORD: &str = "correct horse battery";

/// Somebody who is logged in.
pub struct Somebody {
    pub id: String,
    pub token: String,
}

/// An organisation with a person of every role, one more member, and an open invite.
pub struct Team {
    pub org: String,
    pub owner: Somebody,
    pub admin: Somebody,
    pub member: Somebody,
    pub other: Somebody,
    pub invite: String,
}

impl Team {
    /// Returns how many members and open invites the organisation has.
    pub async fn shown(&self, door: &Door<'_>) -> (usize, usize) {
        let count = async |what: &str| {
            let path = format!("/v1/orgs/{}/{what}", self.org);
            let (status, listed) = answer(door.call_as(&self.owner.token, Method::GET, &path)).await;
            assert_eq!(status, 200, "{listed}");
            listed.as_array().unwrap().len()
        };
        (count("members").await, count("invites").await)
    }
}

/// Makes the account of the server's operator.
pub async fn operator(door: &Door<'_>) -> Somebody {
    let ask = json!({"email": "root@example.com", "password": PASSWORD});
    begun(door.make("/v1/auth/setup", ask).await)
}

/// Makes an organisation and its persons. The operator invites the first one and is in no way part
/// of it.
pub async fn everybody(door: &Door<'_>, root: &Somebody, slug: &str) -> Team {
    let (_, me) = answer(door.call_as(&root.token, Method::GET, "/v1/me")).await;
    let home = me["current_org_id"].as_str().unwrap().to_owned();
    let owner = invited(door, root, &home, &format!("owner@{slug}.example.com"), "member").await;
    let org = posted(door, &owner, "/v1/orgs", json!({"name": slug, "slug": slug})).await;
    let org = org["id"].as_str().unwrap().to_owned();
    posted(door, &owner, &format!("/v1/orgs/{home}/leave"), json!({})).await;
    let joined =
        async |name: &str, role: &str| invited(door, &owner, &org, &format!("{name}@{slug}.example.com"), role).await;
    let (admin, member, other) =
        (joined("admin", "admin").await, joined("member", "member").await, joined("other", "member").await);
    let ask = json!({"email": "guest@example.com"});
    let invite = posted(door, &owner, &format!("/v1/orgs/{org}/members"), ask).await;
    Team { org, owner, admin, member, other, invite: invite["id"].as_str().unwrap().to_owned() }
}

async fn invited(door: &Door<'_>, host: &Somebody, org: &str, email: &str, role: &str) -> Somebody {
    let invite = posted(door, host, &format!("/v1/orgs/{org}/members"), json!({"email": email, "role": role})).await;
    let ask = json!({"invite": invite["token"], "password": PASSWORD});
    let (status, answered) = answer(door.http.post(format!("{}/v1/auth/register", door.url)).json(&ask)).await;
    assert_eq!(status, 201, "{answered}");
    begun(answered)
}

async fn posted(door: &Door<'_>, who: &Somebody, path: &str, body: Value) -> Value {
    let (status, answered) = answer(door.call_as(&who.token, Method::POST, path).json(&body)).await;
    assert!((200..300).contains(&status), "{path}: {status} {answered}");
    answered
}

fn begun(answered: Value) -> Somebody {
    let text = |name: &str| answered[name].as_str().unwrap().to_owned();
    Somebody { id: text("user_id"), token: text("token") }
}
