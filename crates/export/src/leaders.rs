//! Ways through a function as an optimiser of binaries sees them: between basic blocks that all its branches make.
//!
//! # Problem
//! BOLT cuts a function at the target of each branch in it, executed or not. A profile's straight lines are cut where control came.
//!
//! # Strategy
//! Leaders are the targets of all direct branches in functions that were executed, and where recorded branches led that the graph has
//! ([`is_in_graph`]). A straight line with a leader in its midst gives a way from the instruction before to the leader. Ways into what is no
//! leader, such as back from a call in the midst of a block, are left out: they are in no graph.

use std::collections::BTreeSet;
use std::ops::Range;

use trommel_code::{Body, FlowControl, Instruction};
use trommel_symbol::Code;
use trommel_tuple::{Place, Vaddr};

use crate::input::Input;
use crate::lines::instructions;
use crate::view::{ModuleFlow, Transfer, Way};

/// The transfers of a module between basic blocks.
pub(crate) fn transfers(
    input: &Input<'_, '_>,
    code: &Code<'_>,
    flow: &ModuleFlow,
) -> Vec<Transfer> {
    let leaders = leaders(input, code, flow);
    let is_leader = |place: Place| leaders.contains(&place.vaddr().0);
    let wanted = |t: &&Transfer| match t.way {
        Way::Fall | Way::Back => is_leader(t.to),
        _ => true,
    };
    let mut all: Vec<Transfer> = flow.transfers.iter().filter(wanted).copied().collect();
    let place = |at: u64| Place::new(flow.module, Vaddr(at));
    for line in &flow.lines {
        if leaders.range(line.start + 1..line.end).next().is_none() {
            continue;
        }
        let mut before: Option<u64> = None;
        for instruction in instructions(code, line) {
            let at = instruction.ip();
            if let Some(from) = before.filter(|_| leaders.contains(&at)) {
                all.push(Transfer {
                    from: place(from),
                    to: place(at),
                    way: Way::Fall,
                    count: line.count,
                });
            }
            before = Some(at);
        }
    }
    all
}

fn leaders(input: &Input<'_, '_>, code: &Code<'_>, flow: &ModuleFlow) -> BTreeSet<u64> {
    let mut leaders = BTreeSet::new();
    let into = flow.transfers.iter().filter(|t| flow.has(t.to));
    let known = into.filter(|transfer| is_in_graph(input, flow, transfer));
    leaders.extend(known.map(|transfer| transfer.to.vaddr().0));
    let functions = input
        .program
        .functions
        .iter()
        .filter(|f| f.module == flow.module);
    for ranges in functions.map(|function| &function.ranges) {
        for range in ranges {
            let starts = starts(flow, range);
            let body = Body::new(code, std::slice::from_ref(range), &starts);
            leaders.extend(
                body.lines()
                    .iter()
                    .filter_map(|line| target(&line.instruction)),
            );
        }
    }
    leaders
}

/// Returns true if the code tells of a way, so that the place that it leads to begins a basic block. An indirect jump to another function
/// may lead anywhere: `longjmp` comes back after the call of `setjmp`, and an exception to where it is caught.
fn is_in_graph(input: &Input<'_, '_>, flow: &ModuleFlow, transfer: &Transfer) -> bool {
    match transfer.way {
        Way::Taken | Way::NotTaken | Way::Jump | Way::Call => true,
        Way::Indirect => {
            let [from, to] = [transfer.from, transfer.to].map(|at| input.program.function_of(at));
            flow.has(transfer.from) && from.is_some() && from == to
        }
        Way::Fall | Way::Back => false,
    }
}

/// Places in a range where instructions are known to begin.
fn starts(flow: &ModuleFlow, range: &Range<u64>) -> Vec<u64> {
    let first = flow.lines.partition_point(|line| line.start < range.start);
    let inside = flow.lines[first..].iter().map(|line| line.start);
    inside.take_while(|start| *start < range.end).collect()
}

/// The target of a direct jump or branch.
fn target(instruction: &Instruction) -> Option<u64> {
    let leads = instruction.is_jmp_short_or_near()
        || instruction.flow_control() == FlowControl::ConditionalBranch;
    leads.then(|| instruction.near_branch_target())
}
