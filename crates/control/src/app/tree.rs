//! Shows the family of a sandbox, and what each member takes and costs.

use pandastack_billing::{CalendarWindow, PicoDollars, PlanPrices, UsageTotals, UtcMonth, calendar::HOUR_NS};
use pandastack_model::{ByteSize, Fault, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::NodeCost;

use super::billing::{dollars, list_price};
use crate::{
    Control, plan,
    store::{FamilyMember, MachineSize},
};

/// A member of a family with what it costs; a deleted one costs nothing.
pub struct CostedMember {
    pub member: FamilyMember,
    pub cost: Option<NodeCost>,
}

/// What a machine uses in a state: what is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BilledParts {
    All,
    MemoryAndDisk,
    Disk,
}

impl Control {
    /// Returns the family of a sandbox of the caller, from the oldest member down.
    pub(crate) async fn tree(&self, caller: &Caller, id: SandboxId) -> Result<Vec<CostedMember>, Fault> {
        let _mine = self.store.state(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        let everybody = self.store.relatives(&caller.workspace).await?;
        let family = plan::family(everybody, id).ok_or_else(Fault::no_sandbox)?;
        let limits = self.limits_of(&caller.workspace).await?;
        let prices = self.settings.plans.get(limits.plan).prices;
        let month = UtcMonth::of(self.clock.now_ns());
        let with_cost = |member: FamilyMember| {
            let cost = member.size.map(|size| {
                let parts = billed_parts(&member.status);
                let measured = self.usage.series.baseline(member.id).filter(|_| parts != BilledParts::Disk);
                NodeCost {
                    cpu: size.cpus,
                    memory_mb: size.memory_mib,
                    disk_mb: size.disk_mib,
                    held_bytes: measured.map(|measured| measured.resident.get()),
                    usd_per_hour: dollars(hour_price(&prices, size, parts, month)),
                }
            });
            CostedMember { member, cost }
        };
        Ok(family.into_iter().map(with_cost).collect())
    }
}

/// The parts of a sandbox that are billed in a state.
fn billed_parts(status: &str) -> BilledParts {
    match SandboxState::from_name(status, None) {
        Some(SandboxState::Running | SandboxState::FallingAsleep | SandboxState::Stopping) => BilledParts::All,
        Some(SandboxState::Paused) => BilledParts::MemoryAndDisk,
        Some(SandboxState::Creating | SandboxState::Waking | SandboxState::Asleep | SandboxState::Failed { .. })
        | None => BilledParts::Disk,
    }
}

fn hour_price(prices: &PlanPrices, size: MachineSize, parts: BilledParts, month: UtcMonth) -> PicoDollars {
    let hour = u128::from(HOUR_NS);
    let (cpu, memory) = match parts {
        BilledParts::All => (hour, hour),
        BilledParts::MemoryAndDisk => (0, hour),
        BilledParts::Disk => (0, 0),
    };
    let used = UsageTotals {
        vcpu_ns: u128::from(size.cpus) * cpu,
        memory_mib_ns: u128::from(size.memory_mib) * memory,
        storage_byte_ns: u128::from(ByteSize::mib(size.disk_mib).get()) * hour,
    };
    list_price(prices, &used, month)
}

#[cfg(test)]
mod tests {
    use pandastack_billing::{PlanName, Plans};

    use super::*;

    #[test]
    fn an_hour_costs_what_its_state_uses() {
        let prices = Plans::default().get(PlanName::Free).prices;
        let size = MachineSize { cpus: 2, memory_mib: 2048, disk_mib: 1024 };
        let month = UtcMonth::of(0);
        let of = |status: &str| dollars(hour_price(&prices, size, billed_parts(status), month));
        let cpu = dollars(prices.vcpu_second) * 2.0 * 3600.0;
        let memory = dollars(prices.memory_gib_second) * 2.0 * 3600.0;
        assert!((of("running") - of("paused") - cpu).abs() < 0.01, "{} {}", of("running"), of("paused"));
        assert!((of("paused") - of("hibernated") - memory).abs() < 0.01);
        assert!(of("hibernated") > 0.0 && of("hibernated") < of("paused") && of("paused") < of("running"));
        assert_eq!(of("failed").to_bits(), of("hibernated").to_bits());
    }
}
