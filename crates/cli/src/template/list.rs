//! `pandastack template list`

use std::{process::ExitCode, time::SystemTime};

use pandastack_client::wire::{DatabasePreparation, PreparationStatus, Template, parse_rfc3339};
use serde_json::Value;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
    snapshot::mebibytes,
};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Arguments of `template list`.
#[derive(Debug, clap::Args)]
pub struct ListTemplatesArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists templates.
pub async fn list(args: ListTemplatesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["NAME", "CPU", "MEMORY", "DISK", "FROM", "OWNER", "DATABASES"];
    let listing = TableFormat { head, row, empty: "no templates; bake one with: pandastack template bake mini" };
    args.form.print(global, listing, async || client.templates().await).await
}

fn row(template: &Template) -> Vec<String> {
    vec![
        template.name.clone(),
        template.cpu.to_string(),
        format!("{} MiB", template.memory_mb),
        mebibytes(template.size_bytes),
        from(template),
        template.workspace.clone().unwrap_or_else(|| "server".to_owned()),
        template.databases.as_ref().map(|databases| preparation(databases, now_ns())).unwrap_or_default(),
    ]
}

/// What it was made from. For one that the server is still making, how far that is.
fn from(template: &Template) -> String {
    let description = || template.meta.get("description").and_then(Value::as_str).map(str::to_owned);
    match &template.status {
        Some(status) => description().unwrap_or_else(|| status.clone()),
        None => template.base.clone().unwrap_or_default(),
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether databases can start from a template at once.
fn preparation(databases: &DatabasePreparation, now_ns: u64) -> String {
    let DatabasePreparation { status, since, error, next_try_at } = databases;
    match status {
        PreparationStatus::Waiting => "waiting".to_owned(),
        PreparationStatus::Ready => "ready".to_owned(),
        PreparationStatus::Preparing => {
            let since = since.as_deref().and_then(parse_rfc3339).unwrap_or(now_ns);
            format!("preparing {} s", now_ns.saturating_sub(since) / NS_PER_SECOND)
        }
        PreparationStatus::Failed => {
            let next = next_try_at.as_ref().map(|next| format!("; next try at {next}")).unwrap_or_default();
            format!("failed: {}{next}", error.as_deref().unwrap_or("the server does not say why"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_in_the_making_says_how_far_it_is() {
        let listed = |fields: Value| {
            let mut template = json!({"name": "mini", "rootfs_path": "x", "size_bytes": 1 << 30, "cpu": 1});
            template.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            template["memory_mb"] = json!(256);
            template["is_global"] = json!(true);
            row(&serde_json::from_value(template).unwrap()).remove(4)
        };
        assert_eq!(listed(json!({})), "");
        assert_eq!(listed(json!({"base": "base"})), "base");
        assert_eq!(listed(json!({"status": "baking"})), "baking");
        let meta = json!({"description": "is being baked, 40 s so far (first boot)"});
        assert_eq!(listed(json!({"status": "baking", "meta": meta})), "is being baked, 40 s so far (first boot)");
    }

    #[test]
    fn a_template_tells_whether_databases_start_at_once() {
        let blank = |status| DatabasePreparation { status, since: None, error: None, next_try_at: None };
        let preparing = DatabasePreparation {
            since: Some("1970-01-01T00:00:10Z".to_owned()),
            ..blank(PreparationStatus::Preparing)
        };
        assert_eq!(preparation(&preparing, 50 * NS_PER_SECOND), "preparing 40 s");
        assert_eq!(preparation(&preparing, 0), "preparing 0 s", "the clocks differ");
        let failed = DatabasePreparation {
            error: Some("no room".to_owned()),
            next_try_at: Some("1970-01-01T00:01:00Z".to_owned()),
            ..blank(PreparationStatus::Failed)
        };
        assert_eq!(preparation(&failed, 0), "failed: no room; next try at 1970-01-01T00:01:00Z");
        assert_eq!(preparation(&blank(PreparationStatus::Ready), 0), "ready");
        assert_eq!(preparation(&blank(PreparationStatus::Waiting), 0), "waiting");
    }
}
