//! Volumes as the API shows them, and the volumes of a sandbox.

use std::{collections::BTreeSet, fmt, str::FromStr};

use pandastack_model::{ByteSize, Fault, VolumeAccess};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{bad, short},
    limits::{PATH_BYTES_MAX, VOLUME_MB_DEFAULT, VOLUME_MB_MAX, VOLUME_MB_MIN, VOLUMES_PER_ACCESS_MAX},
};

/// A durable disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Volume {
    pub name: String,
    pub size_mb: u64,
    #[serde(default)]
    pub size_bytes: u64,
    #[serde(default)]
    pub created_at: String,
    /// The sandboxes that use the volume, including sleeping ones.
    #[serde(default)]
    pub attached_to: Vec<String>,
    /// The sandbox that the volume was copied for, by a fork or from a snapshot. The volume is
    /// deleted with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
}

/// Creates a volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateVolume {
    #[serde(default)]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_mb: Option<i64>,
}

/// Grows a volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrowVolume {
    #[serde(default)]
    pub size_mb: Option<i64>,
}

/// A volume that is attached to a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VolumeAttachment {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Where the volume is mounted; by default `/mnt/` and its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
}

/// The name of a volume. It has the same form as a template name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeName(String);

/// A checked attachment of a volume to a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountSpec {
    pub name: VolumeName,
    pub path: String,
    pub access: VolumeAccess,
}

impl VolumeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for VolumeName {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let fine = (1..=64).contains(&text.len()) && text.chars().all(allowed) && !text.chars().all(|c| c == '.');
        let refused = || {
            let shown = short(text);
            bad("volume.bad_name", format!("bad volume name {shown:?}: use 1 to 64 letters, digits, '.', '_' or '-'"))
        };
        fine.then(|| Self(text.to_owned())).ok_or_else(refused)
    }
}

impl CreateVolume {
    /// Returns name and size, both checked.
    pub fn checked(self) -> Result<(VolumeName, ByteSize), Fault> {
        let Self { name, size_mb } = self;
        Ok((name.parse()?, checked_size(size_mb.unwrap_or(VOLUME_MB_DEFAULT))?))
    }
}

impl GrowVolume {
    /// Returns the new size.
    pub fn checked(self) -> Result<ByteSize, Fault> {
        checked_size(self.size_mb.ok_or_else(|| bad("volume.bad_size", "size_mb required"))?)
    }
}

fn checked_size(size_mb: i64) -> Result<ByteSize, Fault> {
    let refused =
        || bad("volume.bad_size", format!("size_mb must be {VOLUME_MB_MIN} to {VOLUME_MB_MAX}, not {size_mb}"));
    let fits = u64::try_from(size_mb).ok().filter(|size| (VOLUME_MB_MIN..=VOLUME_MB_MAX).contains(size));
    fits.map(ByteSize::mib).ok_or_else(refused)
}

/// Checks the volumes of a new sandbox. Their order is the order of the devices.
pub(crate) fn mounts_of(asked: Vec<VolumeAttachment>) -> Result<Vec<MountSpec>, Fault> {
    let readers = asked.iter().filter(|volume| volume.read_only == Some(true)).count();
    if readers > VOLUMES_PER_ACCESS_MAX || asked.len() - readers > VOLUMES_PER_ACCESS_MAX {
        let text = format!(
            "a sandbox can have at most {VOLUMES_PER_ACCESS_MAX} read-write volumes and as many read-only volumes"
        );
        return Err(bad("volume.too_many", text));
    }
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let mut mounts = Vec::new();
    for VolumeAttachment { name, read_only, mount_path } in asked {
        let name: VolumeName = name.parse()?;
        let path = mount_path.filter(|path| !path.is_empty()).unwrap_or_else(|| format!("/mnt/{name}"));
        let path = checked_mount(&path)?;
        if !names.insert(name.clone()) || !paths.insert(path.clone()) {
            let text = format!("volume {name} at {path}: each volume and each mount path may be used only once");
            return Err(bad("sandbox.bad_volumes", text));
        }
        let access = if read_only == Some(true) { VolumeAccess::ReadOnly } else { VolumeAccess::ReadWrite };
        mounts.push(MountSpec { name, path, access });
    }
    Ok(mounts)
}

/// Accepts an absolute path below the root without `.`, `..` and empty parts.
fn checked_mount(path: &str) -> Result<String, Fault> {
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    let straight = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    let fine =
        trimmed.len() < PATH_BYTES_MAX && trimmed.strip_prefix('/').is_some_and(|rest| rest.split('/').all(straight));
    let refused = || {
        let text = format!("mount_path {:?} must be an absolute path below `/`, without `.` and `..`", short(path));
        bad("volume.bad_mount_path", text)
    };
    fine.then(|| trimmed.to_owned()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(name: &str, path: Option<&str>) -> VolumeAttachment {
        VolumeAttachment { name: name.into(), read_only: None, mount_path: path.map(str::to_owned) }
    }

    fn refused(asked: Vec<VolumeAttachment>, code: &str) {
        assert_eq!(mounts_of(asked).unwrap_err().code, code);
    }

    #[test]
    fn mounts_are_checked() {
        let mounts = mounts_of(vec![mount("a", None), mount("b", Some("/work space/")), mount("c", Some(""))]).unwrap();
        let paths: Vec<_> = mounts.into_iter().map(|mount| mount.path).collect();
        assert_eq!(paths, ["/mnt/a", "/work space", "/mnt/c"]);
        refused(vec![mount("a", None), mount("a", Some("/b"))], "sandbox.bad_volumes");
        refused(vec![mount("a", None), mount("b", Some("/mnt/a"))], "sandbox.bad_volumes");
        let many = |count: usize, read_only| {
            let one =
                |n: usize| VolumeAttachment { read_only: Some(read_only), ..mount(&format!("{read_only}{n}"), None) };
            (0..count).map(one).collect::<Vec<_>>()
        };
        assert_eq!(mounts_of([many(4, true), many(4, false)].concat()).unwrap().len(), 8);
        refused(many(5, true), "volume.too_many");
        refused(many(5, false), "volume.too_many");
        refused(vec![mount("..", None)], "volume.bad_name");
        for path in ["/", "//", "mnt", "/a//b", "/a/../b", "/./a", "/a\0"] {
            refused(vec![mount("a", Some(path))], "volume.bad_mount_path");
        }
    }

    #[test]
    fn sizes_are_checked() {
        let size = |size_mb| CreateVolume { name: "v".into(), size_mb }.checked().map(|(_, size)| size.as_mib());
        assert_eq!(size(None).unwrap(), 256);
        assert_eq!(size(Some(65_536)).unwrap(), 65_536);
        for bad in [0, -1, 65_537, i64::MAX] {
            assert_eq!(size(Some(bad)).unwrap_err().code, "volume.bad_size", "{bad}");
        }
        assert_eq!(GrowVolume::default().checked().unwrap_err().code, "volume.bad_size");
    }
}
