//! `pandastack sandbox cp`: copies files and directories in both directions. The local `tar` reads
//! and writes archives.

use std::{path::Path, pin::pin, process::ExitCode, process::Stdio};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use pandastack_client::{Body, Client};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};
use tokio_util::io::ReaderStream;

use crate::{GlobalArgs, connect::connect, output};

/// Arguments of `sandbox cp`.
#[derive(Debug, clap::Args)]
pub struct CpArgs {
    /// Copy directories: the contents of FROM go into TO, which is created if necessary
    #[arg(long, short)]
    recursive: bool,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
    /// Path, or SANDBOX:PATH
    from: String,
    /// Path, or SANDBOX:PATH
    to: String,
}

/// Copies between this computer and a sandbox.
pub async fn cp(args: CpArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let told = match (remote(&args.from), remote(&args.to), args.recursive) {
        (None, Some((id, path)), true) => upload_tree(&client, &args.from, id, path).await?,
        (Some((id, path)), None, true) => download_tree(&client, id, path, &args.to).await?,
        (None, Some((id, path)), false) => upload(&client, &args.from, id, path).await?,
        (Some((id, path)), None, false) => download(&client, id, path, &args.to).await?,
        (Some(_), Some(_), _) => bail!("only one of FROM and TO can be in a sandbox"),
        (None, None, _) => bail!("one of FROM and TO must be SANDBOX:PATH"),
    };
    if !args.quiet {
        output::line(&told)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Splits `SANDBOX:/path`. A local path with a colon needs `./` in front.
fn remote(text: &str) -> Option<(&str, &str)> {
    text.split_once(':').filter(|(id, path)| !id.is_empty() && !id.contains('/') && path.starts_with('/'))
}

async fn upload(client: &Client, from: &str, id: &str, path: &str) -> anyhow::Result<String> {
    let file = tokio::fs::File::open(from).await.with_context(|| format!("open {from}"))?;
    if file.metadata().await?.is_dir() {
        bail!("{from} is a directory; copy it with -r");
    }
    let body = Body::wrap_stream(ReaderStream::new(file));
    let written = client.write(id, path, body).await?;
    Ok(format!("{} bytes to {}", written.bytes, written.path))
}

async fn download(client: &Client, id: &str, path: &str, to: &str) -> anyhow::Result<String> {
    let mut body = pin!(client.read(id, path).await?);
    // Write to a draft and rename it, so that a broken transfer keeps the old file.
    let draft = format!("{to}.part");
    let mut file = tokio::fs::File::create(&draft).await.with_context(|| format!("create {draft}"))?;
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                let _ = tokio::fs::remove_file(&draft).await;
                return Err(error.into());
            }
        };
        file.write_all(&piece).await.with_context(|| format!("write {draft}"))?;
        bytes += piece.len();
    }
    file.flush().await?;
    tokio::fs::rename(&draft, to).await.with_context(|| format!("rename the download to {to}"))?;
    Ok(format!("{bytes} bytes to {to}"))
}

async fn upload_tree(client: &Client, from: &str, id: &str, path: &str) -> anyhow::Result<String> {
    if !Path::new(from).is_dir() {
        bail!("{from} is not a directory");
    }
    let mut tar = tar(["-cf", "-", "-C", from, "."], Stdio::null(), Stdio::piped())?;
    let archive = tar.stdout.take().context("read from tar")?;
    let done = client.write_tree(id, path, Body::wrap_stream(ReaderStream::new(archive))).await;
    ended(tar).await?;
    let done = done?;
    Ok(format!("{} entries, {} bytes to {}", done.entries, done.bytes, done.path))
}

async fn download_tree(client: &Client, id: &str, path: &str, to: &str) -> anyhow::Result<String> {
    let mut archive = pin!(client.read_tree(id, path).await?);
    tokio::fs::create_dir_all(to).await.with_context(|| format!("create {to}"))?;
    let mut tar = tar(["-xf", "-", "-C", to, "--no-same-owner"], Stdio::piped(), Stdio::null())?;
    let mut sink = tar.stdin.take().context("write to tar")?;
    let mut bytes = 0;
    while let Some(piece) = archive.next().await {
        let piece = piece?;
        bytes += piece.len();
        if sink.write_all(&piece).await.is_err() {
            // `tar` has reported the reason.
            break;
        }
    }
    drop(sink);
    ended(tar).await?;
    Ok(format!("{bytes} bytes (tar archive) to {to}"))
}

fn tar<const N: usize>(arguments: [&str; N], stdin: Stdio, stdout: Stdio) -> anyhow::Result<Child> {
    let mut command = Command::new("tar");
    command.args(arguments).stdin(stdin).stdout(stdout).kill_on_drop(true);
    command.spawn().context("start tar")
}

async fn ended(mut tar: Child) -> anyhow::Result<()> {
    let status = tar.wait().await.context("wait for tar")?;
    if status.success() { Ok(()) } else { bail!("tar ended with {status}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_named_before_a_colon() {
        assert_eq!(remote("abc:/srv/x"), Some(("abc", "/srv/x")));
        for local in ["/srv/x", "./a:/b", "file", ":/x", "abc:relative"] {
            assert_eq!(remote(local), None, "{local}");
        }
    }
}
