//! Logins, sessions and passwords of people.

use pandastack_wire_public::{
    AskReset, ChangePassword, ExchangeCode, LogIn, LoggedIn, LoginMethods, LoginSession, Register, ResetPassword,
    SetUp, SignInLink,
};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Asks how people can log in. Needs no credential.
    pub async fn login_methods(&self) -> Result<LoginMethods, ClientError> {
        self.json(self.request(Method::GET, &["auth"])?.timeout(ANSWER_MAX)).await
    }

    /// Makes the first account of a server. Needs an API key of the server's first workspace.
    pub async fn set_up(&self, ask: &SetUp) -> Result<LoggedIn, ClientError> {
        self.json(self.request(Method::POST, &["auth", "setup"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Makes an account with an invite, and accepts the invite.
    pub async fn register(&self, ask: &Register) -> Result<LoggedIn, ClientError> {
        self.json(self.request(Method::POST, &["auth", "register"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Logs in with a password.
    pub async fn log_in(&self, ask: &LogIn) -> Result<LoggedIn, ClientError> {
        self.json(self.request(Method::POST, &["auth", "login"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Makes a link that logs the caller in once, for a browser.
    pub async fn make_link(&self) -> Result<SignInLink, ClientError> {
        self.json(self.request(Method::POST, &["auth", "links"])?.timeout(ANSWER_MAX)).await
    }

    /// Ends the session whose token this client has.
    pub async fn log_out(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &["auth", "logout"])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Returns the address at which a browser begins a login at the identity provider. The browser
    /// brings a code to `redirect`.
    pub fn oidc_start_url(&self, redirect: &str, challenge: &str) -> Result<String, ClientError> {
        let values = [("redirect", redirect), ("challenge", challenge)];
        self.query_address(&["auth", "oidc", "start"], &values).map(String::from)
    }

    /// Exchanges the code of a login at the identity provider for a session.
    pub async fn exchange_code(&self, ask: &ExchangeCode) -> Result<LoggedIn, ClientError> {
        self.json(self.request(Method::POST, &["auth", "oidc", "token"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Lists the caller's sessions, newest first.
    pub async fn sessions(&self) -> Result<Vec<LoginSession>, ClientError> {
        self.json(self.request(Method::GET, &["auth", "sessions"])?.timeout(ANSWER_MAX)).await
    }

    /// Ends a session of the caller.
    pub async fn end_session(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["auth", "sessions", id])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Changes the caller's password. All sessions end; the answer is a new one.
    pub async fn change_password(&self, ask: &ChangePassword) -> Result<LoggedIn, ClientError> {
        self.json(self.request(Method::POST, &["auth", "password"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Asks for a reset link by e-mail. The answer does not tell whether the account exists.
    pub async fn ask_reset(&self, ask: &AskReset) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &["auth", "reset-request"])?.timeout(ANSWER_MAX).json(ask)).await.map(drop)
    }

    /// Sets a new password with the secret of a reset link.
    pub async fn reset_password(&self, ask: &ResetPassword) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &["auth", "reset"])?.timeout(ANSWER_MAX).json(ask)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::StandIn;

    const SESSION: &str = r#"{"token":"pss_1","expires_at":"2027-01-01T00:00:00Z","user_id":"u1","email":"a@b.c"}"#;

    #[tokio::test]
    async fn a_login_sends_the_password_and_no_older_credential() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config().with_key("pds_old".to_owned()).without_key()).unwrap();
        let ask = LogIn { email: "a@b.c".into(), password: "long enough".into(), cookie: false };
        let (session, seen) = tokio::join!(client.log_in(&ask), server.answer(200, SESSION));
        assert_eq!(session.unwrap().token, "pss_1");
        assert_eq!(seen.first, "POST /v1/auth/login");
        assert_eq!(seen.body, r#"{"email":"a@b.c","password":"long enough"}"#);
        assert!(!seen.head.contains("authorization"), "{}", seen.head);
    }

    #[tokio::test]
    async fn a_refused_login_says_why() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let body = r#"{"error":"unauthorized","code":"unauthorized","detail":"the password is wrong"}"#;
        let ask = LogIn::default();
        let (refused, _) = tokio::join!(client.log_in(&ask), server.answer(401, body));
        let refused = refused.map(|_| ()).unwrap_err();
        assert_eq!(
            (refused.status(), refused.to_string().as_str()),
            (Some(401), "unauthorized: the password is wrong")
        );
    }

    #[tokio::test]
    async fn a_logout_names_its_session() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config().with_key("pss_1".to_owned())).unwrap();
        let (done, seen) = tokio::join!(client.log_out(), server.answer(204, ""));
        done.unwrap();
        assert_eq!(seen.first, "POST /v1/auth/logout");
        assert!(seen.head.contains("authorization: bearer pss_1"), "{}", seen.head);
    }

    #[tokio::test]
    async fn the_address_for_the_browser_is_escaped() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let url = client.oidc_start_url("http://127.0.0.1:5/", "a-b_c").unwrap();
        let query = "redirect=http%3A%2F%2F127.0.0.1%3A5%2F&challenge=a-b_c";
        assert_eq!(url, format!("{}/v1/auth/oidc/start?{query}", client.url()));
    }
}
