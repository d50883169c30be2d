//! The manifest of a layer. Stored as JSON with a format number. Unknown formats are rejected
//! before anything starts.

use std::{collections::BTreeMap, fs, io, path::Path};

use pandastack_model::{ByteSize, ExecDefaults, LayerId};
use pandastack_vmm::{LinkState, MachineProfile};
use serde::{Deserialize, Serialize};

/// The manifest format of a layer without volumes. This build reads all formats since the first.
pub const FORMAT: u32 = 2;
/// The manifest format of a layer with volumes. Older builds would start its machines without them.
pub const FORMAT_WITH_VOLUMES: u32 = 3;

/// The contents of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub layer: LayerId,
    /// Description of the layer's source, for people.
    pub origin: String,
    /// The layer whose machine was sealed into this one. Each layer is complete: the parent may be
    /// gone.
    #[serde(default)]
    pub parent: Option<LayerId>,
    /// Digest of all inputs of a template. The same inputs find the same layer again.
    pub inputs: Option<String>,
    pub profile: MachineProfile,
    /// Protocol generation of the agent inside.
    pub guest_generation: u32,
    /// The link secret that the sealed agent expects, as hex. The folder is readable by root only.
    pub link_secret: String,
    /// An idle connection that the sealed agent holds open, if one was sealed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkState>,
    pub memory: ByteSize,
    pub cpus: u8,
    pub disk: ByteSize,
    /// Duration of the boot that this layer saves.
    pub boot_ms: u64,
    /// Defaults for commands in sandboxes made from this layer. Layers sealed from those inherit
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<StoredExecDefaults>,
    /// Volumes that were sealed with the machine, at the same moment. Each sandbox from this layer
    /// gets a clone of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<SealedVolume>,
    /// Absent for a layer sealed from a running machine: reading gigabytes would take too long
    /// there, and its files never left this host.
    #[serde(default)]
    pub digests: Option<LayerDigests>,
}

/// A volume of a sealed machine. Its image is a file of the layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedVolume {
    /// Name of the slot in which the sealed guest has it, such as `rw0`.
    pub slot: String,
    /// Where the guest was asked to mount it.
    pub path: String,
}

/// Stored form of [`ExecDefaults`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredExecDefaults {
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl From<ExecDefaults> for StoredExecDefaults {
    fn from(defaults: ExecDefaults) -> Self {
        let ExecDefaults { env, cwd, user } = defaults;
        Self { env, cwd, user }
    }
}

impl From<StoredExecDefaults> for ExecDefaults {
    fn from(defaults: StoredExecDefaults) -> Self {
        let StoredExecDefaults { env, cwd, user } = defaults;
        Self { env, cwd, user }
    }
}

/// Digests of the layer's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerDigests {
    pub mem: String,
    pub disk: String,
    pub dev: String,
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("read the manifest")]
    Read(#[source] io::Error),
    #[error("the manifest does not parse")]
    Parse(#[source] serde_json::Error),
    #[error("manifest format {found} is not supported; this build reads formats up to {FORMAT_WITH_VOLUMES}")]
    Format { found: u64 },
}

impl Manifest {
    /// Reads the manifest of the layer in a folder.
    pub fn read(folder: &Path) -> Result<Self, ManifestError> {
        let bytes = fs::read(folder.join("manifest.json")).map_err(ManifestError::Read)?;
        Self::parse(&bytes)
    }

    /// Parses a manifest. Checks its format first.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u64,
        }
        let versioned: Versioned = serde_json::from_slice(bytes).map_err(ManifestError::Parse)?;
        if versioned.format == 0 || versioned.format > u64::from(FORMAT_WITH_VOLUMES) {
            return Err(ManifestError::Format { found: versioned.format });
        }
        serde_json::from_slice(bytes).map_err(ManifestError::Parse)
    }

    /// Returns the first difference between this profile and the host's, if any: needed and
    /// present.
    pub fn mismatch(&self, host: &MachineProfile) -> Option<(String, String)> {
        let MachineProfile { driver, runtime, machine_type, cpu_profile, tsc_khz } = &self.profile;
        let pairs = [
            ("driver", driver, &host.driver),
            ("runtime", runtime, &host.runtime),
            ("machine type", machine_type, &host.machine_type),
            ("cpu profile", cpu_profile, &host.cpu_profile),
        ];
        for (what, needed, present) in pairs {
            if needed != present {
                return Some((format!("{what} {needed}"), format!("{what} {present}")));
            }
        }
        // The frequency is measured at each start of the host and varies in its last digits.
        match (*tsc_khz, host.tsc_khz) {
            (Some(needed), Some(present)) if needed.abs_diff(present) > needed / 500 => {
                Some((format!("clock {needed} kHz"), format!("clock {present} kHz")))
            }
            (Some(needed), None) => Some((format!("clock {needed} kHz"), "no fixed clock".to_owned())),
            (Some(_), Some(_)) | (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let golden = include_str!("../../../schema/layer-manifest-2.json");
        Manifest::parse(golden.as_bytes()).unwrap()
    }

    #[test]
    fn the_goldens_read_and_write_the_same() {
        let goldens = [
            include_str!("../../../schema/layer-manifest-2.json"),
            include_str!("../../../schema/layer-manifest-3.json"),
        ];
        for golden in goldens {
            let text = serde_json::to_string_pretty(&Manifest::parse(golden.as_bytes()).unwrap()).unwrap();
            assert_eq!(text, golden.trim_end());
        }
    }

    #[test]
    fn the_first_format_still_reads() {
        let old = Manifest::parse(include_bytes!("../../../schema/layer-manifest-1.json")).unwrap();
        assert_eq!((old.format, old.parent), (1, None));
        assert_eq!(old.digests.unwrap().disk, "bb");
    }

    #[test]
    fn defaults_are_kept_and_may_be_absent() {
        assert_eq!(manifest().defaults, None);
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let defaults = ExecDefaults { env, cwd: Some("/srv".to_owned()), user: None };
        let described = Manifest { defaults: Some(defaults.clone().into()), ..manifest() };
        let read = Manifest::parse(&serde_json::to_vec(&described).unwrap()).unwrap();
        assert_eq!(read.defaults.map(ExecDefaults::from), Some(defaults));
    }

    #[test]
    fn unknown_formats_are_named() {
        let error = Manifest::parse(br#"{"format": 99, "shape": "unknown"}"#).unwrap_err();
        assert!(matches!(error, ManifestError::Format { found: 99 }));
        assert!(matches!(Manifest::parse(b"not json"), Err(ManifestError::Parse(_))));
    }

    #[test]
    fn a_host_that_cannot_honour_the_profile_is_told_why() {
        let manifest = manifest();
        assert_eq!(manifest.mismatch(&manifest.profile), None);
        let mut other = manifest.profile.clone();
        other.runtime = "feedface".to_owned();
        assert!(manifest.mismatch(&other).unwrap().0.contains("runtime"));
        let mut faster = manifest.profile.clone();
        faster.tsc_khz = Some(3_000_000);
        assert!(manifest.mismatch(&faster).unwrap().0.contains("clock"));
    }
}
