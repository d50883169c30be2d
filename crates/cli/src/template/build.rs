//! `pandastack template build`

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use pandastack_client::{BuildForm, Client, wire::Build};

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `template build`.
#[derive(Debug, clap::Args)]
pub struct BuildArgs {
    /// Name of the template
    name: String,
    /// Path of the Dockerfile; by default the one in the context
    #[arg(long, short = 'f', value_name = "FILE")]
    dockerfile: Option<PathBuf>,
    /// Folder with the files for COPY and ADD. For a server's context, write `pandastack --context
    /// NAME template build`, or use --server-context
    #[arg(long, value_name = "DIR")]
    context: Option<PathBuf>,
    /// Build from a snapshot instead
    #[arg(long, value_name = "ID", conflicts_with_all = ["dockerfile", "context"])]
    from_snapshot: Option<String>,
    /// Build from a root file system instead: a tar or tar.gz file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dockerfile", "context", "from_snapshot"])]
    rootfs: Option<PathBuf>,
    /// Build from an image in a registry instead
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dockerfile", "context", "from_snapshot", "rootfs"])]
    image: Option<String>,
    /// User name for the registry. The password is read from PANDASTACK_REGISTRY_PASSWORD
    #[arg(long, value_name = "NAME")]
    registry_user: Option<String>,
    /// Registry for the user name and password; by default the one of --image
    #[arg(long, value_name = "HOST", requires = "registry_user")]
    registry: Option<String>,
    /// Disk size for a root file system or an image, in MiB
    #[arg(long, value_name = "MIB")]
    size_mb: Option<u64>,
    /// Memory of the machine that boots it, in MiB
    #[arg(long, value_name = "MIB")]
    memory_mb: Option<u64>,
    /// CPUs of the machine that boots it
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<u64>,
    /// Replace an existing template of that name
    #[arg(long)]
    replace: bool,
    // Has the id of the global `--context`, which therefore does not appear here.
    /// Context of the config file to use, as --context elsewhere
    #[arg(id = "server_context", long = "server-context", value_name = "NAME")]
    server_context: Option<String>,
    /// Do not start ENTRYPOINT and CMD: sandboxes start without them
    #[arg(long)]
    no_start: bool,
    /// Do not wait for the end of the build
    #[arg(long)]
    no_wait: bool,
}

/// Starts a build and shows its log until the end.
pub async fn build(args: BuildArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let form = form(&args)?;
    let build = client.build_template(form).await.map_err(advise)?;
    let build = if args.no_wait { build } else { follow(&client, &build.id).await? };
    if global.is_structured() {
        global.print(&build)?;
    } else if args.no_wait {
        output::line(&build.id)?;
    }
    Ok(if build.status == "failed" { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Shows a build's log on standard error and returns the finished build.
pub async fn follow(client: &Client, id: &str) -> anyhow::Result<Build> {
    let mut log = client.build_log(id, true).await.map_err(advise)?;
    while let Some(line) = log.next().await {
        eprintln!("{}", line?);
    }
    Ok(client.get_build(id).await?)
}

fn form(args: &BuildArgs) -> anyhow::Result<BuildForm> {
    let mut form = BuildForm::default();
    let mut set = |name: &str, value: String| form.fields.push((name.to_owned(), value));
    set("name", args.name.clone());
    if args.replace {
        set("replace", "true".to_owned());
    }
    if args.no_start {
        set("start", "false".to_owned());
    }
    for (name, number) in [("size_mb", args.size_mb), ("memory_mb", args.memory_mb), ("cpu", args.cpu)] {
        if let Some(number) = number {
            set(name, number.to_string());
        }
    }
    if let Some(user) = &args.registry_user {
        // Not an argument, because all users of a computer can see arguments.
        let password = std::env::var("PANDASTACK_REGISTRY_PASSWORD").context("read PANDASTACK_REGISTRY_PASSWORD")?;
        let auth = serde_json::json!({"registry": args.registry, "username": user, "password": password});
        set("registry_auth", auth.to_string());
    }
    if let Some(image) = &args.image {
        set("image_ref", image.clone());
        return Ok(form);
    }
    if let Some(rootfs) = &args.rootfs {
        form.files.push(("rootfs".to_owned(), rootfs.clone()));
        return Ok(form);
    }
    if let Some(snapshot) = &args.from_snapshot {
        set("from_snapshot", snapshot.clone());
        return Ok(form);
    }
    let dockerfile = match (&args.dockerfile, &args.context) {
        (Some(file), _) => file.clone(),
        (None, Some(context)) => context.join("Dockerfile"),
        (None, None) => PathBuf::from("Dockerfile"),
    };
    let text = fs::read_to_string(&dockerfile).with_context(|| format!("read {}", dockerfile.display()))?;
    set("dockerfile", text);
    if let Some(context) = &args.context {
        collect(context, context, &mut form.files)?;
        form.files.sort();
    }
    Ok(form)
}

/// Lists every file below a folder by its relative path. Links to folders are not followed.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("read {}", folder.display()))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(root, &path, files)?;
        } else if path.is_file() {
            let name = path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_owned);
            match name.filter(|name| !name.contains(['"', '\r', '\n'])) {
                Some(name) => files.push((name, path)),
                None => {
                    bail!("the file name {} contains a quote or a line break, which cannot be sent", path.display())
                }
            }
        }
    }
    Ok(())
}
