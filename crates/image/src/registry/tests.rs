//! Registries that demand authentication, redirect, use TLS, or return wrong data.

mod server;

use std::sync::atomic::{AtomicUsize, Ordering};

use pandastack_kit::Scope;
use serde_json::json;
use server::{AUTHORITY, Asked, Reply, Server};
use tokio_rustls::rustls::pki_types::CertificateDer;

use pandastack_dial::{AddressPolicy, TrustRoots};

use super::*;
use crate::{ImageSettings, SpoolFull};

/// A spool without a limit.
struct Folder(tempfile::TempDir);

impl LayerSpool for Folder {
    fn path(&self, part: usize) -> std::path::PathBuf {
        self.0.path().join(part.to_string())
    }

    fn charge(&mut self, _: u64) -> Result<(), SpoolFull> {
        Ok(())
    }
}

const LAYER: &[u8] = b"what is in the layer";
/// The header for `ann:hush`.
const BASIC: &str = "Basic YW5uOmh1c2g=";

fn digest(bytes: &[u8]) -> ImageDigest {
    ImageDigest::of(&Sha256::digest(bytes))
}

fn config() -> Vec<u8> {
    let root = json!({"diff_ids": [digest(LAYER).as_str()]});
    json!({"os": "linux", "architecture": "amd64", "rootfs": root}).to_string().into_bytes()
}

fn manifest() -> Vec<u8> {
    let part = |bytes: &[u8]| json!({"digest": digest(bytes).as_str(), "size": bytes.len()});
    let manifest = json!({"schemaVersion": 2, "config": part(&config()), "layers": [part(LAYER)]});
    manifest.to_string().into_bytes()
}

fn layer() -> Blob {
    Blob { digest: digest(LAYER), bytes: LAYER.len() as u64 }
}

/// The answers of a correct registry.
fn good(asked: &Asked) -> Reply {
    match asked.path.rsplit('/').next().unwrap() {
        "1" => Reply::ok(manifest()),
        sum if sum == digest(&manifest()).as_str() => Reply::ok(manifest()),
        sum if sum == digest(&config()).as_str() => Reply::ok(config()),
        sum if sum == digest(LAYER).as_str() => Reply::ok(LAYER),
        _ => Reply::Whole(404, String::new(), Vec::new()),
    }
}

fn images(roots: TrustRoots) -> ImageClient {
    ImageClient::new(ImageSettings { reach: AddressPolicy::Private, roots, ..ImageSettings::default() }, Scope::new())
}

fn ann() -> RegistryCredentials {
    RegistryCredentials { username: "ann".to_owned(), password: pandastack_kit::Secret::new("hush".to_owned()) }
}

/// Pulls the image and its layer, as a build does.
async fn pull(server: &Server, auth: Option<&RegistryCredentials>) -> Result<Vec<u8>, PullError> {
    pull_with(&images(TrustRoots::These(Vec::new())), server, "1", auth).await
}

async fn pull_with(
    images: &ImageClient,
    server: &Server,
    version: &str,
    auth: Option<&RegistryCredentials>,
) -> Result<Vec<u8>, PullError> {
    let mark = if version.contains(':') { '@' } else { ':' };
    let reference = images.reference(&format!("127.0.0.1:{}/some/app{mark}{version}", server.port)).unwrap();
    let mut registry = RegistryClient::new(images, &reference, auth);
    let image = registry.resolve().await?;
    assert_eq!(image.digest, digest(&manifest()));
    let mut spool = Folder(tempfile::tempdir().unwrap());
    registry.fetch(&image.layers[0], &mut spool, 0).await?;
    Ok(std::fs::read(spool.path(0)).unwrap())
}

/// Pulls from a registry that answers one path with `reply`, and returns the refusal.
async fn refused(at: &'static str, reply: Reply) -> (&'static str, String) {
    let server = Server::start(move |asked| if asked.path.contains(at) { reply.clone() } else { good(asked) }).await;
    let error = pull(&server, None).await.unwrap_err();
    (error.code(), error.to_string())
}

#[tokio::test]
async fn a_token_server_hears_the_password_and_nobody_else_does() {
    let store = Server::start(good).await;
    let tokens = Server::start(|asked| match asked.pass.as_deref() {
        Some(BASIC) => Reply::ok(r#"{"token": "let-me-in", "expires_in": 60}"#),
        _ => Reply::Whole(401, String::new(), Vec::new()),
    })
    .await;
    let challenge = format!("Bearer realm=\"{}\",service=\"the one\",scope=\"*\"", tokens.at("/token?a=b"));
    let blobs = store.at("");
    let registry = Server::start(move |asked| match asked.pass.as_deref() {
        Some("Bearer let-me-in") if asked.path.contains("/blobs/") => Reply::to(&format!("{blobs}{}", asked.path)),
        Some("Bearer let-me-in") => good(asked),
        _ => Reply::challenge(&challenge),
    })
    .await;
    assert_eq!(pull(&registry, Some(&ann())).await.unwrap(), LAYER);
    let path = "/token?a=b&service=the+one&scope=repository%3Asome%2Fapp%3Apull".to_owned();
    assert_eq!(tokens.seen(), [Asked { path, pass: Some(BASIC.to_owned()) }], "one token is enough");
    assert!(!registry.passes().contains(&Some(BASIC.to_owned())));
    assert_eq!(store.passes(), [None, None], "blobs lie elsewhere, where nobody needs to know");
    assert_eq!(pull(&registry, None).await.unwrap_err().code(), "template.image_denied");
    assert_eq!(tokens.passes().last(), Some(&None));
}

#[tokio::test]
async fn a_token_that_ran_out_is_asked_for_again() {
    let given = AtomicUsize::new(0);
    let tokens = Server::start(move |_| {
        let number = given.fetch_add(1, Ordering::SeqCst);
        Reply::ok(format!(r#"{{"access_token": "number-{number}"}}"#))
    })
    .await;
    let challenge = format!("Bearer realm=\"{}\"", tokens.at("/"));
    // The first token is valid only for the documents.
    let registry = Server::start(move |asked| match asked.pass.as_deref() {
        Some("Bearer number-0") if !asked.path.ends_with(digest(LAYER).as_str()) => good(asked),
        Some("Bearer number-1") => good(asked),
        _ => Reply::challenge(&challenge),
    })
    .await;
    assert_eq!(pull(&registry, None).await.unwrap(), LAYER);
    assert_eq!(tokens.passes(), [None, None]);
}

#[tokio::test]
async fn others_who_ask_for_a_password_do_not_get_it() {
    let thief = Server::start(|_| Reply::ok(r#"{"token": "thanks"}"#)).await;
    for challenge in ["Basic realm=\"here\"".to_owned(), format!("Bearer realm=\"{}\"", thief.at("/"))] {
        let store = Server::start(move |_| Reply::challenge(&challenge)).await;
        let blobs = store.at("");
        let registry = Server::start(move |asked| match asked.pass.as_deref() {
            Some(BASIC) if asked.path.contains("/blobs/") => Reply::to(&format!("{blobs}/elsewhere")),
            Some(BASIC) => good(asked),
            _ => Reply::challenge("Basic realm=\"here\""),
        })
        .await;
        assert_eq!(pull(&registry, Some(&ann())).await.unwrap_err().code(), "template.image_denied");
        assert_eq!((store.passes(), thief.seen()), (vec![None], vec![]));
    }
}

#[tokio::test]
async fn token_servers_that_give_none_are_refused() {
    for (reply, code) in [
        (Reply::ok("{}"), "template.image_denied"),
        (Reply::ok("no JSON"), "template.image_denied"),
        (Reply::ok(r#"{"token": ""}"#), "template.image_denied"),
        (Reply::ok(r#"{"token": "two\nlines"}"#), "template.image_bad"),
        (Reply::Endless, "template.image_bad"),
        (Reply::Whole(500, String::new(), Vec::new()), "template.image_denied"),
    ] {
        let tokens = Server::start(move |_| reply.clone()).await;
        let challenge = format!("Bearer realm=\"{}\"", tokens.at("/"));
        let registry = Server::start(move |_| Reply::challenge(&challenge)).await;
        let refused = pull(&registry, Some(&ann())).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
    // A password is never sent in plain text over the network.
    for realm in ["http://tokens.example/", "no address", "ftp://127.0.0.1/"] {
        let registry = Server::start(move |_| Reply::challenge(&format!("Bearer realm=\"{realm}\""))).await;
        assert_eq!(pull(&registry, Some(&ann())).await.unwrap_err().code(), "template.image_bad", "{realm}");
    }
}

#[tokio::test]
async fn redirects_end_and_lead_only_where_they_may() {
    let registry = Server::start(|asked| Reply::to(&asked.path)).await;
    let refused = pull(&registry, None).await.unwrap_err();
    assert_eq!((refused.code(), registry.seen().len()), ("template.image_unreachable", REGISTRY_REDIRECTS_MAX + 1));
    for to in ["http://blobs.example/x", "file:///etc/passwd", "http://[", "//"] {
        let registry = Server::start(move |_| Reply::to(to)).await;
        assert_eq!(pull(&registry, None).await.unwrap_err().code(), "template.image_bad", "{to}");
    }
    // A redirect cannot reach private addresses either.
    let near = Server::start(good).await;
    let images = ImageClient::new(ImageSettings::default(), Scope::new());
    let reference = images.reference("r.example/app").unwrap();
    let asking = RegistryClient::new(&images, &reference, None);
    let refused = asking.follow(Url::parse(&near.at("/")).unwrap(), "*/*").await.err().unwrap();
    assert_eq!((refused.code(), near.seen().len()), ("template.image_not_allowed", 0));
}

#[tokio::test]
async fn tls_is_trusted_only_with_somebody_who_vouches_for_it() {
    let store = Server::start_tls(good).await;
    let blobs = format!("https://localhost:{}", store.port);
    let registry = Server::start(move |asked| match asked.path.contains("/blobs/") {
        true => Reply::to(&format!("{blobs}{}", asked.path)),
        false => good(asked),
    })
    .await;
    let nobody = pull_with(&images(TrustRoots::Host), &registry, "1", None).await.unwrap_err();
    assert!(nobody.code() == "template.image_unreachable" && nobody.to_string().contains("TLS"), "{nobody}");
    assert_eq!(store.seen(), []);

    let folder = tempfile::tempdir().unwrap();
    let (bundle, empty) = (folder.path().join("ca.pem"), folder.path().join("empty.pem"));
    let lines = STANDARD.encode(AUTHORITY);
    let pem = format!("a note\n-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n");
    std::fs::write(&bundle, pem).unwrap();
    std::fs::write(&empty, "a note\n").unwrap();
    let operators = images(TrustRoots::host_and(&bundle).unwrap());
    assert_eq!(pull_with(&operators, &registry, "1", None).await.unwrap(), LAYER);
    assert!(TrustRoots::host_and(&empty).unwrap_err().to_string().contains("contains no PEM certificate"));
    assert!(TrustRoots::host_and(&folder.path().join("none")).is_err());

    // The certificate is for another name.
    let images = images(TrustRoots::These(vec![CertificateDer::from(AUTHORITY)]));
    let reference = images.reference("r.example/app").unwrap();
    let asking = RegistryClient::new(&images, &reference, None);
    let url = Url::parse(&format!("https://127.0.0.1:{}/", store.port)).unwrap();
    assert_eq!(asking.follow(url, "*/*").await.err().unwrap().code(), "template.image_unreachable");
}

#[tokio::test]
async fn what_is_not_what_its_digest_says_is_refused() {
    let other = json!({"schemaVersion": 2, "config": {"digest": digest(b"").as_str(), "size": 0}, "layers": []});
    let server = Server::start(move |asked| match asked.path.contains("/manifests/") {
        true => Reply::ok(other.to_string()),
        false => good(asked),
    })
    .await;
    let version = digest(&manifest());
    let images = images(TrustRoots::These(Vec::new()));
    let refused = pull_with(&images, &server, version.as_str(), None).await.unwrap_err();
    assert!(refused.code() == "template.image_bad" && refused.to_string().contains(version.as_str()), "{refused}");
    let server = Server::start(good).await;
    assert_eq!(pull_with(&images, &server, version.as_str(), None).await.unwrap(), LAYER);

    let mut spoiled = LAYER.to_vec();
    spoiled[3] ^= 1;
    let server = Server::start(move |asked| match asked.path.ends_with(digest(LAYER).as_str()) {
        true => Reply::ok(spoiled.clone()),
        false => good(asked),
    })
    .await;
    let refused = pull(&server, None).await.unwrap_err();
    assert!(
        refused.code() == "template.image_bad" && refused.to_string().contains(digest(LAYER).as_str()),
        "{refused}"
    );
    assert_eq!(self::refused("/blobs/", Reply::ok("{}")).await.0, "template.image_bad");
}

#[tokio::test]
async fn answers_that_are_cut_off_or_never_end_are_refused() {
    let cut = |body: Vec<u8>| {
        let at = body.len() / 2;
        Reply::Cut(body, at)
    };
    assert_eq!(refused("/manifests/", cut(manifest())).await.0, "template.image_unreachable");
    assert_eq!(refused("/blobs/", cut(config())).await.0, "template.image_unreachable");
    assert_eq!(refused("/manifests/", Reply::Endless).await.0, "template.image_bad");
    let long = format!("X-Long: {}\r\n", "x".repeat(2 * REGISTRY_HEAD_BYTES_MAX));
    assert_eq!(refused("/", Reply::Whole(200, long, Vec::new())).await.0, "template.image_unreachable");
    for status in [400, 403, 429, 500, 204] {
        let (code, text) = refused("/manifests/", Reply::Whole(status, String::new(), Vec::new())).await;
        let denied = status == 403;
        assert_eq!(code == "template.image_denied", denied, "{text}");
        assert!(denied || text.contains(&status.to_string()), "{text}");
    }
    // A layer with too few bytes, with too many, or without an end.
    for (reply, code) in [
        (cut(LAYER.to_vec()), "template.image_unreachable"),
        (Reply::ok(&LAYER[1..]), "template.image_unreachable"),
        (Reply::ok([LAYER, b"more"].concat()), "template.image_bad"),
        (Reply::Endless, "template.image_bad"),
    ] {
        let server = Server::start(move |_| reply.clone()).await;
        let images = images(TrustRoots::These(Vec::new()));
        let reference = images.reference(&format!("127.0.0.1:{}/app", server.port)).unwrap();
        let mut spool = Folder(tempfile::tempdir().unwrap());
        let refused = RegistryClient::new(&images, &reference, None).fetch(&layer(), &mut spool, 0).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
}

#[tokio::test]
async fn a_registry_that_falls_silent_is_given_up() {
    for reply in [Reply::Silence, Reply::Stalled(b"{".to_vec())] {
        let mut server = Server::start(move |_| reply.clone()).await;
        let mut bell = server.bell.take().unwrap();
        let asking = async {
            let refused = pull(&server, None).await.unwrap_err();
            (refused.code(), refused.to_string())
        };
        // After the request arrives, only the clock moves.
        let heard = async {
            bell.recv().await.unwrap();
            tokio::time::pause();
        };
        let (refused, ()) = tokio::join!(asking, heard);
        assert_eq!(refused.0, "template.image_unreachable", "{}", refused.1);
        tokio::time::resume();
    }
}
