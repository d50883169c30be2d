//! `pandastack whoami`

use std::process::ExitCode;

use pandastack_client::wire::Me;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Shows the owner of the credential.
pub async fn whoami(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let me = client.me().await.map_err(advise)?;
    if global.is_structured() {
        global.print(&me)?;
    } else {
        output::table(&["server", client.url()], &rows(&me))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(me: &Me) -> Vec<Vec<String>> {
    let Me { user_id, email, current_org, current_org_id: _, orgs, auth_method, workspace, operator } = me;
    let user = match (email.as_str(), auth_method.as_str()) {
        ("", "token") => None,
        ("", _) => Some(user_id.clone()),
        (email, _) => Some(format!("{email} ({user_id})")),
    };
    let others = orgs.iter().filter(|org| current_org.as_ref().is_none_or(|current| current.id != org.id)).count();
    let rows = [
        ("user", user),
        ("organisation", current_org.as_ref().map(|org| format!("{} ({})", org.name, org.id))),
        ("role", current_org.as_ref().map(|org| org.role.clone())),
        ("others", (others > 0).then(|| format!("{others}; list them with: pandastack org list"))),
        ("workspace", Some(workspace.clone())),
        ("credential", Some(method(auth_method).to_owned())),
        ("operator", operator.then(|| "yes".to_owned())),
    ];
    rows.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}

fn method(auth_method: &str) -> &str {
    match auth_method {
        "token" => "API key",
        "session" => "login",
        "jwt" => "token of an identity provider",
        "stub" => "none: this server does not check",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use pandastack_client::wire::Org;

    use super::*;

    fn org(id: &str) -> Org {
        Org {
            id: id.into(),
            slug: format!("slug-{id}"),
            name: format!("Name {id}"),
            owner_user_id: "u1".into(),
            role: "admin".into(),
            created_at: String::new(),
            member_count: None,
        }
    }

    fn text(me: &Me) -> String {
        rows(me).iter().map(|row| row.join("=")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_person_sees_the_organisation_and_the_role() {
        let mut me = Me {
            user_id: "u1".into(),
            email: "ada@b.c".into(),
            current_org: Some(org("1")),
            current_org_id: Some("1".into()),
            orgs: vec![org("1"), org("2")],
            auth_method: "session".into(),
            workspace: "slug-1".into(),
            operator: true,
        };
        assert_eq!(
            text(&me),
            "user=ada@b.c (u1)\norganisation=Name 1 (1)\nrole=admin\n\
             others=1; list them with: pandastack org list\nworkspace=slug-1\ncredential=login\noperator=yes"
        );
        me = Me { current_org: None, orgs: Vec::new(), operator: false, email: String::new(), ..me };
        me.auth_method = "token".into();
        assert_eq!(text(&me), "workspace=slug-1\ncredential=API key");
    }
}
