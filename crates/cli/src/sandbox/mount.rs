//! `NAME[:PATH][:ro]` on the command line.

use pandastack_client::wire::VolumeAttachment;

/// Reads an attachment of a volume.
pub fn mount(text: &str) -> Result<VolumeAttachment, String> {
    const FORM: &str = "use NAME, NAME:/PATH, NAME:ro or NAME:/PATH:ro";
    let mut parts = text.split(':');
    let name = parts.next().filter(|name| !name.is_empty()).ok_or(FORM)?;
    let mut mount = VolumeAttachment { name: name.to_owned(), read_only: None, mount_path: None };
    for part in parts {
        match part {
            "ro" | "rw" if mount.read_only.is_none() => mount.read_only = Some(part == "ro"),
            path if path.starts_with('/') && mount.mount_path.is_none() && mount.read_only.is_none() => {
                mount.mount_path = Some(path.to_owned());
            }
            _ => return Err(FORM.to_owned()),
        }
    }
    Ok(mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, Option<&str>, Option<bool>)>) {
        let got = mount(text).ok();
        let got = got.as_ref().map(|m| (m.name.as_str(), m.mount_path.as_deref(), m.read_only));
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn path_and_access_may_be_left_out() {
        check("v", Some(("v", None, None)));
        check("v:ro", Some(("v", None, Some(true))));
        check("v:/work", Some(("v", Some("/work"), None)));
        check("v:/work:ro", Some(("v", Some("/work"), Some(true))));
        check("v:/work:rw", Some(("v", Some("/work"), Some(false))));
        for bad in ["", ":ro", "v:", "v:work", "v:ro:/work", "v:/a:/b", "v:ro:ro"] {
            check(bad, None);
        }
    }
}
