//! Which registries are reached, and how.

use super::*;

fn images(settings: ImageSettings) -> ImageClient {
    ImageClient::new(settings, Scope::new())
}

fn place(images: &ImageClient, url: &str) -> Result<DialTarget, String> {
    images.place(&Url::parse(url).unwrap()).map_err(|error| error.code().to_owned())
}

#[test]
fn only_near_and_named_registries_are_spoken_to_without_tls() {
    let usual = images(ImageSettings::default());
    for (registry, scheme) in [
        ("localhost:5000", "http"),
        ("127.0.0.1", "http"),
        ("[::1]:5000", "http"),
        ("10.0.0.1:5000", "https"),
        ("r.example", "https"),
    ] {
        assert_eq!(usual.base(registry).unwrap().scheme(), scheme, "{registry}");
    }
    assert_eq!(place(&usual, "http://r.example/token"), Err("template.image_bad".to_owned()));
    assert_eq!(place(&usual, "ftp://r.example/"), Err("template.image_bad".to_owned()));
    let tls = DialTarget { host: "r.example".to_owned(), port: 443, tls: true };
    assert_eq!(place(&usual, "https://r.example/"), Ok(tls));
    let named = images(ImageSettings { plain: vec!["r.example:5000".to_owned()], ..ImageSettings::default() });
    assert_eq!(named.base("r.example:5000").unwrap().scheme(), "http");
    assert_eq!(named.base("r.example").unwrap().scheme(), "https");
}

#[tokio::test]
async fn a_registry_near_the_server_is_not_reached_unless_allowed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    let usual = images(ImageSettings::default());
    let reference = usual.reference(&format!("{registry}/a")).unwrap();
    let refused = registry::RegistryClient::new(&usual, &reference, None).resolve().await.unwrap_err();
    assert_eq!(refused.code(), "template.image_not_allowed");
    let said = refused.to_string();
    assert!(said.contains("--image-allow-private"), "{said}");
    // With the listener gone, an allowed connection fails in another way than a refused one.
    drop(listener);
    let near = images(ImageSettings { reach: AddressPolicy::Private, ..ImageSettings::default() });
    let cut = registry::RegistryClient::new(&near, &reference, None).resolve().await.unwrap_err();
    assert_eq!(cut.code(), "template.image_unreachable");
}
