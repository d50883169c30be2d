//! The roles of an org's members, and what each may do to the others.

use std::{fmt, str::FromStr};

/// A member's role. A later one may do all that an earlier one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Uses what the org owns.
    Member,
    /// Also invites and removes members.
    Admin,
    /// Also manages admins, billing and the org itself.
    Owner,
}

/// The text is no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is one of owner, admin, member")]
pub struct BadRole;

impl Role {
    pub const ALL: [Role; 3] = [Role::Member, Role::Admin, Role::Owner];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }

    /// Tells whether this role may invite somebody to a role. Nobody is invited as an owner.
    pub fn may_invite(self, to: Role) -> bool {
        self >= Role::Admin && to != Role::Owner
    }

    /// Tells whether this role may move another member from one role to another, or out (`None`).
    /// Only owners change owners and admins, or make new ones.
    pub fn may_change(self, from: Role, to: Option<Role>) -> bool {
        match self {
            Role::Owner => true,
            Role::Admin => from == Role::Member && to.is_none_or(|to| to == Role::Member),
            Role::Member => false,
        }
    }
}

impl FromStr for Role {
    type Err = BadRole;

    fn from_str(text: &str) -> Result<Self, BadRole> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(BadRole)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_role_may_do_all_that_an_earlier_one_may() {
        let to = [None, Some(Role::Member), Some(Role::Admin), Some(Role::Owner)];
        for pair in Role::ALL.windows(2) {
            for from in Role::ALL {
                for to in to {
                    assert!(!pair[0].may_change(from, to) || pair[1].may_change(from, to), "{pair:?} {from} {to:?}");
                }
                assert!(!pair[0].may_invite(from) || pair[1].may_invite(from), "{pair:?} {from}");
            }
        }
    }

    #[test]
    fn an_admin_manages_members_only() {
        assert!(Role::Admin.may_change(Role::Member, None));
        for (from, to) in [(Role::Admin, None), (Role::Owner, None), (Role::Member, Some(Role::Admin))] {
            assert!(!Role::Admin.may_change(from, to) && Role::Owner.may_change(from, to));
        }
        assert!(Role::Admin.may_invite(Role::Admin) && !Role::Owner.may_invite(Role::Owner));
        assert!(!Role::Member.may_invite(Role::Member));
    }

    #[test]
    fn a_role_is_written_as_it_is_read() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert_eq!("Owner".parse::<Role>(), Err(BadRole));
    }
}
