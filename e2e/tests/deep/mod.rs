//! What takes many minutes: cycles, kills in the middle of everything, the KVM tier, schemathesis
//! on a living sandbox. `make test-deep` runs these; `make test` leaves out every test in a module
//! called `deep`.

mod crash;
mod cycles;
mod kvm_tier;
mod living;
