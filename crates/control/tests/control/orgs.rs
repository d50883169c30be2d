//! Organisations, members, roles and invites.

use std::{sync::Arc, time::Duration};

use pandastack_control::ControlSettings;
use pandastack_kit::Clock;
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    people::{Somebody, invited, operator, owner},
    receiver::Traveller,
    rig::{Rig, answer, wait_for},
};

#[tokio::test]
async fn an_org_is_made_listed_renamed_and_chosen() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (status, org) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": " Panda  Works_2 "})).await;
    assert_eq!((status, &org["slug"], &org["role"]), (201, &json!("panda-works-2"), &json!("owner")), "{org}");
    assert_eq!((&org["owner_user_id"], &org["member_count"]), (&json!(root.id), &json!(1)));
    let id = org["id"].as_str().unwrap();
    let (status, refused) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": "Panda Works 2"})).await;
    assert_eq!((status, &refused["error"]), (409, &json!("slug already taken")));
    for (body, code) in [
        (json!({"name": "  "}), "org.bad_name"),
        (json!({"name": "x".repeat(101)}), "org.bad_name"),
        (json!({"name": "a", "slug": "A b"}), "org.bad_slug"),
        (json!({"name": "a", "slug": "default"}), "org.bad_slug"),
    ] {
        let (status, refused) = root.send(&rig, Method::POST, "/v1/orgs", body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{body}");
    }
    let (status, refused) = answer(root.request(&rig, Method::POST, "/v1/orgs").body("{")).await;
    assert!(status == 400 && refused["error"].as_str().unwrap().starts_with("bad json"), "{refused}");
    let (_, listed) = root.get(&rig, "/v1/orgs").await;
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let (_, me) = root.get(&rig, "/v1/me").await;
    assert_eq!(
        (&me["current_org_id"], &me["workspace"]),
        (&json!(id), &json!("panda-works-2")),
        "a new one is current"
    );
    let choose = json!({"org_id": root.org});
    assert_eq!(root.send(&rig, Method::POST, "/v1/me/current-org", choose.clone()).await, (200, choose));
    assert_eq!(root.get(&rig, "/v1/me").await.1["workspace"], json!("default"), "at once");
    let (status, refused) = root.send(&rig, Method::POST, "/v1/me/current-org", json!({"org_id": "x"})).await;
    assert_eq!((status, &refused["error"]), (403, &json!("not a member of that org")));
    let (status, renamed) = root.send(&rig, Method::PATCH, &format!("/v1/orgs/{id}"), json!({"name": "Pandas"})).await;
    assert_eq!((status, &renamed["name"], &renamed["slug"]), (200, &json!("Pandas"), &json!("panda-works-2")));
    assert_eq!(root.get(&rig, &format!("/v1/orgs/{id}")).await.1["name"], json!("Pandas"));
    for path in ["/v1/orgs", "/v1/orgs/x", "/v1/me/tokens"] {
        let (status, refused) = rig.get(path).await;
        assert_eq!((status, &refused["detail"]), (401, &json!("jwt required")), "{path} is for people");
    }
}

#[tokio::test]
async fn a_request_acts_in_the_org_that_its_header_names() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (_, org) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": "Second"})).await;
    let second = org["id"].as_str().unwrap();
    let within = |org: &str| root.request(&rig, Method::GET, "/v1/me").header("x-pandastack-org", org);
    for (org, workspace) in [(root.org.as_str(), "default"), (second, "second"), (root.org.as_str(), "default")] {
        assert_eq!(answer(within(org)).await.1["workspace"], json!(workspace));
    }
    for stranger in ["x", &"x".repeat(1000), "00000000-0000-0000-0000-000000000000"] {
        let (status, refused) = answer(within(stranger)).await;
        assert_eq!((status, &refused["error"]), (403, &json!("not a member of requested org")));
    }
    // A key has one workspace, whatever the header says; and identity headers are dropped.
    let keyed = rig.call(Method::GET, "/v1/me").header("x-pandastack-org", second).header("x-fcs-workspace", "second");
    assert_eq!(answer(keyed).await.1["workspace"], json!("default"));
    let forged = rig.http.get(format!("{}/v1/me", rig.url)).header("x-pandastack-user-id", &root.id);
    assert_eq!(answer(forged).await.0, 401);
    // A key that is made there belongs to that organisation.
    let made = root.request(&rig, Method::POST, "/v1/me/tokens").header("x-pandastack-org", second);
    let (status, key) = answer(made.json(&json!({"name": "ci", "expires_in_days": 3}))).await;
    assert_eq!((status, &key["label"]), (200, &json!("ci")), "{key}");
    let theirs = rig.http.get(format!("{}/v1/me", rig.url)).bearer_auth(key["token"].as_str().unwrap());
    let (_, me) = answer(theirs).await;
    assert_eq!((&me["user_id"], &me["auth_method"], &me["orgs"]), (&json!("second"), &json!("token"), &json!([])));
    let prefix = key["prefix"].as_str().unwrap();
    let revoke = |org: &str| {
        let request = root.request(&rig, Method::DELETE, &format!("/v1/me/tokens/{prefix}"));
        answer(request.header("x-pandastack-org", org.to_owned()))
    };
    assert_eq!(revoke(&root.org).await.0, 404, "a key of another organisation");
    assert_eq!(revoke(second).await.0, 204);
}

#[tokio::test]
async fn roles_decide_who_may_change_whom() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let admin = invited(&rig, &mine, "admin@example.com", "admin").await;
    let other_admin = invited(&rig, &mine, "admin2@example.com", "admin").await;
    let member = invited(&rig, &mine, "member@example.com", "member").await;
    let other_member = invited(&rig, &mine, "member2@example.com", "member").await;
    let org = format!("/v1/orgs/{}", mine.org);
    let members = format!("{org}/members");
    let (_, listed) = member.get(&rig, &members).await;
    let emails: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["email"].clone()).collect();
    let expected = ["mine", "admin", "admin2", "member", "member2"].map(|name| json!(format!("{name}@example.com")));
    assert_eq!(emails, expected, "by the time they joined");
    let role = |who: &Somebody, to: &str| (format!("{members}/{}", who.id), json!({"role": to}));
    // What each role may not do.
    let refused = |done: (u16, Value), status: u16, what: &str| assert_eq!(done.0, status, "{what}: {}", done.1);
    refused(member.send(&rig, Method::POST, &members, json!({"email": "x@example.com"})).await, 403, "member invites");
    refused(member.delete(&rig, &format!("{members}/{}", other_member.id)).await, 403, "member removes");
    refused(member.get(&rig, &format!("{org}/invites")).await, 403, "member lists invites");
    refused(member.send(&rig, Method::PATCH, &org, json!({"name": "x"})).await, 403, "member renames");
    for (target, what) in [(&other_admin, "admin removes admin"), (&mine, "admin removes owner")] {
        refused(admin.delete(&rig, &format!("{members}/{}", target.id)).await, 403, what);
    }
    let (path, body) = role(&member, "admin");
    refused(admin.send(&rig, Method::PATCH, &path, body).await, 403, "admin promotes");
    refused(admin.delete(&rig, &format!("{org}?confirm=mine")).await, 403, "admin deletes the organisation");
    let transfer = json!({"user_id": admin.id});
    refused(admin.send(&rig, Method::POST, &format!("{org}/transfer"), transfer.clone()).await, 403, "admin transfers");
    let ask = json!({"email": "x@example.com", "role": "owner"});
    refused(mine.send(&rig, Method::POST, &members, ask).await, 400, "nobody is invited as an owner");
    refused(mine.delete(&rig, &format!("{members}/nobody")).await, 404, "no such member");
    refused(root.get(&rig, &members).await, 404, "strangers see nothing");
    refused(root.delete(&rig, &format!("{members}/{}", member.id)).await, 404, "strangers remove nobody");
    // The last owner stays.
    for done in [
        mine.delete(&rig, &format!("{members}/{}", mine.id)).await,
        mine.post(&rig, &format!("{org}/leave")).await,
        mine.send(&rig, Method::PATCH, &format!("{members}/{}", mine.id), json!({"role": "member"})).await,
    ] {
        assert_eq!((done.0, &done.1["code"]), (400, &json!("org.last_owner")), "{}", done.1);
    }
    // What each role may do.
    assert_eq!(admin.delete(&rig, &format!("{members}/{}", other_member.id)).await.0, 204);
    assert_eq!(mine.delete(&rig, &format!("{members}/{}", other_admin.id)).await.0, 204);
    let (path, body) = role(&member, "admin");
    assert_eq!(mine.send(&rig, Method::PATCH, &path, body).await.0, 204);
    assert_eq!(member.get(&rig, &format!("{org}/invites")).await.0, 200, "a new role counts at once");
    assert_eq!(mine.send(&rig, Method::POST, &format!("{org}/transfer"), transfer).await.0, 204);
    assert_eq!(admin.get(&rig, &org).await.1["role"], json!("owner"));
    assert_eq!(mine.get(&rig, &org).await.1["role"], json!("admin"));
    assert_eq!(mine.post(&rig, &format!("{org}/leave")).await.0, 204);
    assert_eq!(mine.get(&rig, &org).await.0, 404);
    let (_, me) = mine.get(&rig, "/v1/me").await;
    assert_eq!(me["orgs"].as_array().unwrap().len(), 1, "somebody without an organisation gets a personal one");
}

#[tokio::test]
async fn two_owners_cannot_both_leave_at_once() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let other = invited(&rig, &mine, "other@example.com", "admin").await;
    let members = format!("/v1/orgs/{}/members", mine.org);
    let path = format!("{members}/{}", other.id);
    assert_eq!(mine.send(&rig, Method::PATCH, &path, json!({"role": "owner"})).await.0, 204);
    let leave = format!("/v1/orgs/{}/leave", mine.org);
    let (one, two) = tokio::join!(mine.post(&rig, &leave), other.post(&rig, &leave));
    let mut statuses = [one.0, two.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [204, 400], "{} {}", one.1, two.1);
}

#[tokio::test]
async fn an_invite_is_for_one_person_once_and_for_seven_days() {
    let clock = Arc::new(Traveller::default());
    let rig = Rig::start_with(
        tempfile::tempdir().unwrap(),
        Arc::new(StubHost::default()),
        ControlSettings::default(),
        clock.clone() as Arc<dyn Clock>,
    )
    .await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let guest = owner(&rig, &root, "guest").await;
    let other = owner(&rig, &root, "third").await;
    let members = format!("/v1/orgs/{}/members", mine.org);
    let invite = async |email: &str, role: &str| {
        let ask = json!({"email": email, "role": role});
        let (status, invite) = mine.send(&rig, Method::POST, &members, ask).await;
        assert_eq!(status, 201, "{invite}");
        invite
    };
    let first = invite("Guest@Example.com", "admin").await;
    let token = first["token"].as_str().unwrap();
    assert!(token.len() == 48 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    assert_eq!(first["invite_url"], json!(format!("{}/invite/{token}", rig.url)));
    let (_, listed) = mine.get(&rig, &format!("/v1/orgs/{}/invites", mine.org)).await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["token"]), (1, &Value::Null), "a link is shown once");
    let accept = async |who: &Somebody, token: &str| who.post(&rig, &format!("/v1/orgs/invites/{token}/accept")).await;
    let (status, refused) = accept(&other, token).await;
    assert_eq!((status, &refused["code"]), (403, &json!("org.other_email")));
    let (status, accepted) = accept(&guest, token).await;
    assert_eq!((status, accepted), (200, json!({"org_id": mine.org, "role": "admin"})));
    assert_eq!(guest.get(&rig, "/v1/me").await.1["current_org_id"], json!(mine.org));
    assert_eq!(accept(&guest, token).await.0, 410, "used");
    // An invite to a lower role takes nothing away.
    let lower = invite("guest@example.com", "member").await;
    let (_, accepted) = accept(&guest, lower["token"].as_str().unwrap()).await;
    assert_eq!(accepted["role"], json!("admin"));
    for unknown in ["0", &"0".repeat(48), &"0".repeat(5000)] {
        assert_eq!(accept(&guest, unknown).await.0, 404);
    }
    // Withdrawn, and expired.
    let withdrawn = invite("third@example.com", "member").await;
    let path = format!("/v1/orgs/{}/invites/{}", mine.org, withdrawn["id"].as_str().unwrap());
    assert_eq!(other.delete(&rig, &path).await.0, 404, "not a stranger's");
    assert_eq!(mine.delete(&rig, &path).await.0, 204);
    assert_eq!(mine.delete(&rig, &path).await.0, 404);
    assert_eq!(accept(&other, withdrawn["token"].as_str().unwrap()).await.0, 404);
    let late = invite("third@example.com", "member").await;
    clock.travel(Duration::from_secs(7 * 24 * 3600));
    assert_eq!(accept(&other, late["token"].as_str().unwrap()).await.0, 410);
    for bad in [json!({"email": "x"}), json!({}), json!({"email": "x@example.com", "role": "king"})] {
        assert_eq!(mine.send(&rig, Method::POST, &members, bad).await.0, 400);
    }
}

#[tokio::test]
async fn an_invite_accepted_twice_at_once_is_used_once() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let guest = owner(&rig, &root, "guest").await;
    let ask = json!({"email": "guest@example.com"});
    let (_, invite) = mine.send(&rig, Method::POST, &format!("/v1/orgs/{}/members", mine.org), ask).await;
    let path = format!("/v1/orgs/invites/{}/accept", invite["token"].as_str().unwrap());
    let done = tokio::join!(guest.post(&rig, &path), guest.post(&rig, &path), guest.post(&rig, &path));
    let mut statuses = [done.0.0, done.1.0, done.2.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 410, 410]);
}

#[tokio::test]
async fn a_deleted_org_takes_everything_that_it_owns_with_it() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let member = invited(&rig, &mine, "member@example.com", "member").await;
    let (status, sandbox) = mine.send(&rig, Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await;
    assert_eq!(status, 201, "{sandbox}");
    let (status, volume) = mine.send(&rig, Method::POST, "/v1/volumes", json!({"name": "data", "size_mb": 64})).await;
    assert_eq!(status, 201, "{volume}");
    let (_, key) = mine.post(&rig, "/v1/me/tokens").await;
    let org = format!("/v1/orgs/{}", mine.org);
    let (status, refused) = mine.delete(&rig, &org).await;
    assert_eq!((status, &refused["code"]), (400, &json!("org.unconfirmed")), "{refused}");
    assert_eq!(mine.delete(&rig, &format!("{org}?confirm=other")).await.0, 400);
    assert_eq!(member.delete(&rig, &format!("{org}?confirm=mine")).await.0, 403);
    assert_eq!(mine.delete(&rig, &format!("{org}?confirm=mine")).await.0, 202);
    assert_eq!(mine.get(&rig, &org).await.0, 404);
    let keyed = rig.http.get(format!("{}/v1/me", rig.url)).bearer_auth(key["token"].as_str().unwrap());
    assert_eq!(answer(keyed).await.0, 401);
    wait_for("its machines and disks are gone", async || {
        rig.host.count() == 0 && rig.host.volumes.lock().unwrap().is_empty()
    })
    .await;
    let (status, refused) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": "Mine"})).await;
    assert_eq!((status, &refused["error"]), (409, &json!("slug already taken")), "a slug is never reused");
    let (status, refused) = root.delete(&rig, &format!("/v1/orgs/{}?confirm=default", root.org)).await;
    assert_eq!((status, &refused["code"]), (409, &json!("org.first")));
}

#[tokio::test]
async fn the_first_requests_of_a_person_at_once_make_one_personal_org() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    // Somebody whose only organisation is gone.
    assert_eq!(mine.delete(&rig, &format!("/v1/orgs/{}?confirm=mine", mine.org)).await.0, 202);
    let me = async || mine.get(&rig, "/v1/me").await.1["current_org_id"].clone();
    let orgs = tokio::join!(me(), me(), me(), me());
    assert!(orgs.0.is_string() && [&orgs.1, &orgs.2, &orgs.3].iter().all(|org| **org == orgs.0), "{orgs:?}");
    assert_eq!(mine.get(&rig, "/v1/orgs").await.1.as_array().unwrap().len(), 1);
}
