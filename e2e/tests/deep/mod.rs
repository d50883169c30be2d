//! Tests that take many minutes: cycles, kills during operations, the KVM tier, schemathesis on a
//! live sandbox. `make test-deep` runs these; `make test` skips every test in a module called
//! `deep`.

mod crash;
mod cycles;
mod kvm_tier;
mod living;
