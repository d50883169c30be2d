//! `pandastack session list`

use std::process::ExitCode;

use pandastack_client::wire::LoginSession;

use crate::{
    GlobalArgs,
    connect::connect_person,
    many::{ListFormat, TableFormat},
};

/// Arguments of `session list`.
#[derive(Debug, clap::Args)]
pub struct ListSessionsArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists the caller's sessions.
pub async fn list(args: ListSessionsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect_person(global)?;
    let head = &["ID", "CREATED", "LAST USED", "EXPIRES", "ADDRESS", "PROGRAM"];
    let listing = TableFormat { head, row, empty: "no logins; log in with: pandastack login" };
    args.form.print(global, listing, async || client.sessions().await).await
}

fn row(session: &LoginSession) -> Vec<String> {
    let LoginSession { id, created_at, last_used_at, expires_at, address, agent, current } = session;
    let agent = if *current { format!("{agent} (this one)") } else { agent.clone() };
    [id, created_at, last_used_at, expires_at, address].into_iter().cloned().chain([agent]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_session_is_marked() {
        let [id, created_at, last_used_at, expires_at, address, agent] =
            ["s1", "c", "l", "e", "127.0.0.1", "curl"].map(str::to_owned);
        let mut session = LoginSession { id, created_at, last_used_at, expires_at, address, agent, current: false };
        assert_eq!(row(&session), ["s1", "c", "l", "e", "127.0.0.1", "curl"]);
        session.current = true;
        assert_eq!(row(&session)[5], "curl (this one)");
    }
}
