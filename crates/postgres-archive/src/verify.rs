//! Checks a base backup while it streams to the disk: gzip, tar, every file against the backup's
//! manifest, and the manifest against its own checksum. Keeps no file in memory.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    io::{self, BufRead, BufReader, Read},
    time::{Duration, SystemTime},
};

use flate2::bufread::GzDecoder;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};
use sha2::{Digest, Sha256};
use tar::EntryType;

use crate::{
    limits::{BASE_FILES_MAX, BASE_UNPACKED_BYTES_MAX, MANIFEST_BYTES_MAX},
    name::{Lsn, SEGMENT_BYTES, Segment},
};

const MANIFEST: &str = "backup_manifest";
const COPY_BYTES: usize = 128 * 1024;

/// What a whole backup says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRange {
    pub timeline: u32,
    pub start: Lsn,
    pub end: Lsn,
    /// The time in the guest, rounded up: a restore to an earlier time is not possible.
    pub ended_at: SystemTime,
}

/// Why a base backup is refused.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("the stream is broken or no gzipped tar")]
    Read(#[source] io::Error),
    #[error("the backup has more files or bytes than are allowed")]
    TooLarge,
    #[error("the backup has no manifest")]
    NoManifest,
    #[error("the manifest is wrong: {0}")]
    Manifest(String),
    #[error("file {path:?} {problem}")]
    File { path: String, problem: &'static str },
    #[error("segment {segment} of the write-ahead log is missing")]
    Segment { segment: Segment },
}

/// Reads a backup to its end and checks all of it.
pub fn verify(stream: impl Read) -> Result<BackupRange, VerifyError> {
    let gzip = GzDecoder::new(BufReader::with_capacity(COPY_BYTES, stream));
    let mut archive = tar::Archive::new(gzip.take(BASE_UNPACKED_BYTES_MAX));
    let mut found = Contents::default();
    // Raw, because the library would read the names in extension entries as a whole.
    for entry in archive.entries().map_err(VerifyError::Read)?.raw(true) {
        found.add(entry.map_err(VerifyError::Read)?)?;
    }
    let mut rest = archive.into_inner();
    // The checksum of the whole stream is checked at its end.
    let padding = io::copy(&mut rest, &mut io::sink()).map_err(VerifyError::Read)?;
    tracing::trace!(padding, "backup read");
    if rest.limit() == 0 {
        return Err(VerifyError::TooLarge);
    }
    let mut behind = rest.into_inner().into_inner();
    if !behind.fill_buf().map_err(VerifyError::Read)?.is_empty() {
        return Err(VerifyError::Read(io::Error::other("there are bytes behind the end of the backup")));
    }
    found.check()
}

#[derive(Default)]
struct Contents {
    files: HashMap<String, (u64, u32)>,
    manifest: Option<(Vec<u8>, u64)>,
}

impl Contents {
    fn add(&mut self, mut entry: tar::Entry<'_, impl Read>) -> Result<(), VerifyError> {
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        match entry.header().entry_type() {
            EntryType::Regular => {}
            EntryType::Directory | EntryType::Symlink => return Ok(()),
            _ => {
                return Err(VerifyError::File { path, problem: "has a kind of entry that pg_basebackup never writes" });
            }
        }
        if self.files.len() >= BASE_FILES_MAX {
            return Err(VerifyError::TooLarge);
        }
        let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
        if path == MANIFEST {
            if entry.size() > MANIFEST_BYTES_MAX {
                return Err(VerifyError::TooLarge);
            }
            let mut text = Vec::with_capacity(usize::try_from(entry.size()).unwrap_or(0));
            entry.read_to_end(&mut text).map_err(VerifyError::Read)?;
            self.manifest = Some((text, entry.header().mtime().map_err(VerifyError::Read)?));
            return Ok(());
        }
        let size = entry.size();
        let sum = checksum(&mut entry).map_err(VerifyError::Read)?;
        match self.files.insert(path.clone(), (size, sum)) {
            None => Ok(()),
            Some(_) => Err(VerifyError::File { path, problem: "is there twice" }),
        }
    }

    fn check(mut self) -> Result<BackupRange, VerifyError> {
        let (text, ended) = self.manifest.take().ok_or(VerifyError::NoManifest)?;
        let manifest = BackupManifest::parse(&text)?;
        for file in manifest.files {
            let problem = match self.files.remove(&*file.path) {
                None => "is missing",
                Some((size, _)) if size != file.size => "has another size",
                Some((_, sum)) if file.sum != Some(sum) => "has another checksum",
                Some(_) => continue,
            };
            return Err(VerifyError::File { path: file.path.into(), problem });
        }
        let range = manifest.range.first().ok_or_else(|| VerifyError::Manifest("it names no log".into()))?;
        if let Some(path) = self.files.keys().find(|path| !path.starts_with("pg_wal/")) {
            return Err(VerifyError::File { path: path.clone(), problem: "is not in the manifest" });
        }
        let segments: BTreeSet<_> =
            self.files.iter().filter(|(_, (size, _))| *size == SEGMENT_BYTES).map(|(path, _)| path.as_str()).collect();
        let lsn = |text: &str| text.parse::<Lsn>().map_err(|error| VerifyError::Manifest(error.to_string()));
        let (start, end) = (lsn(&range.start)?, lsn(&range.end)?);
        for number in start.segment_number()..=end.last_segment_number() {
            let segment = Segment { timeline: range.timeline, number };
            if !segments.contains(format!("pg_wal/{segment}").as_str()) {
                return Err(VerifyError::Segment { segment });
            }
        }
        let ended_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(ended.saturating_add(1)));
        let ended_at = ended_at.ok_or_else(|| VerifyError::Manifest("its time is no time".into()))?;
        Ok(BackupRange { timeline: range.timeline, start, end, ended_at })
    }
}

fn checksum(entry: &mut impl Read) -> io::Result<u32> {
    let (mut buffer, mut sum) = (vec![0; COPY_BYTES], 0);
    loop {
        match entry.read(&mut buffer)? {
            0 => return Ok(sum),
            count => sum = crc32c::crc32c_append(sum, &buffer[..count]),
        }
    }
}

#[derive(Deserialize)]
struct BackupManifest {
    #[serde(rename = "PostgreSQL-Backup-Manifest-Version")]
    version: u32,
    #[serde(rename = "Files", deserialize_with = "limited_files")]
    files: Vec<ManifestFile>,
    #[serde(rename = "WAL-Ranges")]
    range: Vec<ManifestRange>,
    #[serde(rename = "Manifest-Checksum")]
    checksum: String,
}

/// What is kept of a line about a file. There may be as many as files.
#[derive(Deserialize)]
#[serde(try_from = "ManifestLine")]
struct ManifestFile {
    path: Box<str>,
    size: u64,
    /// Nothing if it is no CRC32C.
    sum: Option<u32>,
}

#[derive(Deserialize)]
struct ManifestLine {
    #[serde(rename = "Path")]
    path: Option<String>,
    #[serde(rename = "Encoded-Path")]
    encoded: Option<String>,
    #[serde(rename = "Size")]
    size: u64,
    #[serde(rename = "Checksum-Algorithm")]
    algorithm: Option<String>,
    #[serde(rename = "Checksum")]
    checksum: Option<String>,
}

#[derive(Deserialize)]
struct ManifestRange {
    #[serde(rename = "Timeline")]
    timeline: u32,
    #[serde(rename = "Start-LSN")]
    start: String,
    #[serde(rename = "End-LSN")]
    end: String,
}

impl BackupManifest {
    fn parse(text: &[u8]) -> Result<Self, VerifyError> {
        let wrong = |what: &str| VerifyError::Manifest(what.into());
        let manifest: Self = serde_json::from_slice(text).map_err(|error| VerifyError::Manifest(error.to_string()))?;
        if !(1..=2).contains(&manifest.version) {
            return Err(wrong("its version is unknown"));
        }
        // The last line has the checksum of all lines before it.
        let body = text.strip_suffix(b"\n").unwrap_or(text);
        let end = body.iter().rposition(|byte| *byte == b'\n').ok_or_else(|| wrong("it has one line only"))?;
        if hex(&Sha256::digest(&text[..=end])) != manifest.checksum {
            return Err(wrong("its own checksum does not match"));
        }
        Ok(manifest)
    }
}

impl TryFrom<ManifestLine> for ManifestFile {
    type Error = &'static str;

    fn try_from(line: ManifestLine) -> Result<Self, Self::Error> {
        let path = match (line.path, line.encoded) {
            (Some(path), None) => Some(path),
            (None, Some(digits)) => unhex(&digits).map(|path| String::from_utf8_lossy(&path).into_owned()),
            _ => None,
        };
        let path = path.ok_or("a file has no path")?.into_boxed_str();
        let sum = match (line.algorithm.as_deref(), line.checksum) {
            // The bytes of the number have the order of the server's memory: lowest first.
            (Some("CRC32C"), Some(digits)) => {
                unhex(&digits).and_then(|sum| Some(u32::from_le_bytes(sum.try_into().ok()?)))
            }
            _ => None,
        };
        Ok(Self { path, size: line.size, sum })
    }
}

/// Reads the list of files, and stops at one too many.
fn limited_files<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ManifestFile>, D::Error> {
    struct Files;

    impl<'de> Visitor<'de> for Files {
        type Value = Vec<ManifestFile>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {BASE_FILES_MAX} files")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut files = Vec::new();
            while let Some(file) = list.next_element()? {
                if files.len() >= BASE_FILES_MAX {
                    return Err(A::Error::invalid_length(files.len() + 1, &self));
                }
                files.push(file);
            }
            Ok(files)
        }
    }

    from.deserialize_seq(Files)
}

/// Writes bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let even = digits.is_ascii() && digits.len().is_multiple_of(2);
    let pairs = even.then(|| (0..digits.len()).step_by(2))?;
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// Makes a small backup in the form that PostgreSQL makes them.
    pub fn backup(segment: Segment, ended: u64) -> Vec<u8> {
        pack(&[("PG_VERSION", b"16\n"), ("base/1/2", &[7; 9000])], &manifest(segment), segment, ended)
    }

    fn manifest(segment: Segment) -> String {
        let sum = |bytes: &[u8]| hex(&crc32c::crc32c(bytes).to_le_bytes());
        let (low, high) = (segment.number * SEGMENT_BYTES + 40, segment.number * SEGMENT_BYTES + 300);
        let lines = format!(
            "{{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n\"Files\": [\n\
             {{ \"Encoded-Path\": \"50475f56455253494f4e\", \"Size\": 3, \"Last-Modified\": \"x\", \
             \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"{}\" }},\n\
             {{ \"Path\": \"base/1/2\", \"Size\": 9000, \"Last-Modified\": \"x\", \
             \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"{}\" }}\n],\n\"WAL-Ranges\": [\n\
             {{ \"Timeline\": {}, \"Start-LSN\": \"{:X}/{:X}\", \"End-LSN\": \"{:X}/{:X}\" }}\n],\n",
            sum(b"16\n"),
            sum(&[7; 9000]),
            segment.timeline,
            low >> 32,
            low & 0xffff_ffff,
            high >> 32,
            high & 0xffff_ffff
        );
        let own = hex(&Sha256::digest(lines.as_bytes()));
        format!("{lines}\"Manifest-Checksum\": \"{own}\"}}\n")
    }

    fn pack(files: &[(&str, &[u8])], manifest: &str, segment: Segment, ended: u64) -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut log = (format!("pg_wal/{segment}"), vec![0; SEGMENT_BYTES as usize]);
        // In a row of zeros some damage changes nothing.
        blake3::Hasher::new().finalize_xof().fill(&mut log.1[..200_000]);
        let files = files.iter().map(|(path, bytes)| (*path, *bytes));
        for (path, bytes) in files.chain([(log.0.as_str(), log.1.as_slice()), (MANIFEST, manifest.as_bytes())]) {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mtime(ended);
            header.set_mode(0o600);
            tar.append_data(&mut header, path, bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    const AT: Segment = Segment { timeline: 3, number: 0x102 };

    fn refused(bytes: &[u8], part: &str) {
        let error = verify(bytes).unwrap_err();
        let text = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(text.contains(part), "{text} has no {part}");
    }

    #[test]
    fn a_whole_backup_is_read() {
        let range = verify(backup(AT, 1000).as_slice()).unwrap();
        assert_eq!((range.timeline, range.start), (3, Lsn(0x102 * SEGMENT_BYTES + 40)));
        assert_eq!(range.ended_at, SystemTime::UNIX_EPOCH + Duration::from_secs(1001));
    }

    #[test]
    fn entries_that_the_library_would_keep_whole_are_refused() {
        let kinds = [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader];
        for kind in kinds.into_iter().chain([EntryType::GNUSparse, EntryType::Link, EntryType::Fifo]) {
            let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_size(100_000);
            header.set_cksum();
            tar.append(&header, [b'x'; 100_000].as_slice()).unwrap();
            refused(&tar.into_inner().unwrap().finish().unwrap(), "never writes");
        }
    }

    #[test]
    fn a_list_of_too_many_files_is_not_read_to_its_end() {
        let line = "{\"Path\":\"a\",\"Size\":0}";
        let list = |count: usize| format!("[{}]", vec![line; count].join(","));
        let read = |text: &str| limited_files(&mut serde_json::Deserializer::from_str(text)).map(|files| files.len());
        assert_eq!(read(&list(3)).unwrap(), 3);
        let error = read(&list(BASE_FILES_MAX + 1)).unwrap_err().to_string();
        assert!(error.contains("at most"), "{error}");
        assert!(read("[{\"Size\":0}]").unwrap_err().to_string().contains("no path"));
    }

    #[test]
    fn every_damage_is_found() {
        let (good, text) = (("PG_VERSION", b"16\n".as_slice()), manifest(AT));
        refused(&pack(&[good], &text, AT, 1), "missing");
        refused(&pack(&[good, ("base/1/2", &[7; 8999])], &text, AT, 1), "another size");
        refused(&pack(&[good, ("base/1/2", &[8; 9000])], &text, AT, 1), "another checksum");
        let whole = [good, ("base/1/2", [7; 9000].as_slice())];
        refused(&pack(&[whole[0], whole[1], ("extra", b"")], &text, AT, 1), "not in the manifest");
        refused(&pack(&[whole[0], whole[1], whole[0]], &text, AT, 1), "twice");
        refused(&pack(&whole, &text.replace("9000", "9001"), AT, 1), "own checksum");
        refused(&pack(&whole, "{}", AT, 1), "manifest is wrong");
        refused(&pack(&whole, &text, Segment { number: 1, ..AT }, 1), "segment");
        let packed = backup(AT, 1);
        for keep in [0, 1, 20, packed.len() / 2, packed.len() - 9, packed.len() - 1] {
            refused(&packed[..keep], "");
        }
        for at in (12..150_000).step_by(4999) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            assert!(verify(damaged.as_slice()).is_err(), "byte {at}");
        }
        refused(&[packed.as_slice(), b"more"].concat(), "behind the end");
        let mut none = GzEncoder::new(Vec::new(), Compression::fast());
        none.write_all(&[0; 1024]).unwrap();
        refused(&none.finish().unwrap(), "no manifest");
    }
}
