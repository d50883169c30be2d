//! Persons with accounts, for the tests of logins and organisations.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::rig::{KEY, Rig, answer};

pub const PASSWORD: &str = "correct horse battery";

/// Somebody who is logged in.
#[derive(Clone, Debug)]
pub struct Somebody {
    pub id: String,
    pub email: String,
    pub token: String,
    /// The organisation that was the current one after the login.
    pub org: String,
}

impl Somebody {
    pub fn request(&self, rig: &Rig, method: Method, path: &str) -> RequestBuilder {
        rig.http.request(method, format!("{}{path}", rig.url)).bearer_auth(&self.token)
    }

    pub async fn get(&self, rig: &Rig, path: &str) -> (u16, Value) {
        answer(self.request(rig, Method::GET, path)).await
    }

    pub async fn send(&self, rig: &Rig, method: Method, path: &str, body: Value) -> (u16, Value) {
        answer(self.request(rig, method, path).json(&body)).await
    }

    pub async fn post(&self, rig: &Rig, path: &str) -> (u16, Value) {
        answer(self.request(rig, Method::POST, path)).await
    }

    pub async fn delete(&self, rig: &Rig, path: &str) -> (u16, Value) {
        answer(self.request(rig, Method::DELETE, path)).await
    }
}

/// Makes the first account, which administers the server.
pub async fn operator(rig: &Rig) -> Somebody {
    let ask = json!({"email": "Root@Example.com", "password": PASSWORD});
    let (status, begun) = answer(rig.call(Method::POST, "/v1/auth/setup").bearer_auth(KEY).json(&ask)).await;
    assert_eq!(status, 201, "{begun}");
    known(rig, begun).await
}

/// Makes an account by an invite of somebody, and joins that organisation with a role.
pub async fn invited(rig: &Rig, host: &Somebody, email: &str, role: &str) -> Somebody {
    let ask = json!({"email": email, "role": role});
    let (status, invite) = host.send(rig, Method::POST, &format!("/v1/orgs/{}/members", host.org), ask).await;
    assert_eq!(status, 201, "{invite}");
    let ask = json!({"invite": invite["token"], "password": PASSWORD, "name": "Somebody"});
    let (status, begun) = send(rig, "/v1/auth/register", ask).await;
    assert_eq!(status, 201, "{begun}");
    known(rig, begun).await
}

/// Makes a person that owns an organisation of its own.
pub async fn owner(rig: &Rig, root: &Somebody, name: &str) -> Somebody {
    let somebody = invited(rig, root, &format!("{name}@example.com"), "member").await;
    let (status, org) = somebody.send(rig, Method::POST, "/v1/orgs", json!({"name": name})).await;
    assert_eq!(status, 201, "{org}");
    // Leave the operator's organisation, in which nobody else should be.
    assert_eq!(somebody.post(rig, &format!("/v1/orgs/{}/leave", root.org)).await.0, 204);
    Somebody { org: org["id"].as_str().unwrap().to_owned(), ..somebody }
}

pub async fn log_in(rig: &Rig, email: &str, password: &str) -> (u16, Value) {
    send(rig, "/v1/auth/login", json!({"email": email, "password": password})).await
}

/// Posts without a credential.
pub async fn send(rig: &Rig, path: &str, body: Value) -> (u16, Value) {
    answer(rig.http.post(format!("{}{path}", rig.url)).json(&body)).await
}

/// Looks up who has just logged in.
pub async fn known(rig: &Rig, begun: Value) -> Somebody {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut somebody = Somebody {
        id: text(&begun["user_id"]),
        email: text(&begun["email"]),
        token: text(&begun["token"]),
        org: String::new(),
    };
    let (status, me) = somebody.get(rig, "/v1/me").await;
    assert_eq!((status, &me["user_id"]), (200, &begun["user_id"]), "{me}");
    somebody.org = text(&me["current_org_id"]);
    somebody
}
