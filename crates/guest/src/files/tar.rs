//! The blocks of a tar archive. Written in the GNU form, which supports any name and size; read in
//! the GNU, POSIX and old forms. Pure: bytes in, values out.

/// Size of a block. Every part of an archive is a multiple of it.
pub(super) const BLOCK_BYTES: usize = 512;

/// One block, such as a header.
pub(super) type TarBlock = [u8; BLOCK_BYTES];

const NAME: std::ops::Range<usize> = 0..100;
const MODE: std::ops::Range<usize> = 100..108;
const SIZE: std::ops::Range<usize> = 124..136;
const MODIFIED: std::ops::Range<usize> = 136..148;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const KIND: usize = 156;
const LINK: std::ops::Range<usize> = 157..257;
const MAGIC: std::ops::Range<usize> = 257..265;
const PREFIX: std::ops::Range<usize> = 345..500;

const GNU_MAGIC: &[u8] = b"ustar  \0";
const POSIX_MAGIC: &[u8] = b"ustar\0";

/// Name of the entries that carry a long name or link target of the next entry.
const LONG: &[u8] = b"././@LongLink";

/// Bytes that are not an archive.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TarError {
    #[error("the checksum of a header is wrong")]
    Checksum,
    #[error("a number in a header is malformed")]
    Number,
    #[error("an extended header is malformed")]
    Extension,
}

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TarKind {
    File,
    HardLink,
    Symlink,
    Folder,
    /// Its data is the name, or the link target, of the next entry.
    LongName,
    LongLink,
    /// Its data describes the next entry, or all later ones.
    Extended,
    Global,
    Other(u8),
}

impl TarKind {
    fn letter(self) -> u8 {
        match self {
            Self::File => b'0',
            Self::HardLink => b'1',
            Self::Symlink => b'2',
            Self::Folder => b'5',
            Self::LongName => b'L',
            Self::LongLink => b'K',
            Self::Extended => b'x',
            Self::Global => b'g',
            Self::Other(letter) => letter,
        }
    }

    fn of(letter: u8) -> Self {
        match letter {
            b'0' | b'7' | 0 => Self::File,
            b'1' => Self::HardLink,
            b'2' => Self::Symlink,
            b'5' => Self::Folder,
            b'L' => Self::LongName,
            b'K' => Self::LongLink,
            b'x' => Self::Extended,
            b'g' => Self::Global,
            other => Self::Other(other),
        }
    }
}

/// One entry without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TarHeader {
    pub(super) kind: TarKind,
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// Unix seconds.
    pub(super) modified: i64,
}

impl TarHeader {
    /// Encodes the header, after the entries that carry its long texts.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut blocks = Vec::with_capacity(BLOCK_BYTES);
        for (kind, text, field) in [(TarKind::LongName, &self.name, NAME), (TarKind::LongLink, &self.link, LINK)] {
            if text.len() > field.len() {
                let carrier = Self {
                    kind,
                    name: LONG.to_vec(),
                    link: Vec::new(),
                    mode: 0,
                    size: text.len() as u64 + 1,
                    modified: 0,
                };
                blocks.extend_from_slice(&carrier.block());
                blocks.extend_from_slice(text);
                blocks.push(0);
                blocks.resize(blocks.len().next_multiple_of(BLOCK_BYTES), 0);
            }
        }
        blocks.extend_from_slice(&self.block());
        blocks
    }

    fn block(&self) -> TarBlock {
        let mut block = [0; BLOCK_BYTES];
        put_text(&mut block[NAME], &self.name);
        put_text(&mut block[LINK], &self.link);
        put_number(&mut block[MODE], i128::from(self.mode));
        // Owner and group are left out: ids of the guest mean nothing elsewhere.
        put_number(&mut block[108..116], 0);
        put_number(&mut block[116..124], 0);
        put_number(&mut block[SIZE], i128::from(self.size));
        put_number(&mut block[MODIFIED], i128::from(self.modified));
        block[KIND] = self.kind.letter();
        block[MAGIC].copy_from_slice(GNU_MAGIC);
        let sum = checksum(&block);
        block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    /// Parses a header. `None` for an empty block, which ends an archive.
    pub(super) fn parse(block: &TarBlock) -> Result<Option<Self>, TarError> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if number(&block[CHECKSUM])? != i128::from(checksum(block)) {
            return Err(TarError::Checksum);
        }
        let mut name = text(&block[NAME]).to_vec();
        let prefix = text(&block[PREFIX]);
        if block[MAGIC].starts_with(POSIX_MAGIC) && !prefix.is_empty() {
            name = [prefix, b"/", &name].concat();
        }
        let mut kind = TarKind::of(block[KIND]);
        // In the old form, a name that ends with a slash marks a folder.
        if kind == TarKind::File && name.ends_with(b"/") {
            kind = TarKind::Folder;
        }
        Ok(Some(Self {
            kind,
            name,
            link: text(&block[LINK]).to_vec(),
            mode: number(&block[MODE])?.try_into().map_err(|_| TarError::Number)?,
            size: number(&block[SIZE])?.try_into().map_err(|_| TarError::Number)?,
            modified: number(&block[MODIFIED])?.try_into().map_err(|_| TarError::Number)?,
        }))
    }
}

/// Fields of an extended header for the next entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TarExtension {
    pub(super) name: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<i64>,
}

impl TarExtension {
    /// Parses records of the form `LENGTH KEY=VALUE\n`. Unknown keys are skipped.
    pub(super) fn parse(mut records: &[u8]) -> Result<Self, TarError> {
        let mut found = Self::default();
        while !records.is_empty() {
            let space = records.iter().position(|byte| *byte == b' ').ok_or(TarError::Extension)?;
            let length: usize =
                ascii(&records[..space]).and_then(|text| text.parse().ok()).ok_or(TarError::Extension)?;
            if length <= space + 1 || length > records.len() {
                return Err(TarError::Extension);
            }
            let (record, rest) = records.split_at(length);
            records = rest;
            let record = record[space + 1..].strip_suffix(b"\n").ok_or(TarError::Extension)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(TarError::Extension)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" => found.name = Some(value.to_vec()),
                b"linkpath" => found.link = Some(value.to_vec()),
                b"size" => {
                    found.size = Some(ascii(value).and_then(|text| text.parse().ok()).ok_or(TarError::Extension)?)
                }
                b"mtime" => {
                    let whole = ascii(value).and_then(|text| text.split('.').next()?.parse().ok());
                    found.modified = Some(whole.ok_or(TarError::Extension)?);
                }
                // The data of a sparse entry is not the file's contents.
                key if key.starts_with(b"GNU.sparse") => return Err(TarError::Extension),
                _ => {}
            }
        }
        Ok(found)
    }
}

fn ascii(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn checksum(block: &TarBlock) -> u32 {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    sum(&block[..CHECKSUM.start]) + u32::from(b' ') * CHECKSUM.len() as u32 + sum(&block[CHECKSUM.end..])
}

fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    &field[..end]
}

fn put_text(field: &mut [u8], text: &[u8]) {
    let count = text.len().min(field.len());
    field[..count].copy_from_slice(&text[..count]);
}

/// Writes octal digits where they fit; otherwise two's complement bytes with the top bit set.
fn put_number(field: &mut [u8], number: i128) {
    let digits = field.len() - 1;
    if number >= 0 && number < 1 << (3 * digits) {
        field.copy_from_slice(format!("{number:0digits$o}\0").as_bytes());
        return;
    }
    let bytes = number.to_be_bytes();
    let width = field.len();
    field.copy_from_slice(&bytes[bytes.len() - width..]);
    field[0] = if number < 0 { 0xff } else { 0x80 };
}

fn number(field: &[u8]) -> Result<i128, TarError> {
    if field[0] & 0x80 != 0 {
        let negative = field[0] & 0x40 != 0;
        let first = if negative { i128::from(field[0] as i8) } else { i128::from(field[0] & 0x7f) };
        return Ok(field[1..].iter().fold(first, |sum, byte| sum << 8 | i128::from(*byte)));
    }
    let digits = ascii(field).ok_or(TarError::Number)?.trim_matches([' ', '\0']);
    if digits.is_empty() {
        return Ok(0);
    }
    i128::from_str_radix(digits, 8).map_err(|_| TarError::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &[u8], link: &[u8], size: u64, modified: i64) -> TarHeader {
        let kind = if link.is_empty() { TarKind::File } else { TarKind::Symlink };
        TarHeader { kind, name: name.to_vec(), link: link.to_vec(), mode: 0o4755, size, modified }
    }

    fn block(bytes: &[u8], index: usize) -> &TarBlock {
        bytes[index * BLOCK_BYTES..][..BLOCK_BYTES].try_into().unwrap()
    }

    #[test]
    fn headers_are_read_back() {
        for header in [
            header(b"a", b"", 0, 0),
            header(b"\xff\xfe name", b"../\xf0", 8 << 30, -1),
            header(&[b'n'; 100], &[b'l'; 100], u64::MAX >> 1, i64::MAX),
            header(b"x", b"", 0o77_777_777_777, i64::MIN),
        ] {
            let bytes = header.encode();
            assert_eq!(bytes.len(), BLOCK_BYTES);
            assert_eq!(TarHeader::parse(block(&bytes, 0)), Ok(Some(header)));
        }
        assert_eq!(TarHeader::parse(&[0; BLOCK_BYTES]), Ok(None));
    }

    #[test]
    fn long_texts_come_before_their_header() {
        let long = header(&[b'n'; 600], &[b'l'; 101], 1, 1);
        let bytes = long.encode();
        let carrier = TarHeader::parse(block(&bytes, 0)).unwrap().unwrap();
        assert_eq!((carrier.kind, carrier.size), (TarKind::LongName, 601));
        assert_eq!(&bytes[BLOCK_BYTES..][..601], [vec![b'n'; 600], vec![0]].concat());
        let carrier = TarHeader::parse(block(&bytes, 3)).unwrap().unwrap();
        assert_eq!((carrier.kind, carrier.size), (TarKind::LongLink, 102));
        assert_eq!((bytes.len() / BLOCK_BYTES, TarHeader::parse(block(&bytes, 5)).unwrap().unwrap().size), (6, 1));
    }

    #[test]
    fn nonsense_is_refused_and_never_panics() {
        let mut bad: TarBlock = header(b"a", b"", 5, 5).encode().try_into().unwrap();
        bad[0] = b'b';
        assert_eq!(TarHeader::parse(&bad), Err(TarError::Checksum));
        for seed in 0..2000_u32 {
            let mut noise = seed;
            let mut next = || {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            };
            let mut block = [0; BLOCK_BYTES];
            block.iter_mut().for_each(|byte| *byte = next());
            let sum = checksum(&block);
            block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            let _ = TarHeader::parse(&block);
            let _ = TarExtension::parse(&block);
        }
    }

    #[test]
    fn extended_headers_are_read() {
        let records = b"13 path=a/b/c\n".to_vec();
        assert!(TarExtension::parse(&records).is_err(), "the length is one short");
        let records = b"14 path=a/b/c\n20 mtime=1700000000.5\n12 size=777\n11 other=1\n";
        assert!(TarExtension::parse(records).is_err(), "a length is wrong");
        let records = b"14 path=a/b/c\n22 mtime=1700000000.5\n12 size=777\n11 other=1\n";
        let found = TarExtension::parse(records).unwrap();
        assert_eq!(found.name.as_deref(), Some(&b"a/b/c"[..]));
        assert_eq!((found.size, found.modified, found.link), (Some(777), Some(1_700_000_000), None));
        for bad in [&b"5"[..], b"0 a=b\n", b"99 a=b\n", b"6 ab \n", b"x a=b\n", b"22 GNU.sparse.major=1\n"] {
            assert!(TarExtension::parse(bad).is_err(), "{bad:?}");
        }
    }
}
