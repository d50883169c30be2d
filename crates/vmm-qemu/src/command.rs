//! Builds QEMU's arguments. Pure: the same machine always gets the same arguments, because a saved
//! state loads only into the same devices in the same order.

use std::path::{Path, PathBuf};

use pandastack_model::{Tier, VolumeAccess};
use pandastack_vmm::{BootImage, MachineSpec, VolumeSlot};

use crate::limits::TRANSLATION_CACHE_MIB;

/// File descriptors that the process inherits, after the standard streams.
pub const MONITOR_FD: i32 = 3;
pub const STATE_FD: i32 = 4;
pub const TAP_FD: i32 = 5;
pub const USER_FD: i32 = 6;
pub const CONSOLE_FD: i32 = 7;
pub const DISK_FD: i32 = 8;

/// How the machine starts: boot or restore.
pub enum StartMode<'a> {
    Boot(&'a BootImage),
    /// The memory is the layer's file, mapped privately. The device state arrives on `STATE_FD`.
    Restore {
        mem: &'a Path,
    },
}

/// The properties of a machine that a layer depends on.
#[derive(Clone, Debug)]
pub struct MachineProperties {
    pub tier: Tier,
    pub cpu_profile: String,
    pub tsc_khz: Option<u64>,
}

/// The machine type, as in manifests.
pub const MACHINE_TYPE: &str = "microvm";

/// The path of an inherited file inside QEMU.
pub fn inherited(fd: i32) -> PathBuf {
    format!("/dev/fdset/{fd}").into()
}

/// Returns all arguments after the program's name. The paths in `spec` are those that the process
/// sees. Only the run folder is the host's path: the process never opens it, but it identifies the
/// process.
pub fn arguments(spec: &MachineSpec, shape: &MachineProperties, origin: &StartMode<'_>) -> Vec<String> {
    let mut words = ArgumentList::default();
    words.pair("-name", escaped(&spec.run_dir));
    for fd in [CONSOLE_FD, DISK_FD] {
        words.pair("-add-fd", format!("fd={fd},set={fd}"));
    }
    words.flag("-nodefaults").flag("-no-user-config").flag("-no-reboot").pair("-display", "none");
    words.pair("-machine", format!("{MACHINE_TYPE},memory-backend=ram,isa-serial=on,rtc=on"));
    words.pair("-accel", accelerator(shape.tier));
    words.pair("-cpu", &shape.cpu_profile).pair("-smp", spec.cpus.to_string());
    words.pair("-m", format!("{}M", spec.memory.as_mib()));
    let (mem, share) = match origin {
        StartMode::Boot(image) => (image.mem.as_path(), "on"),
        StartMode::Restore { mem } => (*mem, "off"),
    };
    let size = spec.memory.get();
    words.pair("-object", format!("memory-backend-file,id=ram,size={size},mem-path={},share={share}", escaped(mem)));
    words.pair("-chardev", format!("file,id=console,path={},append=on", escaped(&inherited(CONSOLE_FD))));
    words.pair("-serial", "chardev:console");
    let disk = "driver=raw,node-name=root,discard=unmap,file.driver=file,file.locking=off,file.discard=unmap";
    words.pair("-blockdev", format!("{disk},file.filename={}", escaped(&spec.disk)));
    // On a full host disk QEMU stops the machine, and `room` resumes it.
    words.pair("-device", "virtio-blk-device,drive=root,werror=enospc,rerror=report");
    words.pair("-netdev", format!("tap,id=net,fd={TAP_FD}"));
    // No announcement after a restore: the neighbours are our own, and a restored guest would run
    // it before it answers.
    words.pair("-device", format!("virtio-net-device,netdev=net,mac={},guest_announce=off", spec.network.mac));
    for slot in VolumeSlot::all() {
        empty_slot(&mut words, slot);
    }
    words.pair("-chardev", format!("socket,id=monitor,fd={MONITOR_FD},server=on,wait=off"));
    words.pair("-mon", "chardev=monitor,mode=control");
    words.pair("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
    // A state written by `xen-save-devices-state` has no configuration section.
    words.pair("-global", "migration.send-configuration=off");
    match origin {
        StartMode::Boot(image) => {
            words.pair("-kernel", image.kernel.display().to_string());
            words.pair("-initrd", image.initramfs.display().to_string());
            words.pair("-append", kernel_parameters(shape, &image.cmdline));
        }
        StartMode::Restore { .. } => {
            words.flag("-S").pair("-incoming", "defer");
        }
    }
    words.0
}

/// An empty disk of one sector, until `attach` replaces it. Slots come last, so layers made before
/// slots existed keep their root and network in the same places. On a full host disk the guest gets
/// an error; by default QEMU would stop the machine.
fn empty_slot(words: &mut ArgumentList, slot: VolumeSlot) {
    let read_only = match slot.access() {
        VolumeAccess::ReadWrite => "off",
        VolumeAccess::ReadOnly => "on",
    };
    let node = format!("driver=null-co,node-name={slot}-empty,size=512,read-zeroes=on,read-only={read_only}");
    words.pair("-blockdev", node);
    let device = format!("virtio-blk-device,id={slot},drive={slot}-empty,serial={slot},num-queues=1");
    words.pair("-device", format!("{device},werror=report,rerror=report"));
}

fn accelerator(tier: Tier) -> String {
    match tier {
        Tier::Kvm => "kvm".to_owned(),
        Tier::Emulated | Tier::Fake => format!("tcg,tb-size={TRANSLATION_CACHE_MIB}"),
    }
}

/// Builds the kernel's command line.
pub fn kernel_parameters(shape: &MachineProperties, more: &str) -> String {
    // A restored guest must translate all kernel code again, so unneeded features are off: pressure
    // accounting, and all security modules but landlock. A kernel panic must end the machine, or it
    // stays undetected; of the restart methods only the triple fault works here.
    let mut line = "console=ttyS0 quiet panic=-1 reboot=t mitigations=off psi=0 apparmor=0 lsm=landlock".to_owned();
    if let Some(khz) = shape.tsc_khz {
        // Under emulation the stock kernel cannot calibrate its clock, because the timers are
        // missing. The emulator caches translated code by address: with random addresses each
        // program start translates everything again, and `true` takes 35 ms instead of 7. A
        // sandbox's owner can enable them with `kernel.randomize_va_space`.
        line.push_str(&format!(" no_timer_check tsc=reliable tsc_early_khz={khz} norandmaps"));
    }
    format!("{line} {more}")
}

/// QEMU splits option values at commas. A doubled comma is a literal one.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[derive(Default)]
struct ArgumentList(Vec<String>);

impl ArgumentList {
    fn flag(&mut self, name: &str) -> &mut Self {
        self.0.push(name.to_owned());
        self
    }

    fn pair(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.0.push(name.to_owned());
        self.0.push(value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use pandastack_model::{ByteSize, MachineId};
    use pandastack_vmm::{MachineLimits, NetworkAttachment};

    use super::*;

    fn spec() -> MachineSpec {
        MachineSpec {
            id: MachineId::random(),
            memory: ByteSize::mib(256),
            cpus: 1,
            disk: "/d/a,b".into(),
            run_dir: "/run/m".into(),
            network: NetworkAttachment {
                netns: "/run/netns/x".into(),
                tap: "tap0".into(),
                mac: "06:00:ac:10:00:02".into(),
                guest_address: Ipv4Addr::new(172, 16, 0, 2),
                guest_port: 1050,
            },
            runtime: None,
            limits: MachineLimits::of(ByteSize::mib(256), 1),
        }
    }

    fn shape() -> MachineProperties {
        MachineProperties { tier: Tier::Emulated, cpu_profile: "qemu64".to_owned(), tsc_khz: Some(2_000_000) }
    }

    fn restore() -> StartMode<'static> {
        StartMode::Restore { mem: Path::new("/l/mem") }
    }

    #[test]
    fn a_restore_maps_memory_privately_and_boots_no_kernel() {
        let words = arguments(&spec(), &shape(), &restore()).join(" ");
        assert!(
            words.contains("mem-path=/l/mem,share=off") && words.contains("-incoming defer") && words.contains("-S")
        );
        assert!(!words.contains("-kernel"));
        assert!(words.contains("file.filename=/d/a,,b"), "{words}");
    }

    #[test]
    fn both_origins_have_the_same_devices() {
        let image =
            BootImage { kernel: "/k".into(), initramfs: "/i".into(), cmdline: String::new(), mem: "/l/mem".into() };
        let boot = arguments(&spec(), &shape(), &StartMode::Boot(&image));
        let restore = arguments(&spec(), &shape(), &restore());
        let devices = |words: &[String]| -> Vec<String> {
            words.windows(2).filter(|pair| pair[0] == "-device").map(|pair| pair[1].clone()).collect()
        };
        assert_eq!(devices(&boot), devices(&restore));
    }
}
