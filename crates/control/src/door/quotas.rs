//! Shows the limits of a workspace, and what it uses of them.

use axum::{Json, extract::State};
use pandastack_door::http::Answer;
use pandastack_wire_public::{QuotaLimits, Quotas, QuotasUsed};

use super::caller::Authenticated;
use crate::Control;

/// Shows the limits of the caller's workspace.
pub async fn show(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Quotas>> {
    let (found, usage) = control.quotas(&caller).await?;
    let (limits, rate) = (found.limits, control.shown_rate(&found, &caller.workspace));
    Ok(Json(Quotas {
        workspace: caller.workspace.0,
        plan: found.plan.to_string(),
        limits: QuotaLimits {
            max_sandboxes: limits.max_sandboxes.number(),
            max_cpu_total: limits.max_cpu_total.number(),
            max_memory_mb_total: limits.max_memory_mb_total.number(),
            max_disk_gib_total: limits.max_disk_gib_total.number(),
            hourly_create_limit: limits.hourly_create_limit.number(),
            max_volumes: limits.max_volumes.number(),
            max_volume_size_gib: limits.max_volume_size_gib.number(),
            max_volume_total_gib: limits.max_volume_total_gib.number(),
            ttl_seconds_max: limits.ttl_seconds_max.number(),
            builds_concurrent_max: limits.builds_concurrent_max.number(),
            connections_max: limits.connections_max.number(),
            requests_per_second: rate.map(|rate| rate.per_second),
            requests_burst: rate.map(|rate| rate.burst),
        },
        usage: QuotasUsed {
            sandboxes: usage.sandboxes,
            cpu: usage.cpu,
            memory_mb: usage.memory_mb,
            disk_gib: usage.disk_gib,
            creates_last_hour: usage.creates_last_hour,
            volumes: usage.volumes,
            volume_total_gib: usage.volume_total_gib,
        },
    }))
}
