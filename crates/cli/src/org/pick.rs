//! Finds the organisation and the member that a command names.

use anyhow::bail;
use pandastack_client::{
    Client,
    wire::{Org, OrgMember},
};

use crate::{GlobalArgs, advice::advise, connect::connect_person};

/// A client, and the organisation that a command is about.
pub struct ChosenOrg {
    pub client: Client,
    pub org: Org,
}

impl ChosenOrg {
    /// Finds the organisation: the argument, or else `--org`, or else the current one.
    pub async fn find(named: Option<&str>, global: &GlobalArgs) -> anyhow::Result<Self> {
        let client = connect_person(global)?;
        let org = match named.or(global.org.as_deref()).filter(|name| !name.is_empty()) {
            Some(name) => pick_org(client.orgs().await.map_err(advise)?, name)?,
            None => match client.me().await.map_err(advise)?.current_org {
                Some(org) => org,
                None => bail!("an API key belongs to no person; log in with: pandastack login"),
            },
        };
        Ok(Self { client, org })
    }

    /// Finds a member of the organisation by id or e-mail address.
    pub async fn member(&self, named: &str) -> anyhow::Result<OrgMember> {
        pick_member(&self.members().await?, named).cloned()
    }

    /// Lists the members of the organisation.
    pub async fn members(&self) -> anyhow::Result<Vec<OrgMember>> {
        self.client.members(&self.org.id).await.map_err(advise)
    }
}

/// Finds an organisation by id, slug or name. An id is preferred to a slug, and a slug to a name.
fn pick_org(mut orgs: Vec<Org>, name: &str) -> anyhow::Result<Org> {
    let exact = orgs.iter().position(|org| org.id == name).or_else(|| orgs.iter().position(|org| org.slug == name));
    if let Some(at) = exact {
        return Ok(orgs.swap_remove(at));
    }
    orgs.retain(|org| org.name == name);
    match orgs.pop() {
        Some(org) if orgs.is_empty() => Ok(org),
        Some(_) => bail!("several organisations are called {name:?}; use a slug, as in: pandastack org list"),
        None => bail!("you are in no organisation {name:?}; list yours with: pandastack org list"),
    }
}

/// Finds a member by id or e-mail address.
pub fn pick_member<'a>(members: &'a [OrgMember], name: &str) -> anyhow::Result<&'a OrgMember> {
    let by_id = members.iter().find(|member| member.user_id == name);
    match by_id.or_else(|| members.iter().find(|member| member.email.eq_ignore_ascii_case(name))) {
        Some(member) => Ok(member),
        None => bail!("no member {name:?}; list members with: pandastack member list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn org(id: &str, slug: &str, name: &str) -> Org {
        let [id, slug, name] = [id, slug, name].map(str::to_owned);
        let (owner_user_id, role, created_at) = (String::new(), "owner".to_owned(), String::new());
        Org { id, slug, name, owner_user_id, role, created_at, member_count: None }
    }

    fn check(name: &str, expected: Result<&str, &str>) {
        let orgs = vec![
            org("1", "ada", "Ada"),
            org("2", "works", "Panda Works"),
            org("3", "works-2", "Panda Works"),
            // Called as another one's slug and id.
            org("4", "four", "ada"),
            org("5", "five", "1"),
        ];
        match (pick_org(orgs, name), expected) {
            (Ok(org), Ok(id)) => assert_eq!(org.id, id, "{name}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
    }

    #[test]
    fn an_organisation_has_three_names() {
        check("1", Ok("1"));
        check("ada", Ok("1"));
        check("Ada", Ok("1"));
        check("works-2", Ok("3"));
        check("Panda Works", Err("several"));
        check("panda works", Err("org list"));
        check("", Err("org list"));
    }

    #[test]
    fn a_member_has_two_names() {
        let member = |id: &str, email: &str| OrgMember {
            user_id: id.to_owned(),
            email: email.to_owned(),
            name: String::new(),
            role: "member".to_owned(),
            joined_at: String::new(),
        };
        let members = [member("u1", "ada@b.c"), member("u2", "")];
        assert_eq!(pick_member(&members, "u2").unwrap().user_id, "u2");
        assert_eq!(pick_member(&members, "Ada@B.c").unwrap().user_id, "u1");
        assert!(pick_member(&members, "u3").unwrap_err().to_string().contains("member list"));
    }
}
