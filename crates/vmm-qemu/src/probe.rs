//! Chooses between `kvm` and `emulated`, and gives the reason.

use pandastack_model::Tier;
use pandastack_sys::kvm::{KvmUnusable, cpu_has_virtualization, probe_machine};

use crate::limits::PROBE_DEADLINE;

/// The tier of this host, and a one-line reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierChoice {
    pub tier: Tier,
    pub reason: String,
}

/// This host cannot provide the requested tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    #[error("tier kvm was requested, but {0}")]
    NoKvm(KvmUnusable),
    #[error("isolation {required} is required, but this host provides only {present}: {reason}")]
    BelowRequired { required: Tier, present: Tier, reason: String },
}

/// Chooses a tier: the pinned one if given, else the strongest that works. Fails below the required
/// one.
pub fn choose_tier(pinned: Option<Tier>, required: Option<Tier>) -> Result<TierChoice, TierError> {
    decide(pinned, required, &ask_cpu())
}

fn ask_cpu() -> Result<(), KvmUnusable> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !cpu_has_virtualization(&cpuinfo) {
        return Err(KvmUnusable::NoCpuSupport);
    }
    probe_machine(PROBE_DEADLINE)
}

fn decide(
    pinned: Option<Tier>,
    required: Option<Tier>,
    kvm: &Result<(), KvmUnusable>,
) -> Result<TierChoice, TierError> {
    let choice = match (pinned, kvm) {
        (Some(Tier::Kvm), Err(cause)) => return Err(TierError::NoKvm(cause.clone())),
        (Some(Tier::Kvm), Ok(())) => {
            TierChoice { tier: Tier::Kvm, reason: "selected by an option, and the probe machine ran".to_owned() }
        }
        (Some(tier), _) => TierChoice { tier, reason: "selected by an option".to_owned() },
        (None, Ok(())) => TierChoice { tier: Tier::Kvm, reason: "the probe machine ran".to_owned() },
        (None, Err(cause)) => TierChoice { tier: Tier::Emulated, reason: format!("KVM is not usable: {cause}") },
    };
    match required {
        Some(required) if choice.tier < required => {
            Err(TierError::BelowRequired { required, present: choice.tier, reason: choice.reason })
        }
        _ => Ok(choice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: Result<(), KvmUnusable> = Err(KvmUnusable::Deadline(5));

    #[test]
    fn the_strongest_working_tier_is_taken() {
        assert_eq!(decide(None, None, &Ok(())).unwrap().tier, Tier::Kvm);
        let fallback = decide(None, None, &BROKEN).unwrap();
        assert_eq!(fallback.tier, Tier::Emulated);
        assert!(fallback.reason.contains("did not halt"), "{}", fallback.reason);
    }

    #[test]
    fn a_pinned_tier_is_kept_or_refused() {
        assert_eq!(decide(Some(Tier::Emulated), None, &Ok(())).unwrap().tier, Tier::Emulated);
        assert_eq!(decide(Some(Tier::Kvm), None, &BROKEN), Err(TierError::NoKvm(KvmUnusable::Deadline(5))));
    }

    #[test]
    fn nothing_starts_below_the_required_tier() {
        let refused = decide(None, Some(Tier::Kvm), &BROKEN).unwrap_err();
        assert!(matches!(refused, TierError::BelowRequired { required: Tier::Kvm, present: Tier::Emulated, .. }));
        assert!(decide(Some(Tier::Emulated), Some(Tier::Emulated), &BROKEN).is_ok());
    }

    #[test]
    fn a_machine_without_the_cpu_flags_is_emulated_whatever_its_device_says() {
        let choice = choose_tier(None, None).unwrap();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        if !cpu_has_virtualization(&cpuinfo) {
            assert_eq!(choice.tier, Tier::Emulated);
            assert!(choice.reason.contains("neither vmx nor svm"), "{}", choice.reason);
        }
        assert!(choose_tier(None, Some(choice.tier)).is_ok());
    }
}
