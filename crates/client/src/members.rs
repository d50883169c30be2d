//! Members of organisations, and the invites by which they come.

use pandastack_wire_public::{AcceptedInvite, ChangeMember, CreateInvite, InviteInfo, OrgInvite, OrgMember};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Lists the members of an organisation.
    pub async fn members(&self, org: &str) -> Result<Vec<OrgMember>, ClientError> {
        self.json(self.request(Method::GET, &["orgs", org, "members"])?.timeout(ANSWER_MAX)).await
    }

    /// Invites somebody. Only this response contains the link.
    pub async fn invite_member(&self, org: &str, ask: &CreateInvite) -> Result<OrgInvite, ClientError> {
        self.json(self.request(Method::POST, &["orgs", org, "members"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Changes the role of a member.
    pub async fn change_member(&self, org: &str, user: &str, ask: &ChangeMember) -> Result<(), ClientError> {
        let path = ["orgs", org, "members", user];
        self.send(self.request(Method::PATCH, &path)?.timeout(ANSWER_MAX).json(ask)).await.map(drop)
    }

    /// Removes a member.
    pub async fn remove_member(&self, org: &str, user: &str) -> Result<(), ClientError> {
        let path = ["orgs", org, "members", user];
        self.send(self.request(Method::DELETE, &path)?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Lists the open invites of an organisation, newest first.
    pub async fn invites(&self, org: &str) -> Result<Vec<OrgInvite>, ClientError> {
        self.json(self.request(Method::GET, &["orgs", org, "invites"])?.timeout(ANSWER_MAX)).await
    }

    /// Withdraws an open invite.
    pub async fn withdraw_invite(&self, org: &str, invite: &str) -> Result<(), ClientError> {
        let path = ["orgs", org, "invites", invite];
        self.send(self.request(Method::DELETE, &path)?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Shows an invite to the person who has its link. Needs no credential.
    pub async fn show_invite(&self, token: &str) -> Result<InviteInfo, ClientError> {
        self.json(self.request(Method::GET, &["orgs", "invites", token])?.timeout(ANSWER_MAX)).await
    }

    /// Accepts an invite. Its organisation becomes the caller's current one.
    pub async fn accept_invite(&self, token: &str) -> Result<AcceptedInvite, ClientError> {
        self.json(self.request(Method::POST, &["orgs", "invites", token, "accept"])?.timeout(ANSWER_MAX)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::StandIn;

    #[tokio::test]
    async fn members_and_invites_have_their_own_addresses() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let role = ChangeMember { role: "admin".into() };
        let (done, seen) = tokio::join!(client.change_member("o", "u", &role), server.answer(204, ""));
        done.unwrap();
        assert_eq!((seen.first.as_str(), seen.body.as_str()), ("PATCH /v1/orgs/o/members/u", r#"{"role":"admin"}"#));
        let (done, seen) = tokio::join!(client.remove_member("o", "u"), server.answer(204, ""));
        done.unwrap();
        assert_eq!(seen.first, "DELETE /v1/orgs/o/members/u");
        let (done, seen) = tokio::join!(client.withdraw_invite("o", "i"), server.answer(204, ""));
        done.unwrap();
        assert_eq!(seen.first, "DELETE /v1/orgs/o/invites/i");
        let body = r#"{"org_id":"o","role":"member"}"#;
        let (accepted, seen) = tokio::join!(client.accept_invite("t"), server.answer(200, body));
        assert_eq!((accepted.unwrap().org_id, seen.first.as_str()), ("o".into(), "POST /v1/orgs/invites/t/accept"));
    }
}
