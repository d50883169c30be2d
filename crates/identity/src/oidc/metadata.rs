//! What a provider says about itself at `/.well-known/openid-configuration`.

use serde::Deserialize;
use url::Url;

use crate::{fetch::provider_url, jwt::keys::JwtAlgorithm};

/// How the client proves itself when it exchanges a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProof {
    /// In the `Authorization` header (`client_secret_basic`).
    Basic,
    /// In the form (`client_secret_post`).
    Post,
}

/// The parts of a provider's description that a login uses.
#[derive(Clone, Debug)]
pub struct ProviderMetadata {
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub jwks_uri: Url,
    pub client_proof: ClientProof,
    /// Whether the provider always names itself in the answer to the browser (RFC 9207).
    pub names_itself: bool,
}

#[derive(Deserialize)]
struct RawMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    id_token_signing_alg_values_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// Where the description of an issuer is.
pub fn metadata_url(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

impl ProviderMetadata {
    /// Reads a description. It must be the wanted issuer's: another one could name other keys.
    pub fn read(bytes: &[u8], issuer: &str) -> Result<Self, String> {
        let raw: RawMetadata = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not a valid OpenID configuration: {error}"))?;
        if raw.issuer != issuer {
            return Err(format!("it is of the issuer {:?}, not of {issuer:?}", shown(&raw.issuer)));
        }
        let algorithms = raw.id_token_signing_alg_values_supported;
        if algorithms.is_some_and(|all| !all.iter().any(|one| JwtAlgorithm::parse(one).is_some())) {
            return Err("the provider signs neither with ES256 nor with RS256".to_owned());
        }
        let url = |name: &str, text: &str| provider_url(text).map_err(|error| format!("its {name}: {error}"));
        Ok(Self {
            authorization_endpoint: url("authorization_endpoint", &raw.authorization_endpoint)?,
            token_endpoint: url("token_endpoint", &raw.token_endpoint)?,
            jwks_uri: url("jwks_uri", &raw.jwks_uri)?,
            client_proof: client_proof(raw.token_endpoint_auth_methods_supported.as_deref())?,
            names_itself: raw.authorization_response_iss_parameter_supported.unwrap_or(false),
        })
    }
}

/// The specification's default is `client_secret_basic`.
fn client_proof(methods: Option<&[String]>) -> Result<ClientProof, String> {
    let Some(methods) = methods else { return Ok(ClientProof::Basic) };
    let has = |name: &str| methods.iter().any(|method| method == name);
    if has("client_secret_basic") {
        Ok(ClientProof::Basic)
    } else if has("client_secret_post") {
        Ok(ClientProof::Post)
    } else {
        Err("the provider accepts neither client_secret_basic nor client_secret_post".to_owned())
    }
}

/// A text of the provider, for an error message.
pub fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ISSUER: &str = "https://id.example/realm";

    fn read(change: impl FnOnce(&mut Value)) -> Result<ProviderMetadata, String> {
        let mut document = json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example/authorize?tenant=1",
            "token_endpoint": "https://id.example/token",
            "jwks_uri": "https://id.example/keys",
        });
        change(&mut document);
        ProviderMetadata::read(document.to_string().as_bytes(), ISSUER)
    }

    #[test]
    fn the_description_is_read() {
        let read = read(|_| {}).unwrap();
        assert_eq!(read.authorization_endpoint.as_str(), "https://id.example/authorize?tenant=1");
        assert_eq!((read.token_endpoint.as_str(), read.jwks_uri.path()), ("https://id.example/token", "/keys"));
        assert_eq!((read.client_proof, read.names_itself), (ClientProof::Basic, false));
        assert_eq!(metadata_url("https://a.example/"), "https://a.example/.well-known/openid-configuration");
        assert_eq!(metadata_url("https://a.example/x"), "https://a.example/x/.well-known/openid-configuration");
    }

    #[test]
    fn the_issuer_must_match_exactly() {
        for other in ["https://id.example/realm/", "https://ID.example/realm", "https://evil.example", ""] {
            let refused = read(|document| document["issuer"] = json!(other)).unwrap_err();
            assert!(refused.contains("it is of the issuer"), "{refused}");
        }
    }

    #[test]
    fn the_client_proves_itself_as_the_provider_wants() {
        let proof = |methods: Value| read(|document| document["token_endpoint_auth_methods_supported"] = methods);
        let both = proof(json!(["private_key_jwt", "client_secret_post", "client_secret_basic"]));
        assert_eq!(both.unwrap().client_proof, ClientProof::Basic);
        assert_eq!(proof(json!(["client_secret_post"])).unwrap().client_proof, ClientProof::Post);
        assert!(proof(json!(["private_key_jwt"])).unwrap_err().contains("client_secret_basic"));
    }

    #[test]
    fn a_description_that_cannot_be_used_is_refused() {
        assert!(ProviderMetadata::read(b"[]", ISSUER).is_err());
        for name in ["authorization_endpoint", "token_endpoint", "jwks_uri"] {
            assert!(read(|document| document[name] = json!("http://id.example/x")).unwrap_err().contains(name));
            assert!(read(|document| document[name] = Value::Null).is_err());
        }
        let algorithms = |list: Value| read(|document| document["id_token_signing_alg_values_supported"] = list);
        assert!(algorithms(json!(["HS256", "none"])).is_err());
        assert!(algorithms(json!(["HS256", "RS256"])).is_ok());
    }
}
