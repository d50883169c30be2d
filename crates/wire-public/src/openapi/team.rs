//! Routes for people: logins, sessions, organisations, members and invites.

use serde_json::json;

use super::operation::{Operation, query, route};
use crate::{
    AcceptedInvite, ApiKey, ApiKeys, AskReset, ChangeMember, ChangePassword, CreateApiKey, CreateInvite, CreateOrg,
    CurrentOrg, ExchangeCode, InviteInfo, LogIn, LoggedIn, LoginMethods, LoginSession, Org, OrgInvite, OrgMember,
    Register, RenameOrg, ResetPassword, SetUp, SignInLink, TransferOrg, UseLink,
};

const LOGINS: &str = "Logins";
const ORGS: &str = "Organisations";
const KEYS: &str = "API keys";

pub fn operations() -> Vec<Operation> {
    [logins(), sso(), keys(), orgs(), members(), invites()].into_iter().flatten().collect()
}

fn logins() -> Vec<Operation> {
    let password = "correct horse battery staple";
    vec![
        route(LOGINS, "GET", "/v1/auth", "Show how people can log in").open().ours().gives::<LoginMethods>(200),
        route(LOGINS, "POST", "/v1/auth/setup", "Make the first account, which administers the server")
            .ours()
            .notes(
                "Needs an API key of the server's first workspace, or a one-time `link`. The account becomes its owner.",
            )
            .refuses(&[403, 409, 410])
            .takes::<SetUp>(json!({"email": "ada@example.com", "password": password}))
            .gives::<LoggedIn>(201),
        route(LOGINS, "POST", "/v1/auth/register", "Make an account with an invite, and accept the invite")
            .open()
            .ours()
            .refuses(&[403, 404, 409, 410, 503])
            .takes::<Register>(json!({"invite": "0".repeat(48), "password": password}))
            .gives::<LoggedIn>(201),
        route(LOGINS, "POST", "/v1/auth/login", "Log in with a password")
            .open()
            .ours()
            .notes("After several failures further attempts are delayed: `429` with `Retry-After`.")
            .refuses(&[401, 403, 429, 503])
            .takes::<LogIn>(json!({"email": "ada@example.com", "password": password}))
            .gives::<LoggedIn>(200),
        route(LOGINS, "POST", "/v1/auth/link", "Log in with a one-time link")
            .open()
            .ours()
            .refuses(&[403, 409, 410])
            .takes::<UseLink>(json!({"token": format!("psl_{}", "0".repeat(48))}))
            .gives::<LoggedIn>(200),
        route(LOGINS, "POST", "/v1/auth/links", "Make a link that logs the caller in once, for a browser")
            .ours()
            .notes("An API key of the first workspace gets a link for the first account, while there is none.")
            .refuses(&[403])
            .gives::<SignInLink>(201),
        route(LOGINS, "POST", "/v1/auth/logout", "End the session of this request").person().ours().gives_nothing(204),
        route(LOGINS, "GET", "/v1/auth/sessions", "List the caller's sessions, newest first")
            .person()
            .ours()
            .gives::<Vec<LoginSession>>(200),
        route(LOGINS, "DELETE", "/v1/auth/sessions/{session}", "End a session of the caller")
            .person()
            .ours()
            .gives_nothing(204),
        route(LOGINS, "POST", "/v1/auth/password", "Change the caller's password")
            .person()
            .ours()
            .notes("Ends all sessions of the caller, and returns a new one.")
            .refuses(&[403, 409, 503])
            .takes::<ChangePassword>(json!({"current_password": "…", "new_password": password}))
            .gives::<LoggedIn>(200),
        route(LOGINS, "POST", "/v1/auth/reset-request", "Ask for a link to reset a password, by e-mail")
            .open()
            .ours()
            .notes("The answer is the same whether or not there is such an account.")
            .takes::<AskReset>(json!({"email": "ada@example.com"}))
            .gives_nothing(202),
        route(LOGINS, "POST", "/v1/auth/reset", "Set a new password with a reset link")
            .open()
            .ours()
            .refuses(&[410, 503])
            .takes::<ResetPassword>(json!({"token": format!("prs_{}", "0".repeat(48)), "password": password}))
            .gives_nothing(204),
    ]
}

fn sso() -> Vec<Operation> {
    let text = || json!({"type": "string"});
    vec![
        route(LOGINS, "GET", "/v1/auth/oidc/start", "Begin a login at the identity provider")
            .open()
            .ours()
            .notes("Answers with a redirect to the provider, for a browser.")
            .with(query("redirect", text(), "Where the browser goes with a `code`: the dashboard or localhost."))
            .with(query("challenge", text(), "The unpadded base64url SHA-256 of a random text (PKCE, S256)."))
            .refuses(&[404, 502, 503])
            .gives_nothing(303),
        route(LOGINS, "GET", "/v1/auth/oidc/callback", "End a login at the identity provider")
            .open()
            .ours()
            .with(query("state", text(), "As the provider received it."))
            .with(query("code", text(), "The provider's code."))
            .refuses(&[401, 403, 404, 409, 502, 503])
            .gives_nothing(303),
        route(LOGINS, "POST", "/v1/auth/oidc/token", "Exchange the code of a login for a session")
            .open()
            .ours()
            .refuses(&[401, 403])
            .takes::<ExchangeCode>(json!({"code": "0".repeat(48), "verifier": "v".repeat(43)}))
            .gives::<LoggedIn>(200),
    ]
}

fn keys() -> Vec<Operation> {
    vec![
        route(KEYS, "GET", "/v1/me/tokens", "List the API keys of the current organisation, newest first")
            .person()
            .notes("For people only; a caller with an API key gets `401`.")
            .gives::<ApiKeys>(200),
        route(KEYS, "POST", "/v1/me/tokens", "Create an API key of the current organisation")
            .person()
            .may_take::<CreateApiKey>(json!({"label": "ci", "expires_in_days": 30}))
            .gives::<ApiKey>(200),
        route(KEYS, "DELETE", "/v1/me/tokens/{prefix}", "Revoke the API keys with this prefix")
            .person()
            .gives_nothing(204),
    ]
}

fn orgs() -> Vec<Operation> {
    vec![
        route(ORGS, "POST", "/v1/me/current-org", "Choose the organisation that later requests act in")
            .person()
            .refuses(&[403])
            .takes::<CurrentOrg>(json!({"org_id": "00000000-0000-0000-0000-000000000000"}))
            .gives::<CurrentOrg>(200),
        route(ORGS, "GET", "/v1/orgs", "List the caller's organisations, oldest membership first")
            .person()
            .gives::<Vec<Org>>(200),
        route(ORGS, "POST", "/v1/orgs", "Create an organisation")
            .person()
            .refuses(&[409])
            .takes::<CreateOrg>(json!({"name": "Panda Works"}))
            .gives::<Org>(201),
        route(ORGS, "GET", "/v1/orgs/{org}", "Show an organisation").person().gives::<Org>(200),
        route(ORGS, "PATCH", "/v1/orgs/{org}", "Rename an organisation; its slug stays")
            .least("admin")
            .ours()
            .refuses(&[403])
            .takes::<RenameOrg>(json!({"name": "Panda Works Ltd"}))
            .gives::<Org>(200),
        route(ORGS, "DELETE", "/v1/orgs/{org}", "Delete an organisation with everything that it owns")
            .least("owner")
            .ours()
            .notes("Its keys stop at once. Sandboxes, snapshots, volumes, templates and webhooks follow.")
            .with(query("confirm", json!({"type": "string"}), "The slug of the organisation, as a confirmation."))
            .refuses(&[403, 409])
            .gives_nothing(202),
        route(ORGS, "POST", "/v1/orgs/{org}/leave", "Leave an organisation")
            .person()
            .ours()
            .refuses(&[400])
            .gives_nothing(204),
        route(ORGS, "POST", "/v1/orgs/{org}/transfer", "Make another member the owner, and the caller an admin")
            .least("owner")
            .ours()
            .refuses(&[403])
            .takes::<TransferOrg>(json!({"user_id": "00000000-0000-0000-0000-000000000000"}))
            .gives_nothing(204),
    ]
}

fn members() -> Vec<Operation> {
    vec![
        route(ORGS, "GET", "/v1/orgs/{org}/members", "List the members of an organisation")
            .person()
            .gives::<Vec<OrgMember>>(200),
        route(ORGS, "POST", "/v1/orgs/{org}/members", "Invite somebody to an organisation")
            .least("admin")
            .notes("The answer is the only one with the link. It is also sent by e-mail if the server can.")
            .refuses(&[403])
            .takes::<CreateInvite>(json!({"email": "bob@example.com", "role": "member"}))
            .gives::<OrgInvite>(201),
        route(ORGS, "PATCH", "/v1/orgs/{org}/members/{user}", "Change the role of a member")
            .least("owner")
            .ours()
            .refuses(&[400, 403])
            .takes::<ChangeMember>(json!({"role": "admin"}))
            .gives_nothing(204),
        route(ORGS, "DELETE", "/v1/orgs/{org}/members/{user}", "Remove a member")
            .least("admin")
            .refuses(&[400, 403])
            .gives_nothing(204),
    ]
}

fn invites() -> Vec<Operation> {
    vec![
        route(ORGS, "GET", "/v1/orgs/{org}/invites", "List the open invites of an organisation, newest first")
            .least("admin")
            .ours()
            .refuses(&[403])
            .gives::<Vec<OrgInvite>>(200),
        route(ORGS, "DELETE", "/v1/orgs/{org}/invites/{invite}", "Withdraw an invite")
            .least("admin")
            .ours()
            .refuses(&[403])
            .gives_nothing(204),
        route(ORGS, "GET", "/v1/orgs/invites/{token}", "Show an invite to the person who has its link")
            .open()
            .ours()
            .refuses(&[410])
            .gives::<InviteInfo>(200),
        route(ORGS, "POST", "/v1/orgs/invites/{token}/accept", "Accept an invite")
            .person()
            .refuses(&[403, 410])
            .gives::<AcceptedInvite>(200),
    ]
}
