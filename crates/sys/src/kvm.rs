//! Tests whether KVM works by running a few instructions in a virtual machine. An existing
//! `/dev/kvm` proves little: on paravirtual hosts it opens and makes machines, but fails on the
//! first instruction that a stock kernel needs.
#![allow(unsafe_code)]

use std::{sync::mpsc, thread, time::Duration};

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Real-mode code at 0x1000: store 0x5a at 0x1800, trap once through the interrupt table, store
/// 0xa5, halt. Some hosts run plain moves but cannot deliver `int3`; these cannot run a kernel.
const CODE: [u8; 13] = [0xc6, 0x06, 0x00, 0x18, 0x5a, 0xcc, 0xc6, 0x06, 0x01, 0x18, 0xa5, 0xf4, 0xf4];
const CODE_AT: u64 = 0x1000;
const MEMORY_BYTES: usize = 0x2000;
const HANDLER_AT: usize = 0x1100;
const IRET: u8 = 0xcf;

/// Why KVM cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvmUnusable {
    #[error("the CPU reports neither vmx nor svm")]
    NoCpuSupport,
    #[error("/dev/kvm cannot be opened: {0}")]
    NoDevice(String),
    #[error("a probe machine could not be created: {0}")]
    NoMachine(String),
    #[error("a probe machine ended with {0} instead of halting")]
    WrongExit(String),
    #[error("a probe machine did not halt within {0} ms")]
    Deadline(u64),
}

/// Tells whether the text of `/proc/cpuinfo` shows hardware virtualization.
pub fn cpu_has_virtualization(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm")
}

/// Runs the probe machine. A probe that hangs leaves its thread behind.
pub fn probe_machine(deadline: Duration) -> Result<(), KvmUnusable> {
    let (tx, rx) = mpsc::channel();
    thread::spawn(move || tx.send(run_to_halt()));
    match rx.recv_timeout(deadline) {
        Ok(result) => result,
        Err(_) => Err(KvmUnusable::Deadline(deadline.as_millis() as u64)),
    }
}

fn run_to_halt() -> Result<(), KvmUnusable> {
    let no_machine = |error: kvm_ioctls::Error| KvmUnusable::NoMachine(error.to_string());
    let kvm = Kvm::new().map_err(|error| KvmUnusable::NoDevice(error.to_string()))?;
    let machine = kvm.create_vm().map_err(no_machine)?;
    let memory = Memory::new().map_err(|error| KvmUnusable::NoMachine(error.to_string()))?;
    memory.write(CODE_AT as usize, &CODE);
    memory.write(HANDLER_AT, &[IRET]);
    memory.write(3 * 4, &(HANDLER_AT as u32).to_le_bytes());
    let region = kvm_userspace_memory_region {
        slot: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY_BYTES as u64,
        userspace_addr: memory.at as u64,
        flags: 0,
    };
    // SAFETY: the region is our own mapping, is as long as said, and outlives the machine: `memory`
    // is dropped after it.
    unsafe { machine.set_user_memory_region(region) }.map_err(no_machine)?;
    let mut cpu = machine.create_vcpu(0).map_err(no_machine)?;
    let mut special = cpu.get_sregs().map_err(no_machine)?;
    special.cs.base = 0;
    special.cs.selector = 0;
    cpu.set_sregs(&special).map_err(no_machine)?;
    let mut registers = cpu.get_regs().map_err(no_machine)?;
    (registers.rip, registers.rsp, registers.rflags) = (CODE_AT, 0x1ff0, 2);
    cpu.set_regs(&registers).map_err(no_machine)?;
    let exit = match cpu.run() {
        Ok(VcpuExit::Hlt) => Ok(()),
        Ok(other) => Err(KvmUnusable::WrongExit(format!("{other:?}"))),
        Err(error) => Err(KvmUnusable::WrongExit(error.to_string())),
    };
    exit?;
    if memory.read(0x1800) == [0x5a, 0xa5] { Ok(()) } else { Err(KvmUnusable::WrongExit("wrong memory".to_owned())) }
}

struct Memory {
    at: *mut u8,
}

impl Memory {
    fn new() -> nix::Result<Self> {
        let length = std::num::NonZeroUsize::new(MEMORY_BYTES).expect("the constant is not zero");
        // SAFETY: an anonymous private mapping chosen by the kernel aliases nothing of ours.
        let at = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }?;
        Ok(Self { at: at.as_ptr().cast() })
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= MEMORY_BYTES, "the probe writes inside its memory");
        // SAFETY: the range was checked and the guest is not running.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(at), bytes.len()) };
    }

    fn read(&self, at: usize) -> [u8; 2] {
        assert!(at + 2 <= MEMORY_BYTES, "the probe reads inside its memory");
        // SAFETY: the range was checked and the guest has halted.
        unsafe { [self.at.add(at).read_volatile(), self.at.add(at + 1).read_volatile()] }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nothing uses it any more.
        let _ = unsafe { munmap(std::ptr::NonNull::new(self.at.cast()).expect("mmap gave an address"), MEMORY_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_cpu_flags() {
        assert!(cpu_has_virtualization("model name : x\nflags\t\t: fpu vme svm lm\n"));
        assert!(cpu_has_virtualization("flags : vmx"));
        assert!(!cpu_has_virtualization("flags : fpu hypervisor\nvmx flags : vnmi"));
        assert!(!cpu_has_virtualization(""));
    }

    #[test]
    fn the_probe_needs_the_device() {
        let answer = probe_machine(Duration::from_secs(10));
        match std::fs::File::options().read(true).write(true).open("/dev/kvm") {
            Ok(_) => assert!(!matches!(answer, Err(KvmUnusable::NoDevice(_) | KvmUnusable::Deadline(_))), "{answer:?}"),
            Err(_) => assert!(matches!(answer, Err(KvmUnusable::NoDevice(_))), "{answer:?}"),
        }
    }
}
