//! Templates, read from the host.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use pandastack_model::{Bytes, Fault, FaultKind};
use pandastack_wire_fleet::TemplateView;
use pandastack_wire_public::{Template, http::Answer};

use super::caller::Authenticated;
use crate::Control;

/// Lists every template, by name. A bare array, which one published client needs.
pub async fn list(State(control): State<Control>, _: Authenticated) -> Json<Vec<Template>> {
    let mut templates: Vec<_> = control.host.templates().await.into_iter().map(render).collect();
    templates.sort_by(|a, b| a.name.cmp(&b.name));
    Json(templates)
}

/// Shows one template.
pub async fn get(
    State(control): State<Control>,
    _: Authenticated,
    name: Result<Path<String>, PathRejection>,
) -> Answer<Json<Template>> {
    let templates = control.host.templates().await;
    let found = name.ok().and_then(|Path(name)| templates.into_iter().find(|template| template.name == name));
    let missing = || Fault::new(FaultKind::Missing, "template.not_found", "template not found");
    Ok(Json(render(found.ok_or_else(missing)?)))
}

fn render(view: TemplateView) -> Template {
    let TemplateView { name, layer, memory_mib, cpus, disk_mib } = view;
    Template {
        rootfs_path: format!("templates/{name}"),
        name,
        size_bytes: Bytes::mib(disk_mib).get(),
        cpu: u32::from(cpus),
        memory_mb: memory_mib,
        is_global: true,
        meta: [("layer".to_owned(), layer)].into(),
    }
}
