//! `pandastack template list`

use std::process::ExitCode;

use pandastack_client::wire::Template;
use serde_json::Value;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
    snapshot::mebibytes,
};

/// Arguments of `template list`.
#[derive(Debug, clap::Args)]
pub struct ListTemplatesArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists templates.
pub async fn list(args: ListTemplatesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["NAME", "CPU", "MEMORY", "DISK", "FROM", "OWNER"];
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
}
