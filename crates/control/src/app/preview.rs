//! Signed previews: `base64url(claims) . base64url(HMAC-SHA256)`. Tokens are not stored; one key
//! signs all of them. Each use checks that the sandbox exists, so the tokens of a deleted sandbox
//! stop working.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, Mac};
use pandastack_kit::Secret;
use pandastack_model::{Fault, FaultKind, GuestPort, LINK_LABEL_BYTES, LinkLabel, PathRules, SandboxId};
use pandastack_wire_fleet::{Caller, PreviewGrant, WorkspaceId};
use pandastack_wire_public::PreviewSpec;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Control, limits::PREVIEW_TOKEN_BYTES_MAX, store::SIGNING_KEY_BYTES};

/// Version of the claims. An older server refuses a newer version.
const VERSION: u32 = 1;
/// Prefix of the signed data, so that no other signature by the same key is valid for a preview.
const DOMAIN: &[u8] = b"pandastack preview\0";
const NS_PER_SECOND: u64 = 1_000_000_000;

/// A token and its expiry time.
pub struct SignedPreview {
    pub token: String,
    pub label: LinkLabel,
    pub expires_at_ns: u64,
}

/// The content of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claims {
    version: u32,
    sandbox: SandboxId,
    port: u16,
    /// Unix seconds.
    expires: u64,
    workspace: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paths: Vec<String>,
}

/// Signs and verifies tokens.
pub struct PreviewSigner {
    key: Secret<[u8; SIGNING_KEY_BYTES]>,
}

impl PreviewSigner {
    /// Makes a signer with this key.
    pub fn new(key: [u8; SIGNING_KEY_BYTES]) -> Self {
        Self { key: Secret::new(key) }
    }

    fn sign(&self, claims: &Claims) -> String {
        let claims = serde_json::to_vec(claims).expect("plain numbers and texts are always JSON");
        let signature = self.mac(&claims).finalize().into_bytes();
        format!("{}.{}", BASE64.encode(&claims), BASE64.encode(signature))
    }

    /// Reads a token that this key signed. Does not check the expiry time or the sandbox.
    fn read(&self, token: &str) -> Option<Claims> {
        if token.len() > PREVIEW_TOKEN_BYTES_MAX {
            return None;
        }
        let (claims, signature) = token.split_once('.')?;
        let (claims, signature) = (BASE64.decode(claims).ok()?, BASE64.decode(signature).ok()?);
        // Constant time, so that a forger learns nothing from the duration.
        self.mac(&claims).verify_slice(&signature).ok()?;
        serde_json::from_slice(&claims).ok().filter(|claims: &Claims| claims.version == VERSION)
    }

    fn mac(&self, claims: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.reveal()).expect("a key of any length will do");
        mac.update(DOMAIN);
        mac.update(claims);
        mac
    }
}

impl Control {
    /// Signs a preview of a sandbox of the caller.
    pub(crate) async fn sign_preview(
        &self,
        caller: &Caller,
        id: SandboxId,
        ask: &PreviewSpec,
    ) -> Result<SignedPreview, Fault> {
        self.reachable(caller, id).await?;
        let expires = (self.clock.now_ns() / NS_PER_SECOND).saturating_add(ask.ttl.as_secs());
        let claims = Claims {
            version: VERSION,
            sandbox: id,
            port: ask.port.get(),
            expires,
            workspace: caller.workspace.0.clone(),
            paths: ask.paths.as_slice().to_vec(),
        };
        let token = self.access.signer.sign(&claims);
        let expires_at_ns = expires.saturating_mul(NS_PER_SECOND);
        Ok(SignedPreview { label: label_of(&token), token, expires_at_ns })
    }

    /// Returns the access that a token grants.
    pub(crate) async fn read_preview(&self, token: &str) -> Result<PreviewGrant, Fault> {
        let claims = self.access.signer.read(token).ok_or_else(|| refused("this preview link is not valid"))?;
        if claims.expires <= self.clock.now_ns() / NS_PER_SECOND {
            return Err(refused("this preview link has expired"));
        }
        let port = GuestPort::try_from(i64::from(claims.port)).map_err(Fault::bug)?;
        let paths = PathRules::new(claims.paths).map_err(Fault::bug)?;
        self.reachable(&Caller::of(WorkspaceId(claims.workspace)), claims.sandbox).await?;
        Ok(PreviewGrant { sandbox: claims.sandbox, port, paths, label: label_of(token) })
    }
}

/// Returns the host name label of a token's link. Links have different origins, so their programs
/// share no cookies and no storage.
fn label_of(token: &str) -> LinkLabel {
    let digest = Sha256::digest(token.as_bytes());
    let mut label = [0; LINK_LABEL_BYTES];
    label.copy_from_slice(&digest[..LINK_LABEL_BYTES]);
    LinkLabel::new(label)
}

fn refused(text: &str) -> Fault {
    Fault::new(FaultKind::Unauthorized, "preview.bad_token", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            version: VERSION,
            sandbox: SandboxId::random(),
            port: 3000,
            expires: 1,
            workspace: "w".to_owned(),
            paths: vec!["/docs".to_owned()],
        }
    }

    #[test]
    fn a_token_is_read_by_who_signed_it_only() {
        let (signer, claims) = (PreviewSigner::new([7; 32]), claims());
        let token = signer.sign(&claims);
        assert_eq!(signer.read(&token), Some(claims));
        assert_eq!(PreviewSigner::new([8; 32]).read(&token), None);
    }

    #[test]
    fn no_changed_token_is_read() {
        let signer = PreviewSigner::new([7; 32]);
        let token = signer.sign(&claims());
        for at in 0..token.len() {
            for other in ["A", "-", ".", "=", "é"] {
                let mut forged = token.clone();
                forged.replace_range(at..=at, other);
                if forged != token {
                    assert_eq!(signer.read(&forged), None, "{forged}");
                }
            }
            assert_eq!(signer.read(&token[..at]), None);
        }
        let other = signer.sign(&Claims { port: 22, ..claims() });
        let mixed = format!("{}.{}", other.split_once('.').unwrap().0, token.split_once('.').unwrap().1);
        for forged in [mixed, format!("{token}A"), format!("{token}.x"), "x".repeat(1 << 20), String::new(), ".".into()]
        {
            assert_eq!(signer.read(&forged), None);
        }
    }

    #[test]
    fn another_form_is_refused() {
        let signer = PreviewSigner::new([7; 32]);
        assert_eq!(signer.read(&signer.sign(&Claims { version: VERSION + 1, ..claims() })), None);
    }
}
