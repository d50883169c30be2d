//! Pebble, the ACME test server of Let's Encrypt, with its DNS server. It checks challenges for
//! real, rejects some good nonces, reuses no authorization, and issues certificates that live for
//! seconds.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use pandastack_e2e::PATIENCE;
use pandastack_testbed::wait_for;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::{curl, free_port, peer::Authority};

/// Life of a certificate. It is renewed after two thirds.
const LIFE_SECONDS: u64 = 20;

pub struct Pebble {
    folder: PathBuf,
    port: u16,
    management: u16,
    programs: Vec<Child>,
}

impl Pebble {
    /// Starts both programs. Pebble looks for HTTP challenges on `plain`.
    pub async fn start(folder: &Path, plain: u16) -> Self {
        let authority = Authority::new();
        let (chain, key) = authority.issue("localhost");
        let [port, management, dns, records] = std::array::from_fn(|_| free_port());
        let config = json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": folder.join("pebble.crt"),
            "privateKey": folder.join("pebble.key"),
            "httpPort": plain,
            "tlsPort": 1,
            "certificateValidityPeriod": LIFE_SECONDS,
        }});
        let hook = format!(
            "#!/bin/sh\nset -e\necho \"$*\" >> {}/calls\ncase $1 in\n\
             present) curl -sS --noproxy '*' -d \"{{\\\"host\\\":\\\"$3.\\\",\\\"value\\\":\\\"$4\\\"}}\" \
             http://127.0.0.1:{records}/set-txt ;;\n\
             cleanup) curl -sS --noproxy '*' -d \"{{\\\"host\\\":\\\"$3.\\\"}}\" \
             http://127.0.0.1:{records}/clear-txt ;;\n\
             esac\n",
            folder.display()
        );
        let files = [("ca.pem", authority.pem()), ("pebble.crt", chain), ("pebble.key", key)];
        for (name, text) in files.into_iter().chain([("pebble.json", config.to_string()), ("hook", hook)]) {
            fs::write(folder.join(name), text).unwrap();
        }
        fs::set_permissions(folder.join("hook"), fs::Permissions::from_mode(0o700)).unwrap();
        let mut names = Command::new("pebble-challtestsrv");
        names.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""]);
        names.args(["-dns01", &format!("127.0.0.1:{dns}"), "-management", &format!("127.0.0.1:{records}")]);
        let mut server = Command::new("pebble");
        server.arg("-config").arg(folder.join("pebble.json")).args(["-dnsserver", &format!("127.0.0.1:{dns}")]);
        server.envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "20"), ("PEBBLE_AUTHZREUSE", "0")]);
        let programs = vec![begin(&mut names, folder, "names.log"), begin(&mut server, folder, "pebble.log")];
        let pebble = Self { folder: folder.to_owned(), port, management, programs };
        for port in [records, port, management] {
            let listens = async || TcpStream::connect(("127.0.0.1", port)).await.ok();
            wait_for("Pebble; `scripts/setup` installs it", PATIENCE, listens).await;
        }
        pebble
    }

    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    /// The file with the authority of Pebble's own listener.
    pub fn ca(&self) -> String {
        self.folder.join("ca.pem").to_str().unwrap().to_owned()
    }

    pub fn hook(&self) -> String {
        self.folder.join("hook").to_str().unwrap().to_owned()
    }

    /// The authority of the certificates that Pebble issues.
    pub async fn roots(&self) -> RootCertStore {
        let answer = curl(&["--cacert", &self.ca(), &format!("https://localhost:{}/roots/0", self.management)]);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(answer.as_bytes()).unwrap()).unwrap();
        roots
    }

    pub fn stop(&mut self) {
        for mut program in self.programs.drain(..) {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
    }
}

fn begin(command: &mut Command, folder: &Path, log: &str) -> Child {
    let log = File::create(folder.join(log)).unwrap();
    let begun = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn();
    begun.expect("Pebble is installed; `scripts/setup` installs it")
}
