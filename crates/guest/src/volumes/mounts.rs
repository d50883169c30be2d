//! The mount table, parsed from `/proc/self/mountinfo`. Pure, except for reading that file.

use std::{fs, io};

/// One mount of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceMount {
    /// Device number, as `253:16`.
    pub(super) number: String,
    pub(super) path: String,
    /// The file system's name, as `ext4`.
    pub(super) kind: String,
    pub(super) read_only: bool,
}

/// Lists every mount.
pub(super) fn mounted() -> io::Result<Vec<DeviceMount>> {
    Ok(parse(&fs::read_to_string("/proc/self/mountinfo")?))
}

fn parse(text: &str) -> Vec<DeviceMount> {
    text.lines().filter_map(parse_line).collect()
}

/// Parses `id parent major:minor root path options ... - kind source options`. The last options are
/// the file system's.
fn parse_line(line: &str) -> Option<DeviceMount> {
    let mut words = line.split(' ').skip(2);
    let (number, path) = (words.next()?, words.nth(1)?);
    let (_, rest) = line.split_once(" - ")?;
    let mut rest = rest.split(' ');
    let kind = rest.next()?.to_owned();
    let read_only = rest.nth(1)?.split(',').any(|option| option == "ro");
    Some(DeviceMount { number: number.to_owned(), path: unescape(path), kind, read_only })
}

/// Decodes the octal escapes of spaces and similar characters.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_with_its_device_path_and_right_to_write() {
        let text = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                    31 22 254:16 / /with\\040space\\134 rw,relatime - ext4 /dev/vdb rw,errors=remount-ro\n\
                    32 22 254:80 / /models ro,relatime - ext4 /dev/vdc ro\n\
                    nonsense\n";
        let mount = |number: &str, path: &str, read_only| DeviceMount {
            number: number.into(),
            path: path.into(),
            kind: "ext4".into(),
            read_only,
        };
        let expected =
            [mount("254:0", "/", false), mount("254:16", "/with space\\", false), mount("254:80", "/models", true)];
        assert_eq!(parse(text), expected);
        assert_eq!(parse_line("1 2 3:4 / / rw - "), None);
    }
}
