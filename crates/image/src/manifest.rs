//! The documents of an image: its platforms, its layers, and its settings for commands. Pure.

use std::collections::{BTreeMap, BTreeSet};

use pandastack_dockerfile::{
    TemplateSettings,
    limits::{PORTS_MAX, VARIABLE_BYTES_MAX, VARIABLES_MAX},
};
use serde::Deserialize;

use crate::{
    limits::{IMAGE_BYTES_MAX, IMAGE_DOCUMENT_BYTES_MAX, IMAGE_LAYERS_MAX},
    reference::ImageDigest,
};

/// Accepted media types: images and indexes, of OCI and of Docker.
pub const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                            application/vnd.docker.distribution.manifest.list.v2+json, \
                            application/vnd.docker.distribution.manifest.v2+json";

/// The document that an image's name resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestDocument {
    /// A list of platforms. This is the digest of the image for our machines.
    Index(ImageDigest),
    Image {
        config: Blob,
        layers: Vec<Blob>,
    },
}

/// A layer or the configuration of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub digest: ImageDigest,
    pub bytes: u64,
}

/// Contents of an image's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageConfig {
    pub settings: TemplateSettings,
    /// Digests of the uncompressed layers.
    pub unpacked: Vec<ImageDigest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    schema_version: u32,
    #[serde(default)]
    manifests: Option<Vec<RawBlob>>,
    #[serde(default)]
    config: Option<RawBlob>,
    #[serde(default)]
    layers: Option<Vec<RawBlob>>,
}

#[derive(Deserialize)]
struct RawBlob {
    digest: String,
    size: u64,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    config: Option<RawSettings>,
    rootfs: RawRoot,
}

#[derive(Deserialize)]
struct RawRoot {
    #[serde(default)]
    diff_ids: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RawSettings {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    cmd: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
    labels: Option<BTreeMap<String, String>>,
}

/// Parses the document that a registry returned.
pub fn document(bytes: &[u8]) -> Result<ManifestDocument, String> {
    let raw: RawDocument = serde_json::from_slice(bytes).map_err(|error| format!("invalid manifest: {error}"))?;
    if raw.schema_version != 2 {
        return Err(format!("unsupported manifest version {}; only version 2 is supported", raw.schema_version));
    }
    match raw {
        RawDocument { manifests: Some(manifests), .. } => {
            let ours = |blob: &&RawBlob| {
                blob.platform.as_ref().is_some_and(|on| on.os == "linux" && on.architecture == "amd64")
            };
            let found = manifests.iter().find(ours).ok_or("the image has no version for linux/amd64")?;
            Ok(ManifestDocument::Index(blob(found)?.digest))
        }
        RawDocument { config: Some(config), layers: Some(layers), .. } => {
            if layers.len() > IMAGE_LAYERS_MAX {
                return Err(format!("the image has more than {IMAGE_LAYERS_MAX} layers"));
            }
            let layers: Vec<Blob> = layers.iter().map(blob).collect::<Result<_, _>>()?;
            let total = layers.iter().try_fold(0_u64, |sum, layer| sum.checked_add(layer.bytes));
            if total.is_none_or(|total| total > IMAGE_BYTES_MAX) {
                return Err(format!("the layers of the image are larger than {IMAGE_BYTES_MAX} bytes"));
            }
            let config = blob(&config)?;
            if config.bytes > IMAGE_DOCUMENT_BYTES_MAX as u64 {
                return Err(format!("the image configuration is larger than {IMAGE_DOCUMENT_BYTES_MAX} bytes"));
            }
            Ok(ManifestDocument::Image { config, layers })
        }
        _ => Err("the manifest describes neither an image nor a list of images".to_owned()),
    }
}

fn blob(raw: &RawBlob) -> Result<Blob, String> {
    let digest = ImageDigest::parse(&raw.digest).ok_or("a digest in the manifest is not a SHA-256 digest")?;
    Ok(Blob { digest, bytes: raw.size })
}

/// Parses the configuration of an image with this many layers.
pub fn config(bytes: &[u8], layers: usize) -> Result<ImageConfig, String> {
    let raw: RawConfig =
        serde_json::from_slice(bytes).map_err(|error| format!("invalid image configuration: {error}"))?;
    let RawConfig { os, architecture, config, rootfs } = raw;
    if os != "linux" || architecture != "amd64" {
        return Err(format!("the image is for {os:?} on {architecture:?}; only linux/amd64 is supported"));
    }
    let unpacked: Option<Vec<ImageDigest>> = rootfs.diff_ids.iter().map(|text| ImageDigest::parse(text)).collect();
    let unpacked = unpacked.filter(|unpacked| unpacked.len() == layers);
    let unpacked = unpacked.ok_or("the image configuration and the manifest list different layers")?;
    Ok(ImageConfig { settings: settings(config.unwrap_or_default())?, unpacked })
}

/// Converts to the settings that a Dockerfile would give.
fn settings(raw: RawSettings) -> Result<TemplateSettings, String> {
    let RawSettings { env, working_dir, user, cmd, entrypoint, exposed_ports, labels } = raw;
    let mut known = BTreeMap::new();
    for pair in env.unwrap_or_default() {
        let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
        if name.is_empty() || pair.contains('\0') {
            return Err("the environment of the image has a variable without a name or with a NUL byte".to_owned());
        }
        known.insert(name.to_owned(), value.to_owned());
    }
    let size = |map: &BTreeMap<String, String>| map.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let env_bytes: usize = size(&known);
    let labels = labels.unwrap_or_default();
    let label_bytes: usize = size(&labels);
    if known.len() > VARIABLES_MAX || env_bytes > VARIABLE_BYTES_MAX || label_bytes > VARIABLE_BYTES_MAX {
        return Err(format!(
            "the image has more than {VARIABLES_MAX} variables, or more than {VARIABLE_BYTES_MAX} bytes of variables \
             or labels"
        ));
    }
    let mut ports = BTreeSet::new();
    for word in exposed_ports.unwrap_or_default().keys() {
        let (port, protocol) = word.split_once('/').unwrap_or((word, "tcp"));
        // Only TCP ports can be reached from outside.
        if protocol.eq_ignore_ascii_case("tcp") {
            let port = port.parse().ok().filter(|port| *port != 0);
            ports.insert(
                port.ok_or_else(|| format!("{:?} is not a valid port", word.chars().take(32).collect::<String>()))?,
            );
        }
    }
    if ports.len() > PORTS_MAX {
        return Err(format!("the image exposes more than {PORTS_MAX} ports"));
    }
    let workdir = working_dir.filter(|path| !path.is_empty());
    if workdir.as_ref().is_some_and(|path| !path.starts_with('/') || path.contains('\0')) {
        return Err("the working directory of the image is not an absolute path".to_owned());
    }
    Ok(TemplateSettings {
        env: known,
        workdir,
        user: user.filter(|user| !user.is_empty()),
        entrypoint: entrypoint.unwrap_or_default(),
        cmd: cmd.unwrap_or_default(),
        started: false,
        ports,
        labels,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sum(digit: char) -> String {
        format!("sha256:{}", digit.to_string().repeat(64))
    }

    fn read(value: &Value) -> Result<ManifestDocument, String> {
        document(value.to_string().as_bytes())
    }

    fn said(value: &Value) -> Result<ImageConfig, String> {
        config(value.to_string().as_bytes(), 1)
    }

    #[test]
    fn the_machines_platform_is_chosen_from_a_list() {
        let other = json!({"digest": sum('a'), "size": 1, "platform": {"os": "linux", "architecture": "arm64"}});
        let ours = json!({"digest": sum('b'), "size": 1, "platform": {"os": "linux", "architecture": "amd64"}});
        let list = json!({"schemaVersion": 2, "manifests": [other, ours]});
        assert_eq!(read(&list), Ok(ManifestDocument::Index(ImageDigest::parse(&sum('b')).unwrap())));
        let list = json!({"schemaVersion": 2, "manifests": [other]});
        assert_eq!(read(&list), Err("the image has no version for linux/amd64".to_owned()));
    }

    #[test]
    fn what_is_too_much_or_makes_no_sense_is_refused() {
        let part = |size: u64| json!({"digest": sum('a'), "size": size});
        let image =
            |config: Value, layers: Vec<Value>| read(&json!({"schemaVersion": 2, "config": config, "layers": layers}));
        assert!(image(part(1), vec![part(1), part(2)]).is_ok());
        assert!(image(part(1), vec![part(IMAGE_BYTES_MAX), part(1)]).is_err());
        assert!(image(part(1), vec![part(u64::MAX), part(2)]).is_err());
        assert!(image(part(1), vec![part(1); IMAGE_LAYERS_MAX + 1]).is_err());
        assert!(image(part(u64::MAX), vec![]).is_err());
        assert!(image(json!({"digest": "sha512:00", "size": 1}), vec![]).is_err());
        assert!(read(&json!({"schemaVersion": 1, "fsLayers": []})).is_err());
        assert!(read(&json!({"schemaVersion": 2})).is_err());
        assert!(document(b"{").is_err());
    }

    #[test]
    fn a_configuration_says_what_a_dockerfile_would() {
        let whole = json!({
            "os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [sum('c')]},
            "config": {"Env": ["PATH=/bin", "A=b=c", "EMPTY="], "WorkingDir": "/srv", "User": "ann", "Cmd": ["serve"],
                "Entrypoint": ["/init"], "ExposedPorts": {"80/tcp": {}, "53/udp": {}}, "Labels": {"by": "us"}},
        });
        let ImageConfig { settings, unpacked } = said(&whole).unwrap();
        assert_eq!((settings.env["A"].as_str(), settings.env["EMPTY"].as_str(), settings.env.len()), ("b=c", "", 3));
        assert_eq!((settings.workdir.as_deref(), settings.user.as_deref()), (Some("/srv"), Some("ann")));
        assert_eq!((settings.entrypoint, settings.cmd), (vec!["/init".to_owned()], vec!["serve".to_owned()]));
        assert_eq!((settings.ports, settings.labels["by"].as_str()), (BTreeSet::from([80]), "us"));
        assert_eq!(unpacked, [ImageDigest::parse(&sum('c')).unwrap()]);
    }

    #[test]
    fn a_configuration_that_does_not_fit_is_refused() {
        let with = |config: Value| {
            said(&json!({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": [sum('c')]}, "config": config}))
        };
        assert!(with(json!(null)).is_ok());
        assert!(with(json!({"Env": null, "Cmd": null, "ExposedPorts": null})).is_ok());
        for bad in [
            json!({"Env": ["=x"]}),
            json!({"Env": ["A=\u{0}"]}),
            json!({"WorkingDir": "srv"}),
            json!({"ExposedPorts": {"0/tcp": {}}}),
            json!({"ExposedPorts": {"70000": {}}}),
            json!({"Env": ["A=".to_owned() + &"x".repeat(VARIABLE_BYTES_MAX)]}),
        ] {
            assert!(with(bad.clone()).is_err(), "{bad}");
        }
        assert!(said(&json!({"os": "linux", "architecture": "arm64", "rootfs": {"diff_ids": [sum('c')]}})).is_err());
        assert!(said(&json!({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": []}})).is_err());
    }
}
