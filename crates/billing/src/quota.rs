//! Decides whether a workspace may have more. Pure: the caller counts what is used and applies the
//! decision in the same transaction. A refusal never carries `Retry-After`, because published
//! clients would try again at once and waiting does not help.

use crate::{
    invoice::BudgetState,
    plans::{PlanLimits, QuotaLimit},
    stripe_events::Standing,
};

/// What a workspace uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUsage {
    /// Sandboxes that exist, sleeping ones included.
    pub sandboxes: u64,
    /// CPUs and memory of running and paused sandboxes.
    pub cpu: u64,
    pub memory_mb: u64,
    /// Disks of all sandboxes.
    pub disk_gib: u64,
    pub creates_last_hour: u64,
    pub volumes: u64,
    pub volume_total_gib: u64,
    pub builds: u64,
    pub connections: u64,
}

/// What a request adds. Zero means that the rule does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaRequest {
    pub sandboxes: u64,
    /// Sandboxes that count as created. A wake adds CPUs and memory, but creates nothing.
    pub creates: u64,
    /// CPUs, memory and disks of all new sandboxes together.
    pub cpu: u64,
    pub memory_mb: u64,
    pub disk_gib: u64,
    pub volumes: u64,
    /// Size of the largest new or grown volume.
    pub volume_size_gib: u64,
    /// Space that volumes gain: the whole size of new ones, the difference of grown ones.
    pub volume_added_gib: u64,
    pub builds: u64,
    pub connections: u64,
    /// The idle time that the caller asked for; 0 asks for none. `None` if it named none.
    pub ttl_seconds: Option<u64>,
}

/// The rule behind a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotaRule {
    TtlSeconds,
    Sandboxes,
    Cpu,
    Memory,
    Disk,
    HourlyCreates,
    Volumes,
    VolumeSize,
    VolumeTotal,
    Builds,
    Connections,
    /// The budget of the month is used up.
    Budget,
    /// The subscription is unpaid, and its grace period is over.
    Unpaid,
}

impl QuotaRule {
    /// Stable code of the error answer.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TtlSeconds => "quota.ttl_seconds",
            Self::Sandboxes => "quota.sandboxes",
            Self::Cpu => "quota.cpu",
            Self::Memory => "quota.memory_total",
            Self::Disk => "quota.disk",
            Self::HourlyCreates => "quota.hourly_creates",
            Self::Volumes => "quota.volumes",
            Self::VolumeSize => "quota.volume_size",
            Self::VolumeTotal => "quota.volume_total",
            Self::Builds => "quota.builds",
            Self::Connections => "quota.plan_connections",
            Self::Budget => "billing.budget",
            Self::Unpaid => "billing.unpaid",
        }
    }

    /// HTTP status of the error answer. A wrong idle time is the caller's mistake; the workspace's
    /// limits are 429; what only a payment changes is 402.
    pub const fn status(self) -> u16 {
        match self {
            Self::TtlSeconds => 400,
            Self::Budget | Self::Unpaid => 402,
            _ => 429,
        }
    }
}

/// Why a workspace may not have more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QuotaRefusal {
    pub rule: QuotaRule,
    /// The plan's number. Zero for a rule about money.
    pub limit: u64,
    /// What the workspace has now. Zero for a rule about one value of the request.
    pub present: u64,
    /// What the request would add.
    pub wanted: u64,
    /// Public text of the error answer.
    pub message: String,
}

/// Checks a request against the limits. Returns the first rule that it breaks: mistakes of the
/// request come before full limits.
pub fn check_quota(limits: &PlanLimits, usage: &QuotaUsage, request: &QuotaRequest) -> Result<(), QuotaRefusal> {
    check_ttl(limits.ttl_seconds_max, request.ttl_seconds)?;
    check_volume_size(limits.max_volume_size_gib, request.volume_size_gib)?;
    let rules = [
        (QuotaRule::Sandboxes, limits.max_sandboxes, usage.sandboxes, request.sandboxes, "sandboxes"),
        (QuotaRule::Cpu, limits.max_cpu_total, usage.cpu, request.cpu, "CPUs"),
        (QuotaRule::Memory, limits.max_memory_mb_total, usage.memory_mb, request.memory_mb, "MiB of memory"),
        (QuotaRule::Disk, limits.max_disk_gib_total, usage.disk_gib, request.disk_gib, "GiB of disk"),
        (
            QuotaRule::HourlyCreates,
            limits.hourly_create_limit,
            usage.creates_last_hour,
            request.creates,
            "sandboxes created within an hour",
        ),
        (QuotaRule::Volumes, limits.max_volumes, usage.volumes, request.volumes, "volumes"),
        (
            QuotaRule::VolumeTotal,
            limits.max_volume_total_gib,
            usage.volume_total_gib,
            request.volume_added_gib,
            "GiB in volumes",
        ),
        (QuotaRule::Builds, limits.builds_concurrent_max, usage.builds, request.builds, "builds at once"),
        (QuotaRule::Connections, limits.connections_max, usage.connections, request.connections, "connections at once"),
    ];
    rules.into_iter().try_for_each(|(rule, limit, present, wanted, what)| {
        let QuotaLimit::AtMost(limit) = limit else { return Ok(()) };
        if wanted == 0 || present.saturating_add(wanted) <= limit {
            return Ok(());
        }
        let message = format!(
            "quota exceeded: the plan allows {limit} {what}, the workspace has {present} and asked for {wanted} more"
        );
        Err(QuotaRefusal { rule, limit, present, wanted, message })
    })
}

/// Checks whether a workspace may start anything new: unpaid workspaces are read-only, and a hard
/// budget stops what costs money.
pub fn check_standing(standing: Standing, budget: BudgetState) -> Result<(), QuotaRefusal> {
    let refuse = |rule, message: String| Err(QuotaRefusal { rule, limit: 0, present: 0, wanted: 0, message });
    if let Standing::ReadOnly { .. } = standing {
        let text = "the workspace is read-only because its subscription is unpaid; pay the open invoice to continue";
        return refuse(QuotaRule::Unpaid, text.to_owned());
    }
    if let BudgetState::OverCap { cap } = budget {
        let text =
            format!("the budget of {cap} dollars for this month is used up; raise it or wait for the next month");
        return refuse(QuotaRule::Budget, text);
    }
    Ok(())
}

/// The worker of published clients looks for the exact words of this message and then asks again
/// without an idle time.
fn check_ttl(limit: QuotaLimit, asked: Option<u64>) -> Result<(), QuotaRefusal> {
    let (QuotaLimit::AtMost(limit), Some(wanted)) = (limit, asked) else { return Ok(()) };
    if wanted != 0 && wanted <= limit {
        return Ok(());
    }
    let asked = if wanted == 0 { "no idle time (0)".to_owned() } else { wanted.to_string() };
    let message = format!("ttl_seconds exceeds tier maximum: the plan allows {limit} seconds, the request has {asked}");
    Err(QuotaRefusal { rule: QuotaRule::TtlSeconds, limit, present: 0, wanted, message })
}

fn check_volume_size(limit: QuotaLimit, wanted: u64) -> Result<(), QuotaRefusal> {
    let QuotaLimit::AtMost(limit) = limit else { return Ok(()) };
    if wanted <= limit {
        return Ok(());
    }
    let message = format!("quota exceeded: the plan allows volumes of {limit} GiB, the request has {wanted}");
    Err(QuotaRefusal { rule: QuotaRule::VolumeSize, limit, present: 0, wanted, message })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        money::PicoDollars,
        plans::{PlanName, Plans, QuotaOverrides},
    };

    fn limits() -> PlanLimits {
        Plans::default().get(PlanName::Free).limits
    }

    fn refusal(usage: QuotaUsage, request: QuotaRequest) -> Option<(QuotaRule, u64, u64, u64)> {
        let refusal = check_quota(&limits(), &usage, &request).err()?;
        Some((refusal.rule, refusal.limit, refusal.present, refusal.wanted))
    }

    #[test]
    fn a_workspace_may_have_exactly_its_limit() {
        let (usage, request) = (QuotaUsage::default(), QuotaRequest::default());
        let cases = [
            (QuotaUsage { sandboxes: 15, ..usage }, QuotaRequest { sandboxes: 1, ..request }, None),
            (
                QuotaUsage { sandboxes: 15, ..usage },
                QuotaRequest { sandboxes: 2, ..request },
                Some((QuotaRule::Sandboxes, 16, 15, 2)),
            ),
            (QuotaUsage { cpu: 16, ..usage }, QuotaRequest { cpu: 1, ..request }, Some((QuotaRule::Cpu, 16, 16, 1))),
            (
                QuotaUsage { memory_mb: 32_768, ..usage },
                QuotaRequest { memory_mb: 1, ..request },
                Some((QuotaRule::Memory, 32_768, 32_768, 1)),
            ),
            (usage, QuotaRequest { disk_gib: 161, ..request }, Some((QuotaRule::Disk, 160, 0, 161))),
            (
                QuotaUsage { creates_last_hour: 199, ..usage },
                QuotaRequest { creates: 2, ..request },
                Some((QuotaRule::HourlyCreates, 200, 199, 2)),
            ),
            (
                QuotaUsage { volumes: 1, ..usage },
                QuotaRequest { volumes: 1, ..request },
                Some((QuotaRule::Volumes, 1, 1, 1)),
            ),
            (usage, QuotaRequest { volume_size_gib: 2, ..request }, Some((QuotaRule::VolumeSize, 1, 0, 2))),
            (
                QuotaUsage { volume_total_gib: 1, ..usage },
                QuotaRequest { volume_added_gib: 1, ..request },
                Some((QuotaRule::VolumeTotal, 1, 1, 1)),
            ),
            (
                QuotaUsage { builds: 1, ..usage },
                QuotaRequest { builds: 1, ..request },
                Some((QuotaRule::Builds, 1, 1, 1)),
            ),
            (
                QuotaUsage { connections: 64, ..usage },
                QuotaRequest { connections: 1, ..request },
                Some((QuotaRule::Connections, 64, 64, 1)),
            ),
        ];
        for (usage, request, expected) in cases {
            assert_eq!(refusal(usage, request), expected, "{request:?}");
        }
    }

    #[test]
    fn a_wake_is_not_a_create() {
        let usage = QuotaUsage { sandboxes: 16, creates_last_hour: 200, ..QuotaUsage::default() };
        assert_eq!(refusal(usage, QuotaRequest { cpu: 1, memory_mb: 1024, ..QuotaRequest::default() }), None);
    }

    #[test]
    fn a_workspace_above_its_limit_may_still_ask_for_nothing_more() {
        let usage = QuotaUsage { sandboxes: 99, cpu: 99, ..QuotaUsage::default() };
        assert_eq!(refusal(usage, QuotaRequest { connections: 1, ..QuotaRequest::default() }), None);
    }

    #[test]
    fn an_idle_time_above_the_plan_has_the_words_that_clients_match() {
        let ask = |ttl_seconds| QuotaRequest { ttl_seconds, ..QuotaRequest::default() };
        for wanted in [86_401, 0, u64::MAX] {
            let refused = check_quota(&limits(), &QuotaUsage::default(), &ask(Some(wanted))).unwrap_err();
            assert!(refused.message.contains("ttl_seconds exceeds tier maximum"), "{refused}");
            assert_eq!((refused.rule.status(), refused.limit, refused.wanted), (400, 86_400, wanted));
        }
        for fine in [None, Some(1), Some(86_400)] {
            assert_eq!(refusal(QuotaUsage::default(), ask(fine)), None, "{fine:?}");
        }
        let own = QuotaOverrides { ttl_seconds_max: Some(QuotaLimit::Unlimited), ..QuotaOverrides::default() };
        assert_eq!(check_quota(&limits().with(&own), &QuotaUsage::default(), &ask(Some(0))), Ok(()));
    }

    #[test]
    fn unpaid_workspaces_and_used_budgets_start_nothing_new() {
        let fine = Standing::Paid { plan: PlanName::Pro };
        let read_only = Standing::ReadOnly { plan: PlanName::Pro, since_s: 1 };
        let over = BudgetState::OverCap { cap: PicoDollars::from_micros(5_400_000) };
        let rule = |standing, budget| check_standing(standing, budget).err().map(|refusal| refusal.rule);
        assert_eq!(rule(fine, BudgetState::Ok), None);
        assert_eq!(rule(fine, BudgetState::Alert { percent: 80 }), None);
        assert_eq!(rule(Standing::Grace { plan: PlanName::Pro, until_s: 9 }, BudgetState::Ok), None);
        assert_eq!(rule(Standing::Free, over), Some(QuotaRule::Budget));
        assert_eq!(rule(read_only, BudgetState::Ok), Some(QuotaRule::Unpaid));
        assert!(check_standing(Standing::Free, over).unwrap_err().message.contains("5.40 dollars"));
        assert_eq!((QuotaRule::Budget.status(), QuotaRule::Unpaid.status(), QuotaRule::Cpu.status()), (402, 402, 429));
    }

    proptest! {
        #[test]
        fn no_number_overflows_and_an_admitted_request_fits(sandboxes: u64, more: u64) {
            let usage = QuotaUsage { sandboxes, ..QuotaUsage::default() };
            let request = QuotaRequest { sandboxes: more, ..QuotaRequest::default() };
            let admitted = check_quota(&limits(), &usage, &request).is_ok();
            prop_assert_eq!(admitted, more == 0 || u128::from(sandboxes) + u128::from(more) <= 16);
        }
    }
}
