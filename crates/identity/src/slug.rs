//! Slugs: the short names of organisations, which are also the names of their workspaces.

use std::fmt;

use pandastack_kit::random_hex;

use crate::{email::EmailAddress, limits::SLUG_BYTES_MAX};

/// Workspaces that see every resource. No tenant may have one.
const RESERVED: &[&str] = &["admin", "default"];

/// Name of a personal organisation whose owner has no e-mail address.
const PERSONAL: &str = "Personal";

/// Characters of the user's id at the end of a personal slug.
const ID_CHARS: usize = 8;

/// A slug: words of a-z and 0-9, with single hyphens between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slug(String);

/// Why a slug cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlugError {
    #[error("a slug has 1 to {SLUG_BYTES_MAX} characters")]
    Length,
    #[error("a slug consists of a-z, 0-9 and single hyphens between them")]
    Characters,
    #[error("this slug is reserved; choose another one")]
    Reserved,
}

/// Name and slug of the organisation that a user gets at the first login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonalOrg {
    pub name: String,
    pub slug: Slug,
}

impl Slug {
    /// Makes a slug of a name. A name without usable characters gets `org-` and 8 random hex
    /// digits; a reserved one gets such digits at its end.
    pub fn from_name(name: &str) -> Self {
        let slug = shortened(&words(name), SLUG_BYTES_MAX);
        match slug.as_str() {
            "" => Self(format!("org-{}", random_hex::<4>())),
            reserved if RESERVED.contains(&reserved) => Self(format!("{reserved}-{}", random_hex::<4>())),
            _ => Self(slug),
        }
    }

    /// Checks a slug that a client chose.
    pub fn parse(text: &str) -> Result<Self, SlugError> {
        if text.is_empty() || text.len() > SLUG_BYTES_MAX {
            return Err(SlugError::Length);
        }
        if words(text) != text {
            return Err(SlugError::Characters);
        }
        if RESERVED.contains(&text) {
            return Err(SlugError::Reserved);
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Names the organisation of a user. The same user always gets the same one.
pub fn personal_org(email: Option<&EmailAddress>, user_id: &str) -> PersonalOrg {
    let name = email.map_or(PERSONAL, EmailAddress::local_part);
    let id = words(&user_id.chars().take(ID_CHARS).collect::<String>());
    // Without an id the slug would depend on chance, and a second call would make a second one.
    let id = if id.is_empty() { "user".to_owned() } else { id };
    let stem = shortened(&words(name), SLUG_BYTES_MAX - 1 - id.len());
    let slug = if stem.is_empty() { format!("org-{id}") } else { format!("{stem}-{id}") };
    PersonalOrg { name: name.to_owned(), slug: Slug(slug) }
}

/// The rule: lower case; a-z and 0-9 stay, runs of space, `_` and `-` become one hyphen, the rest
/// is dropped, and no hyphen is at the ends.
fn words(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.to_lowercase().chars() {
        match letter {
            'a'..='z' | '0'..='9' => slug.push(letter),
            ' ' | '_' | '-' if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    shortened(&slug, usize::MAX)
}

/// Cuts a slug, without a hyphen at the end.
fn shortened(slug: &str, bytes_max: usize) -> String {
    slug[..slug.len().min(bytes_max)].trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USER: &str = "0f3c9a1e-77aa-4c1e-9f00-1234567890ab";

    fn check(name: &str, expected: &str) {
        assert_eq!(Slug::from_name(name).as_str(), expected, "{name:?}");
    }

    #[test]
    fn names_become_slugs() {
        check("Acme", "acme");
        check("  Acme   Corp_ -Ltd. ", "acme-corp-ltd");
        check("Müller & Söhne", "mller-shne");
        check("a - é - b", "a-b");
        check("--x--", "x");
        check("tab\there", "tabhere");
        check("administrators", "administrators");
    }

    #[test]
    fn an_empty_name_gets_a_random_slug() {
        for name in ["", "---", "日本", "!?"] {
            let slug = Slug::from_name(name);
            let digits = slug.as_str().strip_prefix("org-").unwrap();
            assert!(digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{slug}");
            assert_ne!(slug, Slug::from_name(name));
        }
    }

    #[test]
    fn operator_workspaces_are_never_handed_out() {
        for name in ["admin", "Admin ", "-default-", "_ADMIN_"] {
            let slug = Slug::from_name(name);
            assert!(!RESERVED.contains(&slug.as_str()), "{name}: {slug}");
            assert_eq!(Slug::parse(slug.as_str()), Ok(slug));
        }
        assert_eq!(Slug::parse("admin"), Err(SlugError::Reserved));
        assert_eq!(Slug::parse("default"), Err(SlugError::Reserved));
        assert_eq!(personal_org(EmailAddress::parse("admin@a.b").ok().as_ref(), USER).slug.as_str(), "admin-0f3c9a1e");
    }

    #[test]
    fn a_chosen_slug_is_checked() {
        assert_eq!(Slug::parse("acme-2").unwrap().as_str(), "acme-2");
        assert_eq!(Slug::parse(""), Err(SlugError::Length));
        assert_eq!(Slug::parse(&"x".repeat(64)), Err(SlugError::Length));
        for text in ["A", "a--b", "-a", "a-", "a b", "a_b", "a/b", "..", "é"] {
            assert_eq!(Slug::parse(text), Err(SlugError::Characters), "{text}");
        }
    }

    #[test]
    fn a_personal_org_is_named_after_its_owner() {
        let email = EmailAddress::parse("Ada.Lovelace@example.org").unwrap();
        let org = personal_org(Some(&email), USER);
        assert_eq!((org.name.as_str(), org.slug.as_str()), ("ada.lovelace", "adalovelace-0f3c9a1e"));
        let org = personal_org(None, USER);
        assert_eq!((org.name.as_str(), org.slug.as_str()), ("Personal", "personal-0f3c9a1e"));
        let odd = EmailAddress::parse("+@example.org").unwrap();
        assert_eq!(personal_org(Some(&odd), USER).slug.as_str(), "org-0f3c9a1e");
        assert_eq!(personal_org(Some(&odd), "+++").slug.as_str(), "org-user");
    }

    proptest! {
        #[test]
        fn every_slug_is_valid(name in "\\PC{0,80}") {
            let slug = Slug::from_name(&name);
            prop_assert_eq!(Slug::parse(slug.as_str()), Ok(slug));
        }

        #[test]
        fn every_personal_slug_is_valid_and_repeatable(local in "[a-z0-9_+-]{1,64}", user in "\\PC{0,40}") {
            let email = EmailAddress::parse(&format!("{local}@a.b")).ok();
            let org = personal_org(email.as_ref(), &user);
            prop_assert_eq!(Slug::parse(org.slug.as_str()), Ok(org.slug.clone()));
            prop_assert_eq!(personal_org(email.as_ref(), &user), org);
        }
    }
}
