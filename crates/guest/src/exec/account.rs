//! Looks up users in `/etc/passwd` and `/etc/group`. There is no name service in a static program.

use std::{fs, io};

use pandastack_sys::process::ProcessCredentials;

/// The properties of a user that a process needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) home: String,
    pub(super) credentials: ProcessCredentials,
}

/// A user that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccountError {
    #[error("user {user} does not exist")]
    Unknown { user: String },
    #[error("read {path}")]
    Read {
        path: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// Finds a user by name or number, with an optional group after a colon. A number without an entry
/// is a user without name and home.
pub(super) fn find(user: &str) -> Result<Account, AccountError> {
    let passwd = read("/etc/passwd")?;
    let group = read("/etc/group")?;
    look_up(user, &passwd, &group).ok_or_else(|| AccountError::Unknown { user: user.to_owned() })
}

fn read(path: &'static str) -> Result<String, AccountError> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(cause) => Err(AccountError::Read { path, cause }),
    }
}

fn look_up(user: &str, passwd: &str, group: &str) -> Option<Account> {
    if let Some((user, named)) = user.split_once(':') {
        let mut account = look_up(user, passwd, group)?;
        let id = group.lines().find_map(|line| group_id(line, named)).or_else(|| named.parse().ok())?;
        // Like a login into that group only: the user's other groups are left out.
        (account.credentials.group, account.credentials.groups) = (id, vec![id]);
        return Some(account);
    }
    let number = user.parse::<u32>().ok();
    let entries = || passwd.lines().filter_map(PasswdEntry::parse);
    let found =
        entries().find(|entry| entry.name == user).or_else(|| entries().find(|entry| Some(entry.user) == number));
    let entry = match (found, number) {
        (Some(entry), _) => entry,
        (None, Some(number)) => PasswdEntry { name: user, user: number, group: number, home: "/" },
        (None, None) => return None,
    };
    let mut groups = vec![entry.group];
    groups.extend(group.lines().filter_map(|line| membership(line, entry.name)).filter(|id| *id != entry.group));
    let credentials = ProcessCredentials { user: entry.user, group: entry.group, groups };
    Some(Account { name: entry.name.to_owned(), home: entry.home.to_owned(), credentials })
}

struct PasswdEntry<'a> {
    name: &'a str,
    user: u32,
    group: u32,
    home: &'a str,
}

impl<'a> PasswdEntry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let user = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let home = fields.nth(1)?;
        Some(Self { name, user, group, home: if home.is_empty() { "/" } else { home } })
    }
}

fn group_id(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':');
    (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
}

fn membership(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':');
    let id = fields.nth(2)?.parse().ok()?;
    fields.next()?.split(',').any(|member| member == name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n7:x:9:9::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nsudo:x:27:bob,ann\nann:x:1000:ann\ndocker:x:99:ann\nbad\n";

    fn check(user: &str, expected: Option<(&str, u32, &[u32], &str)>) {
        let found = look_up(user, PASSWD, GROUP);
        let found = found
            .as_ref()
            .map(|a| (a.name.as_str(), a.credentials.user, a.credentials.groups.as_slice(), a.home.as_str()));
        assert_eq!(found, expected, "{user}");
    }

    #[test]
    fn finds_names_and_numbers() {
        check("ann", Some(("ann", 1000, &[1000, 27, 99], "/home/ann")));
        check("1000", Some(("ann", 1000, &[1000, 27, 99], "/home/ann")));
        check("0", Some(("root", 0, &[0], "/root")));
        check("7", Some(("7", 9, &[9], "/")));
        check("4242", Some(("4242", 4242, &[4242], "/")));
        check("ann:docker", Some(("ann", 1000, &[99], "/home/ann")));
        check("0:27", Some(("root", 0, &[27], "/root")));
        check("ann:nowhere", None);
        check("ann:", None);
        check("nobody-here", None);
        check("", None);
        check("-1", None);
    }
}
