//! Exchanges a code for an ID token, over our own connection to the provider.

use base64::{Engine, engine::general_purpose::STANDARD};
use pandastack_dial::http::{
    HeaderMap, HttpClient, HttpRequest, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::Deserialize;
use url::form_urlencoded::{self, Serializer};

use super::{
    OidcError, OidcSettings,
    metadata::{ClientProof, ProviderMetadata, shown},
};
use crate::limits::{JWT_BYTES_MAX, PROVIDER_TOKEN_ANSWER_BYTES_MAX};

/// What is exchanged, and by whom.
pub(super) struct CodeExchange<'a> {
    pub metadata: &'a ProviderMetadata,
    pub settings: &'a OidcSettings,
    pub code: &'a str,
    pub verifier: &'a str,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

/// The error answer of RFC 6749.
#[derive(Default, Deserialize)]
struct ErrorAnswer {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Returns the ID token, which is not verified yet.
pub(super) async fn exchange(http: &HttpClient, asked: CodeExchange<'_>) -> Result<String, OidcError> {
    let answer = http.send(request(&asked)).await.map_err(OidcError::Exchange)?;
    if answer.body.len() > PROVIDER_TOKEN_ANSWER_BYTES_MAX {
        return Err(OidcError::BadTokenAnswer);
    }
    if answer.status != StatusCode::OK {
        let said: ErrorAnswer = serde_json::from_slice(&answer.body).unwrap_or_default();
        let reason = shown(&format!("{} {}", said.error, said.error_description));
        return Err(OidcError::CodeRefused { status: answer.status.as_u16(), reason: reason.trim().to_owned() });
    }
    let said: TokenAnswer = serde_json::from_slice(&answer.body).map_err(|_| OidcError::BadTokenAnswer)?;
    if said.id_token.len() > JWT_BYTES_MAX { Err(OidcError::BadTokenAnswer) } else { Ok(said.id_token) }
}

fn request(asked: &CodeExchange<'_>) -> HttpRequest {
    let OidcSettings { client_id, client_secret, redirect_url, .. } = asked.settings;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", asked.code)
        .append_pair("redirect_uri", redirect_url)
        .append_pair("code_verifier", asked.verifier);
    match asked.metadata.client_proof {
        ClientProof::Basic => {
            let proof = HeaderValue::from_str(&basic(client_id, client_secret.reveal()));
            headers.insert(AUTHORIZATION, proof.expect("base64 is a valid header"));
        }
        ClientProof::Post => {
            form.append_pair("client_id", client_id).append_pair("client_secret", client_secret.reveal());
        }
    }
    let url = asked.metadata.token_endpoint.clone();
    HttpRequest { method: Method::POST, url, headers, body: form.finish().into() }
}

/// Both parts are form-encoded first (RFC 6749, 2.3.1), so that a colon in one is not taken for the
/// separator.
fn basic(client_id: &str, client_secret: &str) -> String {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(client_secret))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_client_proof_are_encoded() {
        let header = basic("my:client", "p+ä &");
        let plain = STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(String::from_utf8(plain).unwrap(), "my%3Aclient:p%2B%C3%A4+%26");
    }
}
