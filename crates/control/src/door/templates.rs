//! Templates: those of the host, which everybody may use, and those of the caller.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use pandastack_door::http::Answer;
use pandastack_model::{ByteSize, Fault, FaultKind};
use pandastack_wire_fleet::TemplateView;
use pandastack_wire_public::{DatabasePreparation, PreparationStatus, Template, rfc3339};
use serde_json::{Value, json};

use super::caller::Authenticated;
use crate::{
    Control,
    app::GoldenState,
    bakes::{PendingTemplate, PendingView},
    build::TemplateSettings,
    store,
};

/// Lists every template: the host's, then the caller's, each by name. A bare array, because a
/// published client needs one. A server without a host lists only the caller's. Templates that the
/// server is still making are listed with their `status`.
pub async fn list(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Vec<Template>>> {
    let pending = control.templates.bakes.pending();
    let mut templates = Vec::new();
    for view in control.host.templates().await {
        templates.push(of_host(&control, view).await?);
    }
    let is_new = |pending: &PendingView| !templates.iter().any(|known| pending.is_named(&known.name));
    let pending: Vec<_> = pending.into_iter().filter(is_new).map(unfinished).collect();
    templates.extend(pending);
    templates.sort_by(|a, b| a.name.cmp(&b.name));
    let own = control.store.list_templates(&caller.workspace).await.map_err(Fault::from)?;
    templates.extend(own.into_iter().map(render));
    Ok(Json(templates))
}

/// Shows one template.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    name: Result<Path<String>, PathRejection>,
) -> Answer<Json<Template>> {
    let Path(name) = name.map_err(|_| missing())?;
    if let Some(own) = control.store.find_template(&caller.workspace, &name).await.map_err(Fault::from)? {
        return Ok(Json(render(own)));
    }
    control.need_host()?;
    let pending = control.templates.bakes.pending();
    let found = control.host.templates().await.into_iter().find(|template| template.name == name);
    if let Some(found) = found {
        return Ok(Json(of_host(&control, found).await?));
    }
    let unfinished = pending.into_iter().find(|pending| pending.is_named(&name)).map(unfinished);
    Ok(Json(unfinished.ok_or_else(missing)?))
}

/// Deletes a template of the caller's workspace. Sandboxes made from it keep running.
pub async fn delete(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    name: Result<Path<String>, PathRejection>,
) -> Answer<StatusCode> {
    let Path(name) = name.map_err(|_| missing())?;
    let deleting = control.clone();
    let deleted = control.scope.run("delete template", async move { deleting.delete_template(&caller, &name).await });
    deleted.await.map_err(Fault::bug)??;
    Ok(StatusCode::NO_CONTENT)
}

fn missing() -> Fault {
    Fault::new(FaultKind::Missing, "template.not_found", "template not found")
}

async fn of_host(control: &Control, view: TemplateView) -> Result<Template, Fault> {
    let databases = control.preparation_of(&view).await?.map(preparation);
    Ok(Template { databases, ..global(view) })
}

fn preparation(state: GoldenState) -> DatabasePreparation {
    let blank = |status| DatabasePreparation { status, since: None, error: None, next_try_at: None };
    match state {
        GoldenState::Waiting => blank(PreparationStatus::Waiting),
        GoldenState::Preparing { since_ns } => {
            DatabasePreparation { since: Some(rfc3339(since_ns)), ..blank(PreparationStatus::Preparing) }
        }
        GoldenState::Ready => blank(PreparationStatus::Ready),
        GoldenState::Failed { error, retry_at_ns } => DatabasePreparation {
            error: Some(error),
            next_try_at: Some(rfc3339(retry_at_ns)),
            ..blank(PreparationStatus::Failed)
        },
    }
}

fn global(view: TemplateView) -> Template {
    let TemplateView { name, layer, memory_mib, cpus, disk_mib } = view;
    Template {
        rootfs_path: format!("templates/{name}"),
        name,
        size_bytes: ByteSize::mib(disk_mib).get(),
        cpu: u32::from(cpus),
        memory_mb: memory_mib,
        is_global: true,
        workspace: None,
        base: None,
        status: None,
        meta: [("layer".to_owned(), json!(layer))].into(),
        databases: None,
    }
}

/// Renders a template that the server is still making, or could not make.
fn unfinished(view: PendingView) -> Template {
    let (status, description) = (view.status(), view.description());
    let PendingTemplate { name, aliases: _, cpus, memory_mib, disk_mib } = view.template;
    Template {
        rootfs_path: format!("templates/{name}"),
        name: name.to_string(),
        size_bytes: ByteSize::mib(disk_mib).get(),
        cpu: u32::from(cpus),
        memory_mb: memory_mib,
        is_global: true,
        workspace: None,
        base: None,
        status: Some(status.to_owned()),
        meta: [("description".to_owned(), json!(description))].into(),
        databases: None,
    }
}

fn render(template: store::TemplateRow) -> Template {
    let store::TemplateRow { workspace, name, layer, base, size, disk_mib, settings, created_at_ns } = template;
    let mut meta = describe(settings);
    meta.insert("layer".to_owned(), json!(layer));
    meta.insert("built_at".to_owned(), json!(rfc3339(created_at_ns)));
    Template {
        rootfs_path: format!("templates/{name}"),
        name: name.to_string(),
        size_bytes: ByteSize::mib(disk_mib).get(),
        cpu: size.cpus,
        memory_mb: size.memory_mib,
        is_global: false,
        workspace: Some(workspace.0),
        base: Some(base),
        status: None,
        meta,
        databases: None,
    }
}

fn describe(settings: TemplateSettings) -> BTreeMap<String, Value> {
    let TemplateSettings { env, workdir, user, entrypoint, cmd, started, ports, labels } = settings;
    let said = [
        ("env", json!(env)),
        ("workdir", json!(workdir)),
        ("user", json!(user)),
        ("entrypoint", json!(entrypoint)),
        ("cmd", json!(cmd)),
        ("started", json!(started)),
        ("ports", json!(ports)),
        ("labels", json!(labels)),
    ];
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    said.into_iter().filter(|(_, value)| !empty(value)).map(|(name, value)| (name.to_owned(), value)).collect()
}
