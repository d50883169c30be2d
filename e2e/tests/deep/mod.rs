//! Tests that take many minutes: cycles, kills during operations, the KVM tier, schemathesis on a
//! live sandbox. `make test-deep` runs these; `make test` skips every test in a module called
//! `deep`.

mod browser;
mod crash;
mod cycles;
mod install;
mod interpreter;
mod kvm_tier;
mod living;
