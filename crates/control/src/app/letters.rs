//! The letters to people: invites, links to reset a password, and alerts about budgets. Without a
//! mail server none is written. A letter is a courtesy: that it fails is logged, never answered.

use std::time::Duration;

use pandastack_billing::{BudgetState, CalendarWindow, UtcMonth};
use pandastack_identity::{EmailAddress, InviteToken, ResetToken};
use pandastack_mail::Letter;
use pandastack_model::Fault;
use pandastack_wire_fleet::{CallerUser, WorkspaceId};
use pandastack_wire_public::rfc3339;

use crate::{
    Control,
    limits::{ALERT_LETTERS_MAX, INVITE_LETTERS_PER_HOUR, RESET_AGE_MAX, RESET_LETTERS_PER_HOUR},
    mail::{LetterAllowance, OutgoingMail},
    store::{InviteRow, StoreError},
};

/// The last line of every letter.
const IGNORE: &str = "If you did not expect this letter, ignore it.";

const HOUR: Duration = Duration::from_secs(3600);
const INVITES: LetterAllowance = LetterAllowance { letters: INVITE_LETTERS_PER_HOUR, within: HOUR };
const RESETS: LetterAllowance = LetterAllowance { letters: RESET_LETTERS_PER_HOUR, within: HOUR };

impl Control {
    /// Mails the link of an invite.
    pub(crate) async fn mail_invite(&self, by: &CallerUser, invite: &InviteRow, token: &InviteToken) {
        let Some(mail) = &self.mail else { return };
        if !mail.counts.take(format!("invites {}", by.id), INVITES, self.clock.now_ns()) {
            tracing::warn!(user = by.id, invite = invite.id, "did not mail an invite, because its sender mailed many");
            return;
        }
        match self.store.org_of(&by.id, &invite.org).await {
            Ok(Some(org)) => {
                let link = mail.invite_link(token.reveal());
                mail.send(invite_letter(by, invite, (&org.name, &link)));
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "could not mail an invite"),
        }
    }

    /// Mails a link to reset a password, if there is such an account. It works in the background,
    /// so that neither the answer nor its time tells whether there is one.
    pub(crate) fn ask_reset(&self, email: EmailAddress) {
        let Some(mail) = self.mail.clone() else { return };
        let Some(place) = mail.reset_place() else {
            tracing::warn!("dropped a request for a reset link, because there are too many at once");
            return;
        };
        let control = self.clone();
        self.scope.start("reset link", async move {
            let _place = place;
            if let Err(error) = control.mail_reset(&mail, &email).await {
                tracing::warn!(%error, "could not mail a reset link");
            }
        });
    }

    async fn mail_reset(&self, mail: &OutgoingMail, email: &EmailAddress) -> Result<(), StoreError> {
        let Some(user) = self.store.user_with_password(email.as_str()).await? else { return Ok(()) };
        let now_ns = self.clock.now_ns();
        if user.disabled || !mail.counts.take(format!("resets {}", user.id), RESETS, now_ns) {
            return Ok(());
        }
        let token = ResetToken::generate();
        let expires_at_ns = now_ns.saturating_add(RESET_AGE_MAX.as_nanos() as u64);
        self.store.add_reset((&token.hash().to_hex(), &user.id), now_ns, expires_at_ns).await?;
        let link = mail.reset_link(token.reveal());
        let text = format!(
            "Somebody asked for a new password for {email} on PandaStack. Choose it here:\n\n\
             {link}\n\n\
             or on the command line:\n\n    pandastack reset-password {link}\n\n\
             The link works once, until {}. Until then your password stays as it is.\n\n{IGNORE}\n",
            rfc3339(expires_at_ns)
        );
        mail.send(Letter::new(email.as_str(), "Your new PandaStack password", text));
        Ok(())
    }

    /// Mails an alert about a budget to the owners and admins of a workspace's organisation.
    pub(crate) async fn mail_alert(
        &self,
        workspace: &WorkspaceId,
        state: BudgetState,
        cost: &str,
    ) -> Result<(), Fault> {
        let Some(mail) = &self.mail else { return Ok(()) };
        let month = UtcMonth::of(self.clock.now_ns());
        let Some((subject, what)) = alert_words(state, month, cost) else { return Ok(()) };
        let Some((org, managers)) = self.store.managers(workspace, ALERT_LETTERS_MAX).await? else { return Ok(()) };
        let (name, base) = (one_line(&org), mail.base());
        for email in managers {
            let text = format!(
                "{what}\n\nOrganisation: {name} ({})\nServer: {base}\n\n\
                 See the bill with \"pandastack billing\". You get this letter as an owner or an admin, once for each \
                 month and state.\n\n{IGNORE}\n",
                workspace.0
            );
            mail.send(Letter::new(&email, format!("{name}: {subject}"), text));
        }
        Ok(())
    }
}

fn invite_letter(
    by: &CallerUser,
    invite: &InviteRow,
    (org, link): (&str, &str),
) -> Result<Letter, pandastack_mail::LetterError> {
    let (org, by) = (one_line(org), if by.email.is_empty() { "A member" } else { &by.email });
    let text = format!(
        "{by} invites you to the organisation \"{org}\" on PandaStack, with the role {}. Join here:\n\n\
         {link}\n\n\
         or on the command line:\n\n    pandastack register {link}\n\n\
         If you have an account already, use \"pandastack member accept\" instead of \"pandastack register\".\n\n\
         The link works once, until {}.\n\n{IGNORE}\n",
        invite.role,
        rfc3339(invite.expires_at_ns),
    );
    Letter::new(&invite.email, format!("Invite to {org} on PandaStack"), text)
}

/// Returns the subject of an alert and what happened. `None` if there is nothing to tell.
fn alert_words(state: BudgetState, month: UtcMonth, cost: &str) -> Option<(String, String)> {
    let cost = cents(cost);
    match state {
        BudgetState::Ok => None,
        BudgetState::Alert { percent } if percent < 100 => Some((
            format!("{percent}% of the budget for {month} is used"),
            format!("The usage of {month} has cost {cost} dollars so far. That is {percent}% of the budget."),
        )),
        BudgetState::Alert { .. } => Some((
            format!("the budget for {month} is used up"),
            format!(
                "The usage of {month} has cost {cost} dollars so far, which is more than the budget. It is no hard \
                    cap, so \
                 everything goes on."
            ),
        )),
        BudgetState::OverCap { cap } => Some((
            format!("the hard cap for {month} is reached"),
            format!(
                "The usage of {month} has cost {cost} dollars so far, and the hard cap is {} dollars. All sandboxes \
                    are put \
                 to sleep, and nothing new starts before the cap is raised or the month ends.",
                cents(&cap.to_string())
            ),
        )),
    }
}

/// Shortens an amount to two decimals.
fn cents(amount: &str) -> String {
    match amount.split_once('.') {
        Some((whole, decimals)) => format!("{whole}.{}", decimals.get(..2).unwrap_or(decimals)),
        None => amount.to_owned(),
    }
}

/// Makes a name that somebody chose fit into one line.
fn one_line(name: &str) -> String {
    name.chars()
        .map(|char| if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') { ' ' } else { char })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_cents() {
        for (amount, shown) in [("0.18", "0.18"), ("12.345678901234", "12.34"), ("7", "7"), ("7.5", "7.5")] {
            assert_eq!(cents(amount), shown);
        }
    }

    #[test]
    fn every_state_has_its_words() {
        let month = UtcMonth::of(1_773_144_000 * 1_000_000_000);
        let words = |state| alert_words(state, month, "0.1812");
        assert_eq!(words(BudgetState::Ok), None);
        for (state, expected) in [
            (BudgetState::Alert { percent: 72 }, "72% of the budget for 2026-03 is used"),
            (BudgetState::Alert { percent: 100 }, "the budget for 2026-03 is used up"),
            (BudgetState::OverCap { cap: "0.25".parse().unwrap() }, "the hard cap for 2026-03 is reached"),
        ] {
            let (subject, what) = words(state).unwrap();
            assert!(subject == expected && what.contains("0.18 dollars"), "{subject}: {what}");
        }
    }
}
