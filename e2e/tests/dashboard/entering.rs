//! People who sign in at an identity provider, and people who lost their password. The browser sees
//! the server at an address of its own, as behind a proxy.

use std::{process::Command, sync::Arc};

use pandastack_e2e::browser::{ForwardedPort, QuietNetwork};
use pandastack_identity::provider::{OidcProvider, ProviderSetup, ProviderUser};
use pandastack_kit::{Scope, SystemClock};
use pandastack_testbed::{DataFolder, TestServer, built};
use serde_json::Value;

use super::{browser_program, walk};

/// The port that people know. It is in the browser's network, where nothing else listens.
const PUBLIC_PORT: u16 = 8088;

fn port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// Makes an account, and returns the link by which its owner chooses a password.
fn reset_link(data: &DataFolder, public_url: &str) -> String {
    let mut command = Command::new(built("pandastack"));
    command.args(["admin", "user", "create", "ada@example.org", "--json", "--public-url", public_url]);
    let output = command.arg("--data-dir").arg(data.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    shown["reset_url"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn people_choose_a_password_or_sign_in_at_their_provider() {
    let (program, own) = (browser_program(), tempfile::tempdir().unwrap());
    let public_url = format!("http://127.0.0.1:{PUBLIC_PORT}");
    let scope = Scope::new();
    let setup = ProviderSetup {
        redirect_url: format!("{public_url}/v1/auth/oidc/callback"),
        ..ProviderSetup::new(Arc::new(SystemClock), scope.clone())
    };
    let (client_id, client_secret) = (setup.client_id.clone(), setup.client_secret.clone());
    let provider = OidcProvider::start(setup).await.unwrap();
    let grace = ProviderUser { email: "grace@example.org".into(), name: "Grace".into(), ..ProviderUser::default() };
    provider.set_user(grace);
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start_with(data.path(), |command| {
        command.args(["--no-config", "--standby", "0", "--blanks", "0", "--public-url", &public_url]);
        command.args(["--oidc-issuer", &provider.issuer(), "--oidc-client-id", &client_id]);
        command.env("PANDASTACK_OIDC_CLIENT_SECRET", &client_secret);
    })
    .unwrap();
    let link = reset_link(&data, &public_url);
    let ports = [
        ForwardedPort { inside: PUBLIC_PORT, outside: port(&server.url) },
        ForwardedPort { inside: port(&provider.issuer()), outside: port(&provider.issuer()) },
    ];
    let network = QuietNetwork::with_ports(&ports);
    for provider_denies in [false, true] {
        provider.set_denies(provider_denies);
        let mut command = program.command(&network, "entering.mjs");
        command.env("PANDASTACK_API", &public_url).env("PANDASTACK_RESET", &link);
        command.env("PANDASTACK_PROVIDER", if provider_denies { "denies" } else { "accepts" });
        tokio::task::block_in_place(|| walk(command, own.path(), &server));
    }
    assert!(scope.close(pandastack_testbed::PATIENCE).await == 0, "the provider stops");
}
