//! Routes for resources that outlive sandboxes: templates, volumes, webhooks.

use serde_json::json;

use super::operation::{Operation, ours, query, route, yes_or_no};
use crate::{
    Build, ChangeWebhook, CreateVolume, CreateWebhook, Delivery, GrowVolume, Ping, RotateSecret, Template, Volume,
    Webhook,
    limits::{BUILD_CPUS_MAX, BUILD_MEMORY_MB_MAX, BUILD_MEMORY_MB_MIN, BUILD_SIZE_MB_MAX},
};

const TEMPLATES: &str = "Templates";
const VOLUMES: &str = "Volumes";
const HOOKS: &str = "Webhooks";
/// Error statuses of work on a host.
const HOST: &[u16] = &[409, 502, 503, 504, 507];

pub fn operations() -> Vec<Operation> {
    let mut all = vec![
        route(TEMPLATES, "GET", "/v1/templates", "List templates").gives::<Vec<Template>>(200),
        route(TEMPLATES, "GET", "/v1/templates/{name}", "Show a template").gives::<Template>(200),
        route(
            TEMPLATES,
            "DELETE",
            "/v1/templates/{name}",
            "Delete a template; sandboxes created from it are not affected",
        )
        .refuses(&[403])
        .refuses(HOST)
        .gives_nothing(204),
        build(),
        route(TEMPLATES, "GET", "/v1/templates/builds", "List builds, newest first").gives::<Vec<Build>>(200),
        route(TEMPLATES, "GET", "/v1/templates/builds/{build}", "Show a build").gives::<Build>(200),
        route(TEMPLATES, "GET", "/v1/templates/builds/{build}/logs", "Show the log of a build, or follow it")
            .notes("The data of each event is one line of plain text. The last event is `done`.")
            .with(yes_or_no("follow", "Keeps the stream open until the build ends."))
            .gives_events(&[]),
        route(VOLUMES, "POST", "/v1/volumes", "Create a volume")
            .once()
            .refuses(&[402])
            .refuses(HOST)
            .takes::<CreateVolume>(json!({"name": "data", "size_mb": 1024}))
            .gives::<Volume>(201),
        route(VOLUMES, "GET", "/v1/volumes", "List volumes by name")
            .refuses(&[502, 503, 504])
            .gives::<Vec<Volume>>(200),
        route(VOLUMES, "GET", "/v1/volumes/{name}", "Show a volume").refuses(&[502, 503, 504]).gives::<Volume>(200),
        route(VOLUMES, "PATCH", "/v1/volumes/{name}", "Grow a volume, also while it is in use")
            .ours()
            .refuses(&[402])
            .refuses(HOST)
            .takes::<GrowVolume>(json!({"size_mb": 2048}))
            .gives::<Volume>(200),
        route(VOLUMES, "DELETE", "/v1/volumes/{name}", "Delete a volume that no sandbox uses")
            .refuses(HOST)
            .gives_nothing(204),
    ];
    all.extend(webhooks().into_iter().map(Operation::ours));
    all
}

fn build() -> Operation {
    let number = |min: u64, max: u64| json!({"type": "string", "pattern": "^[0-9]{1,6}$", "description": format!("{min} to {max}")});
    let mut fields = json!({
        "name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
        "size_mb": number(1, BUILD_SIZE_MB_MAX),
        "cpu": number(1, BUILD_CPUS_MAX),
        "memory_mb": number(BUILD_MEMORY_MB_MIN, BUILD_MEMORY_MB_MAX),
        "dockerfile": {"type": "string", "description": "The text of the Dockerfile."},
        "image_ref": {"type": "string", "description": "Name of an image in a registry: `name:tag` or `name@digest`."},
        "registry_auth": ours(json!({"type": "string", "description": "JSON object with `username`, `password` and \
                                                                       the `registry` they are for. Not stored."})),
        "from_snapshot": ours(json!({"type": "string", "description": "Id of the snapshot to build from."})),
        "replace": {"type": "string", "description": "`true` replaces an existing template with this name."},
        "start": ours(json!({"type": "string", "description": "`false`: `ENTRYPOINT` and `CMD` are not started in the \
                                                               template."})),
    });
    let form = json!({"schema": {"type": "object", "properties": fields, "required": ["name"]}});
    fields["rootfs"] =
        json!({"type": "string", "format": "binary", "description": "Root file system as a tar or tar.gz archive."});
    let files = json!({"type": "string", "format": "binary", "description": "A file of the build context; the field \
                                                                             name is its path."});
    let parts = json!({"type": "object", "properties": fields, "required": ["name"], "additionalProperties": files});
    let content = json!({"multipart/form-data": {"schema": parts}, "application/x-www-form-urlencoded": form});
    route(TEMPLATES, "POST", "/v1/templates/build", "Build a template; returns the build at once")
        .once()
        .notes("Send exactly one of `dockerfile`, `rootfs`, `from_snapshot` and `image_ref`.")
        .with(yes_or_no("replace", "Replaces an existing template with this name."))
        .refuses(&[402, 403, 404])
        .refuses(HOST)
        .takes_content(content, true)
        .gives::<Build>(202)
}

fn webhooks() -> Vec<Operation> {
    let few = || {
        query(
            "limit",
            json!({"type": "integer", "minimum": 1, "maximum": 500}),
            "Maximum number of entries; 100 by default.",
        )
    };
    let stages = json!({"type": "string", "enum": ["pending", "failed", "delivered", "dead"]});
    vec![
        route(HOOKS, "POST", "/v1/webhooks", "Subscribe a URL to events; shows its secret")
            .once()
            .takes::<CreateWebhook>(json!({"url": "https://hooks.example.com/in", "events": ["sandbox.*"]}))
            .gives::<Webhook>(201),
        route(HOOKS, "GET", "/v1/webhooks", "List webhooks, newest first").gives::<Vec<Webhook>>(200),
        route(HOOKS, "GET", "/v1/webhooks/{webhook}", "Show a webhook").gives::<Webhook>(200),
        route(HOOKS, "PATCH", "/v1/webhooks/{webhook}", "Change, enable or disable a webhook")
            .takes::<ChangeWebhook>(json!({"enabled": false}))
            .gives::<Webhook>(200),
        route(HOOKS, "DELETE", "/v1/webhooks/{webhook}", "Delete a webhook and its deliveries").gives_nothing(204),
        route(
            HOOKS,
            "POST",
            "/v1/webhooks/{webhook}/rotate-secret",
            "Create a new secret; the old one also signs during a grace period",
        )
        .may_take::<RotateSecret>(json!({"grace_seconds": 3600}))
        .gives::<Webhook>(200),
        route(HOOKS, "POST", "/v1/webhooks/{webhook}/ping", "Send a test event and show the receiver's answer")
            .refuses(&[409, 503])
            .gives::<Ping>(200),
        route(HOOKS, "GET", "/v1/webhooks/{webhook}/deliveries", "List deliveries, newest first")
            .with(query("status", stages, "Lists only deliveries with this status."))
            .with(few())
            .gives::<Vec<Delivery>>(200),
        route(HOOKS, "GET", "/v1/webhooks/deliveries/{delivery}", "Show a delivery and its attempts")
            .gives::<Delivery>(200),
        route(HOOKS, "POST", "/v1/webhooks/deliveries/{delivery}/replay", "Deliver again")
            .refuses(&[409])
            .gives::<Delivery>(202),
        route(HOOKS, "GET", "/v1/webhooks/dead-letters", "List deliveries that failed for good")
            .with(few())
            .gives::<Vec<Delivery>>(200),
    ]
}
