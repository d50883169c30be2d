//! `pandastack admin`: tools for the server's database. They work on the data folder, not through
//! the API.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use nix::fcntl::{Flock, FlockArg};
use pandastack_client::wire::rfc3339;
use pandastack_control::{
    Accounts, ControlPlace, DatabaseAddress, PostgresUrl, SCHEMA, UserAccount, mark_restored, reset_link,
};
use pandastack_database::{Database, PoolSettings, put_back};
use pandastack_kit::{Clock, SystemClock};
use serde_json::json;

use crate::{
    audit::AuditAdminArgs, data_folder::DEFAULT_DATA_DIR, key::offline_database, orphans::AdminOrphansCommand,
};

/// How long a tool waits for a writer, and a statement may take. A backup reads everything.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Subcommand)]
pub enum AdminArgs {
    /// Copy the server's SQLite database to a new file; the server may run meanwhile
    Backup(BackupArgs),
    /// Replace the server's SQLite database by a backup; a running server does it at its next start
    ///
    /// Nothing is deleted: what the backup does not know is put aside. See "pandastack admin
    /// orphans".
    Restore(RestoreArgs),
    /// Look at sandboxes, databases and volumes that the server's database does not know, for
    /// example after a restore, and adopt or delete them
    ///
    /// They are in no workspace, and are removed after 7 days. A running server does what is asked
    /// here within seconds; one that is stopped does it at its next start.
    #[command(subcommand)]
    Orphans(AdminOrphansCommand),
    /// Copy all rows from SQLite to an empty PostgreSQL database; stop the server first
    MigrateStore(MigrateStoreArgs),
    /// Show and change the plans and limits of workspaces
    #[command(subcommand)]
    Quota(crate::quota::AdminQuotaCommand),
    /// Create, list and disable accounts of people, and reset their passwords
    #[command(subcommand)]
    User(UserArgs),
    /// Show usage that Stripe did not take, and queue it again
    #[command(subcommand)]
    Billing(crate::billing::AdminBillingCommand),
    /// Check the audit trail of every workspace
    #[command(subcommand)]
    Audit(AuditAdminArgs),
}

#[derive(Subcommand)]
pub enum UserArgs {
    /// List accounts
    List(FolderArgs),
    /// Create an account, and print the link by which its owner chooses a password
    Create(CreateUserArgs),
    /// Print a link by which a user sets a new password
    Reset(NamedUserArgs),
    /// Forbid a user to use the server; open requests end
    Disable(NamedUserArgs),
    /// Allow a disabled user to use the server again
    Enable(NamedUserArgs),
}

#[derive(Args)]
pub struct CreateUserArgs {
    #[command(flatten)]
    user: NamedUserArgs,
    /// Name of the person
    #[arg(long, default_value = "")]
    name: String,
    /// Let the user administer the server
    #[arg(long)]
    operator: bool,
}

#[derive(Args)]
pub struct NamedUserArgs {
    /// E-mail address of the account
    email: String,
    /// Address of the server or its dashboard, for the printed link
    #[arg(long, env = "PANDASTACK_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Args)]
pub struct BackupArgs {
    /// File to create
    file: PathBuf,
    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Args)]
pub struct RestoreArgs {
    /// File that `pandastack admin backup` made
    #[arg(required_unless_present = "already_done")]
    file: Option<PathBuf>,
    /// Only tell the server that its database was put back already, for example by pg_restore.
    /// Start the server afterwards, not before
    #[arg(long, conflicts_with = "file")]
    already_done: bool,
    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Args)]
pub struct MigrateStoreArgs {
    /// Where the rows go: postgres://user:password@host:5432/name
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    to: PostgresUrl,
    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Args)]
pub struct FolderArgs {
    /// The server's data folder
    #[arg(long, env = "PANDASTACK_DATA_DIR", default_value = DEFAULT_DATA_DIR, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl AdminArgs {
    pub async fn run(self) -> Result<ExitCode> {
        match self {
            AdminArgs::Backup(args) => args.run().await,
            AdminArgs::Restore(args) => args.run().await,
            AdminArgs::Orphans(command) => command.run().await,
            AdminArgs::MigrateStore(args) => args.run().await,
            AdminArgs::Quota(args) => args.run().await,
            AdminArgs::User(args) => args.run().await,
            AdminArgs::Billing(args) => args.run().await,
            AdminArgs::Audit(args) => args.run().await,
        }
    }
}

impl BackupArgs {
    async fn run(self) -> Result<ExitCode> {
        let file = self.folder.database()?;
        let database = open(&DatabaseAddress::File(file)).await?;
        let taken = database.snapshot_to(&self.file).await;
        database.close().await;
        taken.context("back up the database")?;
        let bytes = fs::metadata(&self.file).map_or(0, |file| file.len());
        let text = format!("wrote {} ({bytes} bytes)", self.file.display());
        self.folder.show(&text, json!({ "file": self.file, "bytes": bytes }));
        Ok(ExitCode::SUCCESS)
    }
}

impl RestoreArgs {
    async fn run(self) -> Result<ExitCode> {
        let Some(file) = &self.file else { return self.mark_only().await };
        let database = self.folder.database_path();
        // Always staged first: a crash in between leaves either database whole.
        let staged = staged(&database);
        stage_marked(file, &staged).await?;
        let Some(_lock) = lock(&self.folder.data_dir)? else {
            let text = "the server runs; it will use the backup from its next start on";
            self.folder.show(text, json!({ "restored": "at the next start" }));
            return Ok(ExitCode::SUCCESS);
        };
        take_staged(&database).await?;
        let text = format!("restored {} from {}", database.display(), file.display());
        self.folder.show(&text, json!({ "restored": "now", "database": database }));
        Ok(ExitCode::SUCCESS)
    }

    /// Marks a database that other tools have put back.
    async fn mark_only(&self) -> Result<ExitCode> {
        let database = offline_database(&self.folder.data_dir)?;
        mark_restored(&database, "other tools", SystemClock.now_ns()).await.context("mark the database")?;
        self.folder.show(
            "marked; start the server now, and look at what it puts aside with \"pandastack admin orphans list\"",
            json!({ "restored": "by other tools" }),
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Stages a backup with a mark in it, by which the server knows that it was restored. The backup
/// itself is never changed.
async fn stage_marked(file: &Path, staged: &Path) -> Result<()> {
    let (copy, marked) = (staged.with_extension("unmarked"), staged.with_extension("marked"));
    put_back(file, &copy, SCHEMA).await.context("restore the database")?;
    let address = DatabaseAddress::File(copy.clone());
    let named = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    mark_restored(&address, &named.to_string_lossy(), SystemClock.now_ns()).await.context("mark the backup")?;
    // One file again, whatever the driver left beside the copy.
    forget_file(&marked)?;
    let database = open(&address).await?;
    let taken = database.snapshot_to(&marked).await;
    database.close().await;
    taken.context("mark the backup")?;
    put_back(&marked, staged, SCHEMA).await.context("stage the backup")?;
    for suffix in ["", "-wal", "-shm"] {
        forget_file(Path::new(&format!("{}{suffix}", copy.display())))?;
    }
    forget_file(&marked)
}

/// Removes a file, which may be missing.
fn forget_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

impl MigrateStoreArgs {
    async fn run(self) -> Result<ExitCode> {
        let file = self.folder.database()?;
        let Some(_lock) = lock(&self.folder.data_dir)? else {
            bail!("a server uses {}; stop it first, so that no later change is lost", self.folder.data_dir.display());
        };
        let from = open(&DatabaseAddress::File(file.clone())).await?;
        let to = open(&DatabaseAddress::Server(self.to.clone())).await?;
        let now_ns = i64::try_from(SystemClock.now_ns()).unwrap_or(i64::MAX);
        SCHEMA.migrate(&from, now_ns).await.context("bring the source to this version")?;
        SCHEMA.migrate(&to, now_ns).await.context("make the tables of the target")?;
        let copied = from.copy_into(&to).await;
        from.close().await;
        to.close().await;
        let copied = copied.context("copy the rows; the target is as it was")?;
        let rows: u64 = copied.tables.iter().map(|(_, rows)| rows).sum();
        let text = format!(
            "copied {rows} rows of {} tables to {}\nstart the server with DATABASE_URL set; {} stays as a backup",
            copied.tables.len(),
            self.to,
            file.display()
        );
        let tables: serde_json::Map<_, _> =
            copied.tables.into_iter().map(|(table, rows)| (table, json!(rows))).collect();
        self.folder.show(&text, json!({ "rows": rows, "tables": tables }));
        Ok(ExitCode::SUCCESS)
    }
}

impl UserArgs {
    async fn run(self) -> Result<ExitCode> {
        match self {
            UserArgs::List(folder) => list_users(&folder).await,
            UserArgs::Create(CreateUserArgs { user, name, operator }) => {
                let accounts = user.folder.accounts().await?;
                let made = accounts.create(&user.email, &name, operator).await;
                accounts.close().await;
                let (account, token) = made.context("create an account")?;
                user.show_link(&account, token.reveal());
                Ok(ExitCode::SUCCESS)
            }
            UserArgs::Reset(user) => {
                let accounts = user.folder.accounts().await?;
                let made = accounts.reset(&user.email).await;
                accounts.close().await;
                let (account, token) = made.context("reset a password")?;
                user.show_link(&account, token.reveal());
                Ok(ExitCode::SUCCESS)
            }
            UserArgs::Disable(user) => user.set_disabled(true).await,
            UserArgs::Enable(user) => user.set_disabled(false).await,
        }
    }
}

impl NamedUserArgs {
    async fn set_disabled(self, disabled: bool) -> Result<ExitCode> {
        let accounts = self.folder.accounts().await?;
        let changed = accounts.set_disabled(&self.email, disabled).await;
        accounts.close().await;
        let account = changed.context("change an account")?;
        let text = format!("{} is {} now", account.email, if disabled { "disabled" } else { "enabled" });
        self.folder.show(&text, shown(&account));
        Ok(ExitCode::SUCCESS)
    }

    fn show_link(&self, account: &UserAccount, token: &str) {
        let link = self.public_url.as_deref().map(|base| reset_link(base, token));
        let how = format!("pandastack reset-password {}", link.as_deref().unwrap_or(token));
        let text = format!("{}: choose a password within 24 hours, once, with\n  {how}", account.email);
        let mut value = shown(account);
        value["reset_token"] = json!(token);
        value["reset_url"] = json!(link);
        self.folder.show(&text, value);
    }
}

async fn list_users(folder: &FolderArgs) -> Result<ExitCode> {
    let accounts = folder.accounts().await?;
    let found = accounts.list().await;
    accounts.close().await;
    let found = found.context("list accounts")?;
    if folder.json {
        println!("{}", json!(found.iter().map(shown).collect::<Vec<_>>()));
        return Ok(ExitCode::SUCCESS);
    }
    for account in &found {
        let mut notes = Vec::new();
        notes.extend(account.operator.then_some("operator"));
        notes.extend(account.disabled.then_some("disabled"));
        notes.extend((!account.has_password).then_some("identity provider"));
        println!("{}  {}  {}", account.id, account.email, notes.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(account: &UserAccount) -> serde_json::Value {
    json!({
        "id": account.id,
        "email": account.email,
        "name": account.name,
        "password": account.has_password,
        "operator": account.operator,
        "disabled": account.disabled,
        "created_at": rfc3339(account.created_at_ns),
        "last_login_at": account.last_login_at_ns.map(rfc3339),
    })
}

impl FolderArgs {
    /// Opens the accounts of the server that uses the folder.
    async fn accounts(&self) -> Result<Accounts> {
        let database = offline_database(&self.data_dir)?;
        Accounts::open(&database, SystemClock.now_ns()).await.context("open the accounts")
    }

    fn database_path(&self) -> PathBuf {
        match ControlPlace::in_folder(&self.data_dir).database {
            DatabaseAddress::File(path) => path,
            DatabaseAddress::Server(_) => unreachable!("a folder's database is a file"),
        }
    }

    /// Returns the path of the folder's database, which must exist.
    fn database(&self) -> Result<PathBuf> {
        let path = self.database_path();
        if !path.is_file() {
            bail!("{} is not the data folder of a server: it has no control.db", self.data_dir.display());
        }
        Ok(path)
    }

    fn show(&self, text: &str, value: serde_json::Value) {
        if self.json {
            println!("{value}");
        } else {
            println!("{text}");
        }
    }
}

/// Puts a staged backup in the place of the database, if there is one. Call it only while no server
/// uses the folder.
pub async fn take_staged(database: &Path) -> Result<bool> {
    let staged = staged(database);
    if !staged.exists() {
        return Ok(false);
    }
    put_back(&staged, database, SCHEMA).await.context("restore the staged backup")?;
    fs::remove_file(&staged).with_context(|| format!("remove {}", staged.display()))?;
    Ok(true)
}

fn staged(database: &Path) -> PathBuf {
    database.with_extension("db.staged")
}

/// Locks the data folder. `None` if a server uses it.
fn lock(data_dir: &Path) -> Result<Option<Flock<File>>> {
    let path = data_dir.join("lock");
    let file = File::create(&path).with_context(|| format!("open {}", path.display()))?;
    Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock).ok())
}

async fn open(address: &DatabaseAddress) -> Result<Database> {
    let settings = PoolSettings { connections_max: 2, busy_max: PATIENCE, statement_max: PATIENCE };
    Database::open(address, settings).await.with_context(|| format!("open {address}"))
}
