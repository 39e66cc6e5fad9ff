//! Events of one module in a profile, for the flow of counts through its functions.

use std::ops::Range;
use std::rc::Rc;

use trommel_code::{Count, Events, FlowControl, Instruction, WaysOut, never_returns};
use trommel_profile::confidence::Basis;
use trommel_profile::limits::Limits;
use trommel_symbol::Code;
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

use crate::report::view::{Arrivals, Transfer, View};

/// The events of a module.
pub(super) struct OfModule<'v, 'p> {
    view: &'v mut View<'p>,
    module: ModuleId,
    ways_out: WaysOut<'v, 'p>,
    /// Recorded transfers of control by their targets in the module.
    into: Rc<Arrivals>,
}

impl<'v, 'p> OfModule<'v, 'p> {
    pub(super) fn new(
        view: &'v mut View<'p>,
        module: ModuleId,
        code: &'v Code<'p>,
        functions: &'v [Range<u64>],
    ) -> Self {
        let into = view.arrivals(module);
        Self {
            view,
            module,
            ways_out: WaysOut::new(module, code, functions),
            into,
        }
    }

    /// Returns what was recorded to lead to an instruction.
    pub(super) fn arrivals_at(&self, at: u64) -> &[Transfer] {
        self.into.get(&at).map_or(&[], |all| all)
    }

    fn place(&self, at: u64) -> Place {
        Place::new(self.module, Vaddr(at))
    }

    fn has(&self, kind: Kind) -> bool {
        self.view.profile.kinds.contains_key(&kind)
    }

    fn of_kind(&mut self, kind: Kind, at: u64) -> Option<Count> {
        let values = self.view.values_at(kind, self.place(at))?;
        if values.has_more() {
            return None;
        }
        let limits = self.view.executions(&values).map(|e| e.all);
        Some(Count::of_events(values.executions as f64, limits))
    }

    /// Returns true if what is called there may come back.
    fn returns(&mut self, target: Place) -> bool {
        if !self.ways_out.can_leave(target) {
            return false;
        }
        let location = self.view.locate(target);
        let named = location.function.as_ref().filter(|_| location.offset == 0);
        !named.is_some_and(|name| never_returns(name))
    }
}

impl Events for OfModule<'_, '_> {
    fn exact(&self) -> bool {
        self.view.basis() == Basis::Exact
    }

    fn sites(&mut self, range: &Range<u64>) -> Vec<u64> {
        if range.start >= range.end {
            return Vec::new();
        }
        let places = self.place(range.start)..self.place(range.end);
        let kinds = self.view.profile.kinds.values();
        let sites = kinds.flat_map(|data| data.counts.range(places.clone()));
        sites.map(|(place, _)| place.vaddr().0).collect()
    }

    fn targets(&mut self, range: &Range<u64>) -> Vec<u64> {
        if range.start >= range.end {
            return Vec::new();
        }
        self.into.range(range.clone()).map(|(at, _)| *at).collect()
    }

    fn executed(&mut self, at: u64, instruction: &Instruction) -> Option<Count> {
        let branches = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::IndirectBranch
        );
        let calls = instruction.is_call_near() || instruction.is_call_near_indirect();
        for (kind, is) in [(Kind::Edge, branches), (Kind::Call, calls)] {
            if is && self.has(kind) {
                // Where all are recorded and none is there, it was not executed.
                return (self.of_kind(kind, at)).or(Some(Count::of_events(0.0, None)));
            }
        }
        // Of loaded values some may have been dropped.
        let whole = self.view.profile.run.dropped == 0;
        let told = Kind::DATA
            .into_iter()
            .filter(|kind| whole || *kind != Kind::Value);
        told.filter_map(|kind| self.of_kind(kind, at))
            .max_by(|a, b| a.times.total_cmp(&b.times))
    }

    fn arrivals(&mut self, at: u64) -> Option<Count> {
        if !self.has(Kind::Edge) || !self.has(Kind::Call) {
            return None;
        }
        let delivered = self.view.profile.deliveries.get(&self.place(at));
        let delivered = delivered.copied().unwrap_or(0);
        let mut sum = Count::of_exact(delivered.into(), None);
        let into = self.into.clone();
        for transfer in into.get(&at).into_iter().flatten() {
            let limits: Option<Limits> = self.view.limits(transfer);
            sum = sum.plus(Count::of_events(transfer.count as f64, limits));
        }
        Some(sum)
    }

    fn after_call(&mut self, at: u64) -> Option<Count> {
        if !self.exact() || self.place(at).module() == ModuleId::ANON {
            return None;
        }
        let known = self.view.profile.after_calls.as_ref()?;
        let count = known.get(&self.place(at)).copied().unwrap_or(0);
        Some(Count::of_exact(count.into(), None))
    }

    fn returned(&mut self, at: u64, instruction: &Instruction, executed: Count) -> Count {
        let targets: Vec<(Place, u64)> = match self.view.values_at(Kind::Call, self.place(at)) {
            Some(calls) => (calls.counts().iter())
                .map(|(to, count)| (Place::from_word(*to), *count))
                .collect(),
            None if instruction.is_call_near() => {
                vec![(self.place(instruction.near_branch_target()), 1)]
            }
            None => return executed,
        };
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let all = sum(&mut targets.iter().map(|(_, count)| *count));
        let back = targets.into_iter().filter(|(to, _)| self.returns(*to));
        executed.part(sum(&mut back.map(|(_, count)| count)), all)
    }
}
