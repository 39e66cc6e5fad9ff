//! Counts of the ways that signals lead control.
//!
//! # Problem
//! The kernel enters a handler of a signal, and the handler returns to code that calls the kernel again. No instruction of the program
//! leads to either, so no branch and no call tells how often they were executed.
//!
//! # Strategy
//! The runtime delivers signals itself. Each time it counts a path that has one event, [`Event::Delivered`]: generated code pays
//! nothing. The path of an address is numbered when it is needed first.
//!
//! # Why it is right
//! The host looks an address up where the path is described, so a path holds for one mapping only. All paths are forgotten
//! when a region was reported since.

use alloc::collections::BTreeMap;

use trommel_queue::dict::{Event, Passed};

use super::Translator;
use super::site::{Refusal, Site, target};
use crate::base::address::AppPc;
use crate::base::ids::ExitNumber;

/// Paths of deliveries.
#[derive(Default)]
pub(super) struct Deliveries {
    /// Their numbers, by where the kernel led.
    known: BTreeMap<AppPc, ExitNumber>,
    /// Regions that were reported when they were numbered.
    regions: u32,
}

impl Translator {
    /// Returns true if deliveries are counted.
    pub fn counts_deliveries(&self) -> bool {
        self.config.after_calls
    }

    /// The path of a delivery to `pc`.
    ///
    /// # Errors
    /// Fails where there is no code, and where nobody can say now what is there.
    pub fn delivery(&mut self, site: &mut Site<'_>, pc: AppPc) -> Result<ExitNumber, Refusal> {
        Self::region(site, pc)?;
        let (_, _, regions) = site.shared.extent();
        if self.deliveries.regions != regions {
            self.deliveries.known.clear();
            self.deliveries.regions = regions;
        }
        if let Some(path) = self.deliveries.known.get(&pc) {
            return Ok(*path);
        }
        let block = site.shared.empty_block()?;
        let event = Event::Delivered { pc: target(pc) };
        let path = site.shared.path(block, Passed::default(), Some(event))?;
        self.deliveries.known.insert(pc, path);
        Ok(path)
    }
}
