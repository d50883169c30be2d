//! A small OpenID provider on loopback, for tests: discovery, keys, an authorize endpoint that
//! signs a preset user in without asking, and a token endpoint. It can be told to misbehave.

mod keys;
mod serve;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pandastack_dial::{
    AddressPolicy, ConnectionTask, Dialer, TrustRoots,
    http::{HttpClient, HttpLimits, HttpRequest, header::LOCATION},
};
use pandastack_kit::{Clock, Scope};
use serde_json::{Value, json};
use url::Url;

use self::keys::SigningKeys;
pub use crate::jwt::keys::JwtAlgorithm;
use crate::oidc::LoginCallback;

/// Seconds that a token is valid.
const TOKEN_LIFE_S: u64 = 300;

/// What a provider is started with.
pub struct ProviderSetup {
    pub clock: Arc<dyn Clock>,
    pub scope: Scope,
    pub client_id: String,
    pub client_secret: String,
    pub redirect_url: String,
    /// `client_secret_basic` or `client_secret_post`.
    pub client_proof: &'static str,
}

impl ProviderSetup {
    /// The setup of a client called `pandastack`.
    pub fn new(clock: Arc<dyn Clock>, scope: Scope) -> Self {
        Self {
            clock,
            scope,
            client_id: "pandastack".to_owned(),
            client_secret: "client secret: +/ä".to_owned(),
            redirect_url: "http://127.0.0.1:1/callback".to_owned(),
            client_proof: "client_secret_basic",
        }
    }
}

/// The user that the authorize endpoint signs in.
#[derive(Clone, Debug)]
pub struct ProviderUser {
    pub subject: String,
    pub email: String,
    pub email_verified: bool,
    pub name: String,
}

impl Default for ProviderUser {
    fn default() -> Self {
        Self {
            subject: "user-1".to_owned(),
            email: "Ada@Example.org".to_owned(),
            email_verified: true,
            name: "Ada Lovelace".to_owned(),
        }
    }
}

/// A defect of the tokens that the provider issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenDefect {
    WrongNonce,
    NoNonce,
    WrongAudience,
    /// The right audience and another one, without a party.
    SecondAudience,
    WrongParty,
    WrongIssuer,
    Expired,
    /// The token names a key of the provider, and another one signed it.
    WrongKey,
    UnknownKid,
    /// The token names no key.
    NoKid,
    /// The algorithm of the header is not the key's.
    WrongKeyType,
    AlgorithmNone,
    /// HMAC with the public key as its secret.
    HmacWithPublicKey,
    /// The answer has no ID token.
    Missing,
}

/// A running provider. Dropping it stops it.
pub struct OidcProvider {
    shared: Arc<ProviderShared>,
    scope: Scope,
    _task: ConnectionTask,
}

struct ProviderShared {
    setup: ProviderSetup,
    address: SocketAddr,
    state: Mutex<ProviderState>,
}

struct ProviderState {
    user: ProviderUser,
    algorithm: JwtAlgorithm,
    keys: SigningKeys,
    defect: Option<TokenDefect>,
    denies: bool,
    is_down: bool,
    codes: HashMap<String, IssuedCode>,
    requests: HashMap<String, usize>,
}

/// What a code stands for.
struct IssuedCode {
    nonce: String,
    challenge: String,
    redirect_uri: String,
}

impl OidcProvider {
    /// Starts a provider on a free port.
    pub async fn start(setup: ProviderSetup) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let state = ProviderState {
            user: ProviderUser::default(),
            algorithm: JwtAlgorithm::Es256,
            keys: SigningKeys::new(0),
            defect: None,
            denies: false,
            is_down: false,
            codes: HashMap::new(),
            requests: HashMap::new(),
        };
        let (address, scope) = (listener.local_addr()?, setup.scope.clone());
        let shared = Arc::new(ProviderShared { setup, address, state: Mutex::new(state) });
        let task = scope.start("test identity provider", serve::serve(listener, shared.clone(), scope.clone()));
        Ok(Self { shared, scope, _task: ConnectionTask::of(task) })
    }

    pub fn issuer(&self) -> String {
        self.shared.issuer()
    }

    pub fn jwks_url(&self) -> String {
        format!("{}/keys", self.issuer())
    }

    /// Sets the user of the next logins.
    pub fn set_user(&self, user: ProviderUser) {
        self.shared.lock().user = user;
    }

    /// Sets the algorithm of the next tokens.
    pub fn set_algorithm(&self, algorithm: JwtAlgorithm) {
        self.shared.lock().algorithm = algorithm;
    }

    /// Sets or removes a defect of the next tokens.
    pub fn set_defect(&self, defect: Option<TokenDefect>) {
        self.shared.lock().defect = defect;
    }

    /// Makes the authorize endpoint refuse every login, or not any more.
    pub fn set_denies(&self, denies: bool) {
        self.shared.lock().denies = denies;
    }

    /// Replaces every key.
    pub fn rotate(&self) {
        let mut state = self.shared.lock();
        state.keys = state.keys.next();
    }

    /// Closes every new connection without an answer, or answers again.
    pub fn set_down(&self, is_down: bool) {
        self.shared.lock().is_down = is_down;
    }

    /// Counts the requests to a path such as `/keys`.
    pub fn requests(&self, path: &str) -> usize {
        self.shared.lock().requests.get(path).copied().unwrap_or(0)
    }

    /// Signs claims with the current key. A defect of signatures applies.
    pub fn sign(&self, claims: &Value) -> String {
        self.shared.lock().token(claims)
    }

    /// Issues a token for the current user, as a login does.
    pub fn issue(&self, nonce: Option<&str>) -> String {
        let state = self.shared.lock();
        state.token(&self.shared.claims(&state, nonce))
    }

    /// Plays the browser: requests the authorize URL, and returns what is then sent to our page.
    pub async fn sign_in(&self, authorize_url: &Url) -> Result<LoginCallback, String> {
        let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::Host, self.scope.clone());
        let http = HttpClient::new(dialer, self.scope.clone(), HttpLimits::default());
        let answer = http.send(HttpRequest::get(authorize_url.clone())).await.map_err(|error| error.to_string())?;
        let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok());
        let to = to.ok_or_else(|| format!("no redirect: {}", String::from_utf8_lossy(&answer.body)))?;
        let to = Url::parse(to).map_err(|error| error.to_string())?;
        let of = |name: &str| to.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        Ok(LoginCallback {
            state: of("state"),
            code: of("code"),
            error: of("error"),
            error_description: of("error_description"),
            iss: of("iss"),
        })
    }
}

impl ProviderShared {
    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    fn lock(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The claims of an ID token, with the defects of claims.
    fn claims(&self, state: &ProviderState, nonce: Option<&str>) -> Value {
        let now_s = self.setup.clock.now_ns() / 1_000_000_000;
        let user = &state.user;
        let mut claims = json!({
            "iss": self.issuer(), "aud": self.setup.client_id, "sub": user.subject,
            "email": user.email, "email_verified": user.email_verified, "name": user.name,
            "iat": now_s, "exp": now_s + TOKEN_LIFE_S, "nonce": nonce,
        });
        let (name, value) = match state.defect {
            Some(TokenDefect::WrongNonce) => ("nonce", json!("0".repeat(48))),
            Some(TokenDefect::NoNonce) => ("nonce", Value::Null),
            Some(TokenDefect::WrongAudience) => ("aud", json!(["somebody-else"])),
            Some(TokenDefect::SecondAudience) => ("aud", json!([self.setup.client_id, "somebody-else"])),
            Some(TokenDefect::WrongParty) => ("azp", json!("somebody-else")),
            Some(TokenDefect::WrongIssuer) => ("iss", json!("https://id.example")),
            Some(TokenDefect::Expired) => ("exp", json!(now_s - 61)),
            _ => return claims,
        };
        claims[name] = value;
        claims
    }
}

impl ProviderState {
    /// Writes a token, with the defects of signatures.
    fn token(&self, claims: &Value) -> String {
        let mut header = json!({ "alg": self.algorithm.as_str(), "typ": "JWT", "kid": self.keys.kid(self.algorithm) });
        match self.defect {
            Some(TokenDefect::AlgorithmNone) => header["alg"] = json!("none"),
            Some(TokenDefect::HmacWithPublicKey) => header["alg"] = json!("HS256"),
            Some(TokenDefect::UnknownKid) => header["kid"] = json!("unknown"),
            Some(TokenDefect::NoKid) => drop(header.as_object_mut().and_then(|header| header.remove("kid"))),
            Some(TokenDefect::WrongKeyType) => header["alg"] = json!(other(self.algorithm).as_str()),
            _ => {}
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(claims));
        let signature = match self.defect {
            Some(TokenDefect::AlgorithmNone) => Vec::new(),
            Some(TokenDefect::HmacWithPublicKey) => self.keys.sign_with_public_key(message.as_bytes()),
            Some(TokenDefect::WrongKey) => self.keys.next().sign(self.algorithm, message.as_bytes()),
            Some(TokenDefect::WrongKeyType) => self.keys.sign(other(self.algorithm), message.as_bytes()),
            _ => self.keys.sign(self.algorithm, message.as_bytes()),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn other(algorithm: JwtAlgorithm) -> JwtAlgorithm {
    match algorithm {
        JwtAlgorithm::Es256 => JwtAlgorithm::Rs256,
        JwtAlgorithm::Rs256 => JwtAlgorithm::Es256,
    }
}
