//! Users, organisations and sign-ins, as the API shows them, and the requests that change them.

use pandastack_model::{Fault, Role};
use serde::{Deserialize, Serialize};

use crate::{failure::bad, limits::ORG_NAME_BYTES_MAX};

/// An organisation, as one of its members sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Org {
    pub id: String,
    /// The workspace of everything that the organisation owns.
    pub slug: String,
    pub name: String,
    pub owner_user_id: String,
    /// The caller's role: `owner`, `admin` or `member`.
    pub role: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_count: Option<u64>,
}

/// A member of an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OrgMember {
    pub user_id: String,
    pub email: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub role: String,
    pub joined_at: String,
}

/// An invite to an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OrgInvite {
    pub id: String,
    pub org_id: String,
    pub email: String,
    pub role: String,
    pub invited_by: String,
    pub expires_at: String,
    /// The secret of the link. Only present in the response that creates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The link to send. Only present in the response that creates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite_url: Option<String>,
}

/// Creates an organisation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CreateOrg {
    pub name: String,
    /// Made from the name if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
}

/// Renames an organisation. Its slug stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RenameOrg {
    pub name: String,
}

/// Invites somebody to an organisation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CreateInvite {
    pub email: String,
    /// `member` (the default) or `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// Changes the role of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ChangeMember {
    pub role: String,
}

/// Makes another member the owner.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TransferOrg {
    pub user_id: String,
}

/// Chooses the organisation that later requests act in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CurrentOrg {
    pub org_id: String,
}

/// An invite as the invited person sees it before accepting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InviteInfo {
    pub org_name: String,
    pub email: String,
    pub role: String,
    pub expires_at: String,
}

/// What an accepted invite gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceptedInvite {
    pub org_id: String,
    pub role: String,
}

/// Reads the name of an organisation.
pub fn org_name(text: &str) -> Result<String, Fault> {
    let name = text.trim();
    if name.is_empty() {
        return Err(bad("org.bad_name", "name required"));
    }
    if name.len() > ORG_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let text = format!("name must be at most {ORG_NAME_BYTES_MAX} bytes without control characters");
        return Err(bad("org.bad_name", text));
    }
    Ok(name.to_owned())
}

/// Reads the role of an invite.
pub fn invited_role(text: Option<&str>) -> Result<Role, Fault> {
    match text {
        None | Some("") | Some("member") => Ok(Role::Member),
        Some("admin") => Ok(Role::Admin),
        Some(_) => Err(bad("org.bad_role", "role must be member or admin")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_limits() {
        assert_eq!(org_name(" Panda Works ").unwrap(), "Panda Works");
        for bad in ["", "  ", "a\nb", &"x".repeat(101)] {
            assert_eq!(org_name(bad).unwrap_err().code, "org.bad_name", "{bad:?}");
        }
        assert_eq!(org_name("").unwrap_err().text, "name required");
    }

    #[test]
    fn nobody_is_invited_as_an_owner() {
        assert_eq!(invited_role(None).unwrap(), Role::Member);
        assert_eq!(invited_role(Some("admin")).unwrap(), Role::Admin);
        for bad in ["owner", "Admin", "x"] {
            assert_eq!(invited_role(Some(bad)).unwrap_err().code, "org.bad_role");
        }
    }
}
