//! URLs as they are printed: they must work on this computer as they stand, or the next step is
//! said beside them.

use pandastack_client::Client;

use crate::{
    output,
    resolver::{NameLookup, RESOLVER_FIX, host_of, is_below_localhost, is_local, look_up},
};

/// A URL for a person or a script, and what a person should know about it.
#[derive(Debug, PartialEq, Eq)]
pub struct PrintedUrl {
    pub url: String,
    pub note: Option<String>,
}

impl PrintedUrl {
    /// The connection URL of a database. Where the resolver does not know its name, libpq is told
    /// the address.
    pub async fn of_database(client: &Client, url: &str) -> Self {
        let lookup = look_up(host_of(url).unwrap_or_default()).await;
        database(url, client.url(), lookup)
    }

    /// A link to a port of a sandbox.
    pub async fn of_preview(client: &Client, url: &str) -> Self {
        let lookup = look_up(host_of(url).unwrap_or_default()).await;
        preview(url, client.url(), lookup)
    }

    /// Prints the URL alone to standard output, and the note to standard error.
    pub fn print(&self) -> anyhow::Result<()> {
        output::line(&self.url)?;
        self.print_note();
        Ok(())
    }

    /// Prints the note to standard error.
    pub fn print_note(&self) {
        if let Some(note) = &self.note {
            eprintln!("{note}");
        }
    }
}

fn database(url: &str, server: &str, lookup: NameLookup) -> PrintedUrl {
    let plain = |note: Option<String>| PrintedUrl { url: url.to_owned(), note };
    match lookup {
        _ if is_elsewhere(url, server) => plain(Some(format!(
            "the host of this URL is a name for this computer, but the server is at {server}; its operator chooses a \
             domain with: pandastack up --db-domain"
        ))),
        NameLookup::Found => plain(None),
        NameLookup::Unknown => {
            let joint = if url.contains('?') { '&' } else { '?' };
            let note = format!(
                "this computer's resolver does not know names below localhost, so the URL has hostaddr, which psql \
                 and other clients of libpq understand. For other drivers, run: sudo {RESOLVER_FIX}"
            );
            PrintedUrl { url: format!("{url}{joint}hostaddr=127.0.0.1"), note: Some(note) }
        }
    }
}

fn preview(url: &str, server: &str, lookup: NameLookup) -> PrintedUrl {
    let note = match lookup {
        _ if is_elsewhere(url, server) => Some(format!(
            "this link is a name for the computer that opens it, but the server is at {server}; its operator chooses \
             a domain with: pandastack up --preview-suffix"
        )),
        NameLookup::Found => None,
        NameLookup::Unknown => Some(format!(
            "browsers open this link. Other programs need a resolver that knows names below localhost, so run: sudo \
             {RESOLVER_FIX}\nor use: {}",
            curl(url)
        )),
    };
    PrintedUrl { url: url.to_owned(), note }
}

/// Whether a name is below `localhost` though its server is on another computer.
fn is_elsewhere(url: &str, server: &str) -> bool {
    host_of(url).is_some_and(is_below_localhost) && !is_local(server)
}

/// A line for curl that works without a resolver.
fn curl(url: &str) -> String {
    let host = host_of(url).unwrap_or_default();
    let port = url.split_once(&format!("{host}:")).map(|(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let port = port.unwrap_or(if url.starts_with("https:") { "443" } else { "80" });
    format!("curl --resolve '{host}:{port}:127.0.0.1' '{url}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "http://127.0.0.1:8080";
    const THERE: &str = "http://10.0.0.5:8080";
    const DATABASE: &str = "postgres://pandastack:s3cret@ab.db.localhost:5432/pandastack";
    const LINK: &str = "http://link-0a.localhost:8080/v1/p/tok/";

    fn said(printed: PrintedUrl) -> (String, String) {
        (printed.url, printed.note.unwrap_or_default())
    }

    #[test]
    fn a_database_has_its_address_only_where_the_name_is_unknown() {
        assert_eq!(said(database(DATABASE, HERE, NameLookup::Found)), (DATABASE.into(), String::new()));
        let (url, note) = said(database(DATABASE, HERE, NameLookup::Unknown));
        assert_eq!(url, format!("{DATABASE}?hostaddr=127.0.0.1"));
        assert!(note.contains("sudo apt-get install libnss-myhostname"), "{note}");
        let with_query = format!("{DATABASE}?sslmode=require");
        let (url, _) = said(database(&with_query, HERE, NameLookup::Unknown));
        assert_eq!(url, format!("{with_query}&hostaddr=127.0.0.1"));
    }

    #[test]
    fn a_server_elsewhere_is_not_here_whatever_its_names_say() {
        for lookup in [NameLookup::Found, NameLookup::Unknown] {
            let (url, note) = said(database(DATABASE, THERE, lookup));
            assert_eq!(url, DATABASE);
            assert!(note.contains(THERE) && note.contains("--db-domain"), "{note}");
            let (url, note) = said(preview(LINK, THERE, lookup));
            assert!(url == LINK && note.contains("--preview-suffix"), "{note}");
        }
        let real = "postgres://a:b@ab.db.example.com/x";
        assert_eq!(said(database(real, THERE, NameLookup::Found)), (real.into(), String::new()));
    }

    #[test]
    fn a_link_that_only_browsers_can_open_has_a_line_for_curl() {
        assert_eq!(said(preview(LINK, HERE, NameLookup::Found)), (LINK.into(), String::new()));
        let (url, note) = said(preview(LINK, HERE, NameLookup::Unknown));
        assert_eq!(url, LINK);
        assert!(note.contains("sudo apt-get install libnss-myhostname"), "{note}");
        assert!(
            note.ends_with(&format!("or use: curl --resolve 'link-0a.localhost:8080:127.0.0.1' '{LINK}'")),
            "{note}"
        );
        assert!(curl("https://a.localhost/x:1").contains("'a.localhost:443:127.0.0.1'"));
    }
}
