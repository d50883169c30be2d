//! The caller, and the organisations that a person belongs to.

use pandastack_wire_public::{CreateOrg, CurrentOrg, Me, Org, RenameOrg, TransferOrg};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Shows the owner of this client's credential.
    pub async fn me(&self) -> Result<Me, ClientError> {
        self.json(self.request(Method::GET, &["me"])?.timeout(ANSWER_MAX)).await
    }

    /// Chooses the organisation that later requests of this person act in, in every client.
    pub async fn use_org(&self, id: &str) -> Result<CurrentOrg, ClientError> {
        let ask = CurrentOrg { org_id: id.to_owned() };
        self.json(self.request(Method::POST, &["me", "current-org"])?.timeout(ANSWER_MAX).json(&ask)).await
    }

    /// Lists the caller's organisations, oldest membership first.
    pub async fn orgs(&self) -> Result<Vec<Org>, ClientError> {
        self.json(self.request(Method::GET, &["orgs"])?.timeout(ANSWER_MAX)).await
    }

    /// Creates an organisation that the caller owns.
    pub async fn create_org(&self, ask: &CreateOrg) -> Result<Org, ClientError> {
        self.json(self.request(Method::POST, &["orgs"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Shows one organisation.
    pub async fn get_org(&self, id: &str) -> Result<Org, ClientError> {
        self.json(self.request(Method::GET, &["orgs", id])?.timeout(ANSWER_MAX)).await
    }

    /// Renames an organisation. Its slug stays.
    pub async fn rename_org(&self, id: &str, name: &str) -> Result<Org, ClientError> {
        let ask = RenameOrg { name: name.to_owned() };
        self.json(self.request(Method::PATCH, &["orgs", id])?.timeout(ANSWER_MAX).json(&ask)).await
    }

    /// Deletes an organisation and everything that it owns. Its slug confirms that it is meant.
    pub async fn delete_org(&self, id: &str, slug: &str) -> Result<(), ClientError> {
        let request = self.query_request(Method::DELETE, &["orgs", id], &[("confirm", slug)])?;
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Ends the caller's membership.
    pub async fn leave_org(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &["orgs", id, "leave"])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Makes another member the owner, and the caller an admin.
    pub async fn transfer_org(&self, id: &str, user_id: &str) -> Result<(), ClientError> {
        let ask = TransferOrg { user_id: user_id.to_owned() };
        let path = ["orgs", id, "transfer"];
        self.send(self.request(Method::POST, &path)?.timeout(ANSWER_MAX).json(&ask)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::StandIn;

    #[tokio::test]
    async fn a_chosen_organisation_is_sent_with_every_request() {
        let server = StandIn::listen().await;
        let config = server.config().with_key("pss_1".to_owned());
        let client = Client::new(config.clone().with_org("org-7").unwrap()).unwrap();
        let (orgs, seen) = tokio::join!(client.orgs(), server.answer(200, "[]"));
        assert_eq!((orgs.unwrap(), seen.first.as_str()), (Vec::new(), "GET /v1/orgs"));
        assert!(seen.head.contains("x-pandastack-org: org-7"), "{}", seen.head);
        let client = Client::new(config).unwrap();
        let (_, seen) = tokio::join!(client.orgs(), server.answer(200, "[]"));
        assert!(!seen.head.contains("x-pandastack-org"), "{}", seen.head);
    }

    #[tokio::test]
    async fn a_deletion_carries_its_confirmation() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let (done, seen) = tokio::join!(client.delete_org("a/b", "panda works"), server.answer(202, ""));
        done.unwrap();
        assert_eq!(seen.first, "DELETE /v1/orgs/a%2Fb?confirm=panda+works");
    }

    #[tokio::test]
    async fn a_key_has_no_organisation() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let body = r#"{"user_id":"w","email":"","current_org":null,"orgs":[],"auth_method":"token","workspace":"w"}"#;
        let (me, seen) = tokio::join!(client.me(), server.answer(200, body));
        assert_eq!((me.unwrap().current_org, seen.first.as_str()), (None, "GET /v1/me"));
    }
}
