//! The slots of a machine for volumes. Every machine is made with all slots, empty: a sealed state
//! loads only into the same devices, and a standby machine gets its volumes later.
//!
//! The access of a slot is fixed when the machine is made, because the guest's kernel and the
//! machine learn it only then. So there are slots of both kinds.

use std::{fmt, path::PathBuf, str::FromStr};

use pandastack_model::VolumeAccess;

/// Number of slots of each kind. Changing it changes every template.
pub const VOLUME_SLOTS: u8 = 4;

/// One slot of a machine, named `rw0` or `ro3`. The guest finds its disk by this serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeSlot {
    kind: SlotKind,
    number: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum SlotKind {
    ReadWrite,
    ReadOnly,
}

/// A volume and its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotVolume {
    pub slot: VolumeSlot,
    pub file: PathBuf,
}

/// Text that names no slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a volume slot")]
pub struct BadVolumeSlot(String);

impl VolumeSlot {
    /// The slot of this number and access, if the number is valid.
    pub fn new(access: VolumeAccess, number: usize) -> Option<Self> {
        let number = u8::try_from(number).ok().filter(|number| *number < VOLUME_SLOTS)?;
        let kind = match access {
            VolumeAccess::ReadWrite => SlotKind::ReadWrite,
            VolumeAccess::ReadOnly => SlotKind::ReadOnly,
        };
        Some(Self { kind, number })
    }

    /// Lists all slots in the order of the machine's devices.
    pub fn all() -> impl Iterator<Item = Self> {
        let of = |kind| (0..VOLUME_SLOTS).map(move |number| Self { kind, number });
        of(SlotKind::ReadWrite).chain(of(SlotKind::ReadOnly))
    }

    /// Access of the slot's disk.
    pub fn access(self) -> VolumeAccess {
        match self.kind {
            SlotKind::ReadWrite => VolumeAccess::ReadWrite,
            SlotKind::ReadOnly => VolumeAccess::ReadOnly,
        }
    }
}

impl fmt::Display for VolumeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SlotKind::ReadWrite => "rw",
            SlotKind::ReadOnly => "ro",
        };
        write!(f, "{kind}{}", self.number)
    }
}

impl FromStr for VolumeSlot {
    type Err = BadVolumeSlot;

    fn from_str(text: &str) -> Result<Self, BadVolumeSlot> {
        Self::all().find(|slot| slot.to_string() == text).ok_or_else(|| BadVolumeSlot(text.chars().take(80).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_survives_printing_and_parsing() {
        let all: Vec<VolumeSlot> = VolumeSlot::all().collect();
        assert_eq!(all.len(), 2 * usize::from(VOLUME_SLOTS));
        for slot in all {
            assert_eq!(slot.to_string().parse(), Ok(slot));
        }
        for text in ["", "rw", "rw4", "ro00", "xx1", "rw-1"] {
            assert!(text.parse::<VolumeSlot>().is_err(), "{text}");
        }
    }

    #[test]
    fn there_are_no_more_slots_than_devices() {
        for access in [VolumeAccess::ReadWrite, VolumeAccess::ReadOnly] {
            let slot = VolumeSlot::new(access, usize::from(VOLUME_SLOTS) - 1).unwrap();
            assert_eq!(slot.access(), access);
            assert_eq!(VolumeSlot::new(access, usize::from(VOLUME_SLOTS)), None);
        }
    }
}
