//! Certificates in files. They are read again every few seconds, by content: a link that moves and
//! a file with an old date are seen too, and no signal is needed.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use pandastack_kit::Scope;

use crate::{
    certificate::{CertificateError, ServedCertificate},
    limits::CERTIFICATE_FILE_BYTES_MAX,
    set::CertificateSlot,
};

/// A PEM file with a certificate chain, and one with its key. They may be the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What the files contain.
#[derive(Clone, PartialEq, Eq)]
pub struct FileContents {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    pub fn read(&self) -> Result<FileContents, CertificateError> {
        Ok(FileContents { chain: read(&self.certificate)?, key: read(&self.key)? })
    }

    pub fn parse(&self, contents: &FileContents) -> Result<ServedCertificate, CertificateError> {
        let [place, key_place] = [&self.certificate, &self.key].map(|path| path.display().to_string());
        ServedCertificate::from_pem(&contents.chain, &contents.key, &place, &key_place)
    }

    /// Tells whether every user of this computer may read the key.
    pub fn key_is_open(&self) -> bool {
        self.key.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |cause| CertificateError::Read { path: path.to_owned(), cause };
    // A pipe would block for ever.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is not a file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(CERTIFICATE_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > CERTIFICATE_FILE_BYTES_MAX {
        return Err(CertificateError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Replaces the slot's certificate when the files change, until the scope ends. Files that cannot
/// be used change nothing.
pub async fn watch(
    files: CertificateFiles,
    loaded: FileContents,
    slot: CertificateSlot,
    every: Duration,
    scope: Scope,
) {
    let stop = scope.token();
    let mut watch = FileWatch { files, loaded, slot, trouble: None };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let files = watch.files.clone();
        if let Ok(found) = scope.block("read certificates", move || files.read()).await {
            watch.take(found, SystemTime::now());
        }
    }
}

struct FileWatch {
    files: CertificateFiles,
    loaded: FileContents,
    slot: CertificateSlot,
    trouble: Option<Trouble>,
}

/// Why the files cannot be used. It is logged when it is seen for the second time: between two
/// copies of an operator, the key and the certificate do not match.
struct Trouble {
    why: String,
    is_logged: bool,
}

impl FileWatch {
    fn take(&mut self, found: Result<FileContents, CertificateError>, now: SystemTime) {
        match found.and_then(|found| self.changed(found, now)) {
            Ok(None) => self.trouble = None,
            Ok(Some((found, served))) => {
                let (names, until) = (served.names().join(", "), served.validity().last_day().to_string());
                tracing::info!(names, until, "loaded a new certificate");
                self.slot.put(served);
                self.loaded = found;
                self.trouble = None;
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// Reads contents that are not loaded yet.
    fn changed(
        &self,
        found: FileContents,
        now: SystemTime,
    ) -> Result<Option<(FileContents, ServedCertificate)>, CertificateError> {
        if found == self.loaded {
            return Ok(None);
        }
        let served = self.files.parse(&found)?;
        if served.is_expired(now) {
            let (place, day) = (self.files.certificate.display().to_string(), served.validity().last_day().to_string());
            return Err(CertificateError::Expired { place, day });
        }
        Ok(Some((found, served)))
    }

    fn fail(&mut self, why: String) {
        match &mut self.trouble {
            Some(known) if known.why == why => {
                if !known.is_logged {
                    tracing::error!("the new certificate was not loaded, and the old one is still served: {why}");
                    known.is_logged = true;
                }
            }
            _ => self.trouble = Some(Trouble { why, is_logged: false }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{CertificateSet, certificate::tests::made};

    struct Rig {
        folder: tempfile::TempDir,
        watch: FileWatch,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let files =
                CertificateFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
            write(&files, &made(&["one.example"], 2099));
            let loaded = files.read().unwrap();
            let slot = CertificateSet::default().add(vec![]);
            slot.put(files.parse(&loaded).unwrap());
            Self { folder, watch: FileWatch { files, loaded, slot, trouble: None } }
        }

        /// Looks at the files once and returns the name that is served, and whether an error was
        /// logged.
        fn step(&mut self) -> (String, bool) {
            let found = self.watch.files.read();
            self.watch.take(found, SystemTime::now());
            let name = self.watch.slot.current().unwrap().names()[0].clone();
            (name, self.watch.trouble.as_ref().is_some_and(|trouble| trouble.is_logged))
        }
    }

    fn write(files: &CertificateFiles, (chain, key): &(String, String)) {
        fs::write(&files.certificate, chain).unwrap();
        fs::write(&files.key, key).unwrap();
    }

    #[test]
    fn new_files_are_loaded_and_unusable_ones_keep_the_old_certificate() {
        let mut rig = Rig::new();
        let one = |logged| ("one.example".to_owned(), logged);
        assert_eq!(rig.step(), one(false));
        let (files, two) = (rig.watch.files.clone(), made(&["two.example"], 2099));
        // An operator copies the certificate, and the key a moment later.
        fs::write(&files.certificate, &two.0).unwrap();
        assert_eq!(rig.step(), one(false), "not yet an error");
        fs::write(&files.key, &two.1).unwrap();
        assert_eq!(rig.step(), ("two.example".to_owned(), false));
        let two = |logged| ("two.example".to_owned(), logged);
        for broken in [
            ("half a cert".to_owned(), "half a key".to_owned()),
            made(&["three.example"], 2001),
            (made(&["three.example"], 2099).0, made(&["three.example"], 2099).1),
        ] {
            write(&files, &broken);
            assert_eq!((rig.step(), rig.step()), (two(false), two(true)));
        }
        fs::remove_file(&files.key).unwrap();
        assert_eq!((rig.step(), rig.step()), (two(false), two(true)));
        write(&files, &made(&["four.example"], 2099));
        assert_eq!(rig.step(), ("four.example".to_owned(), false));
        drop(rig.folder);
    }

    #[test]
    fn a_link_that_moves_is_a_change_and_a_pipe_is_refused() {
        let mut rig = Rig::new();
        let files = rig.watch.files.clone();
        let other = rig.folder.path().join("other.pem");
        let (chain, key) = made(&["two.example"], 2099);
        fs::write(&other, format!("{key}{chain}")).unwrap();
        for path in [&files.certificate, &files.key] {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink(&other, path).unwrap();
        }
        assert_eq!(rig.step().0, "two.example");
        let unfit = CertificateFiles { certificate: "/dev/zero".into(), key: other };
        assert!(unfit.read().is_err_and(|error| error.to_string().contains("not a file")));
    }

    #[test]
    fn a_key_that_everybody_may_read_is_noticed() {
        let rig = Rig::new();
        for (mode, is_open) in [(0o644, true), (0o640, false), (0o600, false)] {
            fs::set_permissions(&rig.watch.files.key, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(rig.watch.files.key_is_open(), is_open);
        }
    }
}
