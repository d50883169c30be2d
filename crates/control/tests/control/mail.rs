//! Letters, as they reach a mail server: invites, reset links and budget alerts.

use std::sync::Arc;

use pandastack_control::{Control, MailSettings};
use pandastack_kit::{Clock, SystemClock};
use pandastack_mail::{
    SmtpSecurity,
    stand_in::{ReceivedLetter, SmtpFault, SmtpStandIn},
};
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::json;

use crate::{
    billing::{HOUR, NOON_S, StillClock, Teller, in_org},
    people::{self, PASSWORD, known, log_in, send},
    rig::{Rig, answer},
};

const BASE: &str = "https://pandas.example";
const IGNORE: &str = "If you did not expect this letter, ignore it.";

struct MailRig {
    rig: Rig,
    server: SmtpStandIn,
}

impl MailRig {
    async fn start() -> Self {
        Self::start_at(Arc::new(SystemClock)).await
    }

    async fn start_at(clock: Arc<dyn Clock>) -> Self {
        let server = SmtpStandIn::start(SmtpSecurity::StartTls).await;
        let settings = MailSettings { smtp: server.settings(), public_url: format!("{BASE}/") };
        let parts = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()), clock);
        let prepare = |control: Control| control.with_mail(settings).unwrap();
        Self { rig: Rig::start_prepared(parts, prepare).await, server }
    }

    /// Waits for a number of letters, and returns the last one.
    async fn letter(&self, count: usize) -> ReceivedLetter {
        let letters = self.server.wait(count).await;
        assert_eq!(letters.len(), count, "{letters:?}");
        letters.into_iter().next_back().unwrap()
    }

    async fn ask_reset(&self, email: &str) -> (u16, Vec<u8>) {
        let request = self.rig.http.post(format!("{}/v1/auth/reset-request", self.rig.url));
        // A forged host must not get into a link.
        let request = request.header("host", "evil.example").json(&json!({"email": email}));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
    }
}

/// Returns the secret at the end of the link in a letter.
fn secret(letter: &ReceivedLetter, page: &str) -> String {
    let start = format!("{BASE}/{page}");
    letter.word_with(&start).unwrap_or_else(|| panic!("{letter:?}")).strip_prefix(&start).unwrap().to_owned()
}

#[tokio::test]
async fn an_invite_is_mailed_and_its_link_works() {
    let mail = MailRig::start().await;
    let root = people::operator(&mail.rig).await;
    let ask = json!({"email": "bob@example.com", "role": "admin"});
    let path = format!("/v1/orgs/{}/members", root.org);
    let request = root.request(&mail.rig, Method::POST, &path).header("host", "evil.example").json(&ask);
    let (status, invite) = answer(request).await;
    assert_eq!(status, 201, "{invite}");
    let letter = mail.letter(1).await;
    assert_eq!((letter.to.as_slice(), letter.encrypted), (&["bob@example.com".to_owned()][..], true));
    assert_eq!(letter.header("subject"), Some("Invite to Default on PandaStack"));
    for part in
        ["root@example.com invites you", "\"Default\"", "role admin", invite["expires_at"].as_str().unwrap(), IGNORE]
    {
        assert!(letter.text.contains(part), "{part}: {}", letter.text);
    }
    let token = secret(&letter, "invite/");
    assert_eq!(invite["token"], json!(token), "the answer still shows it");
    let (status, begun) = send(&mail.rig, "/v1/auth/register", json!({"invite": token, "password": PASSWORD})).await;
    assert_eq!(status, 201, "{begun}");
    assert_eq!(known(&mail.rig, begun).await.org, root.org);
}

#[tokio::test]
async fn an_invite_works_while_the_mail_server_does_not() {
    let mail = MailRig::start().await;
    let root = people::operator(&mail.rig).await;
    mail.server.fail_next([SmtpFault::Refuse(550)]);
    let bob = people::invited(&mail.rig, &root, "bob@example.com", "member").await;
    assert_eq!(bob.org, root.org);
    people::invited(&mail.rig, &root, "eve@example.com", "member").await;
    assert_eq!(mail.letter(1).await.to, ["eve@example.com"]);
}

#[tokio::test]
async fn one_person_cannot_mail_invites_to_the_world() {
    let mail = MailRig::start().await;
    let root = people::operator(&mail.rig).await;
    let allowed = pandastack_control::limits::INVITE_LETTERS_PER_HOUR as usize;
    let path = format!("/v1/orgs/{}/members", root.org);
    for number in 0..allowed + 2 {
        let ask = json!({"email": format!("bob{number}@example.com"), "role": "member"});
        let (status, invite) = root.send(&mail.rig, Method::POST, &path, ask).await;
        assert_eq!(status, 201, "{invite}");
        assert!(invite["invite_url"].is_string());
    }
    // A letter of another kind comes after all invites.
    assert_eq!(mail.ask_reset(&root.email).await.0, 202);
    secret(&mail.letter(allowed + 1).await, "reset#");
}

#[tokio::test]
async fn a_reset_link_is_mailed_to_the_owner_of_an_account_only() {
    let mail = MailRig::start().await;
    let (_, methods) = answer(mail.rig.http.get(format!("{}/v1/auth", mail.rig.url))).await;
    assert_eq!(methods["reset_by_email"], json!(true), "{methods}");
    let root = people::operator(&mail.rig).await;
    let unknown = mail.ask_reset("nobody@example.com").await;
    let known = mail.ask_reset(&root.email.to_uppercase()).await;
    assert_eq!((unknown.0, &unknown), (202, &known), "the answers are the same");
    let letter = mail.letter(1).await;
    assert_eq!(letter.to, [root.email.as_str()]);
    assert!(letter.text.contains(IGNORE) && !letter.text.contains("evil"), "{}", letter.text);
    let ask = json!({"token": secret(&letter, "reset#"), "password": "another good password"});
    assert_eq!(send(&mail.rig, "/v1/auth/reset", ask.clone()).await.0, 204);
    assert_eq!(send(&mail.rig, "/v1/auth/reset", ask).await.0, 410, "it works once");
    assert_eq!(log_in(&mail.rig, &root.email, "another good password").await.0, 200);
    assert_eq!(mail.ask_reset("not an address").await.0, 400);
}

#[tokio::test]
async fn nobody_is_flooded_with_reset_links() {
    let clock = StillClock::at(NOON_S);
    let mail = MailRig::start_at(clock.clone()).await;
    let root = people::operator(&mail.rig).await;
    let allowed = pandastack_control::limits::RESET_LETTERS_PER_HOUR as usize;
    for _ in 0..allowed + 3 {
        assert_eq!(mail.ask_reset(&root.email).await.0, 202);
    }
    mail.letter(allowed).await;
    people::invited(&mail.rig, &root, "bob@example.com", "member").await;
    assert_eq!(mail.letter(allowed + 1).await.to, ["bob@example.com"], "no further link came");
    clock.pass(HOUR);
    assert_eq!(mail.ask_reset(&root.email).await.0, 202);
    secret(&mail.letter(allowed + 2).await, "reset#");
}

#[tokio::test]
async fn a_budget_alert_reaches_owner_and_admin_once() {
    let clock = StillClock::at(NOON_S);
    let mail = MailRig::start_at(clock.clone()).await;
    let rig = &mail.rig;
    let root = people::operator(rig).await;
    let owner = people::owner(rig, &root, "ada").await;
    people::invited(rig, &owner, "bob@example.com", "admin").await;
    people::invited(rig, &owner, "eve@example.com", "member").await;
    let invites = mail.server.wait(3).await.len();
    let (status, made) = in_org(rig, &owner, Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await;
    assert_eq!(status, 201, "{made}");
    let budget = json!({"monthly_usd": 0.25, "alert_percent": 50, "hard_cap": true});
    let path = format!("/v1/orgs/{}/budget", owner.org);
    assert_eq!(owner.send(rig, Method::PUT, &path, budget).await.0, 200);
    // An hour of this machine costs 0.09 dollars.
    let mut machine = Teller::start(rig, &clock, made["id"].as_str().unwrap());
    for (hours, letters, subject) in [
        (1, 0, ""),
        (1, 2, "ada: 72% of the budget for 2026-03 is used"),
        (0, 2, "ada: 72% of the budget for 2026-03 is used"),
        (1, 4, "ada: the hard cap for 2026-03 is reached"),
        (0, 4, "ada: the hard cap for 2026-03 is reached"),
    ] {
        machine.beat(hours * HOUR);
        rig.control.meter_usage().await.unwrap();
        let arrived = mail.server.wait(invites + letters).await;
        assert_eq!(arrived.len(), invites + letters, "{arrived:?}");
        if letters > 0 {
            let last = &arrived[arrived.len() - 2..];
            let to: Vec<_> = last.iter().map(|letter| letter.to[0].as_str()).collect();
            assert_eq!(to, ["ada@example.com", "bob@example.com"]);
            assert!(last.iter().all(|letter| letter.header("subject") == Some(subject)), "{last:?}");
            assert!(last.iter().all(|letter| letter.text.contains(IGNORE)), "{last:?}");
        }
    }
    // Nothing more is on its way.
    people::invited(rig, &owner, "last@example.com", "member").await;
    assert_eq!(mail.letter(invites + 5).await.to, ["last@example.com"]);
}
