//! Places in code that stay the same from run to run.

use core::fmt;

/// A module of a run: an executable, a shared library, the vDSO. Number 0 is `[anon]`, code that
/// belongs to no file; its addresses are run-time addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ModuleId(pub u16);

impl ModuleId {
    /// Code outside any file.
    pub const ANON: Self = Self(0);
}

/// An address inside a module as its ELF file numbers it: what `objdump -d` prints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Vaddr(pub u64);

impl fmt::LowerHex for Vaddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// A module and an address in it, packed into one word: the module in the top 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Place(u64);

impl Place {
    const VADDR_BITS: u32 = 48;

    /// The place `vaddr` of `module`. Address bits above the 48th are dropped: user-space
    /// addresses have none.
    pub const fn new(module: ModuleId, vaddr: Vaddr) -> Self {
        Self((module.0 as u64) << Self::VADDR_BITS | vaddr.0 & ((1 << Self::VADDR_BITS) - 1))
    }

    /// The place of a packed word.
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The packed word.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The module.
    pub const fn module(self) -> ModuleId {
        ModuleId((self.0 >> Self::VADDR_BITS) as u16)
    }

    /// The address in the module.
    pub const fn vaddr(self) -> Vaddr {
        Vaddr(self.0 & ((1 << Self::VADDR_BITS) - 1))
    }

    /// By how many bytes `to` lies ahead in the same module; `None` where it does not.
    pub fn ahead(self, to: Self) -> Option<u64> {
        let forward = to.vaddr().0.checked_sub(self.vaddr().0);
        forward.filter(|bytes| *bytes != 0 && self.module() == to.module())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}", self.module().0, self.vaddr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_keeps_both_parts() {
        let place = Place::new(ModuleId(0xfffe), Vaddr(0x7fff_1234_5678));
        assert_eq!(place.word(), 0xfffe_7fff_1234_5678);
        assert_eq!(Place::from_word(place.word()), place);
        assert_eq!(
            (place.module().0, place.vaddr().0),
            (0xfffe, 0x7fff_1234_5678)
        );
    }
}
