//! From checked clauses to instructions.
//!
//! A clause is one instruction wherever one can say it, as in the paper. It takes more when
//!
//! * its two comparisons read words of one bank, or need two immediates: the first then guards the second;
//! * it has several arms, several actions, or actions after `else`;
//! * it branches to one label after a match and to another one otherwise.
//!
//! A comparison goes to the bank of its word; one that reads no word (`true`, `false`, `filter`) takes the
//! place that is left, the even one first. So the order of comparisons in a text decides only where
//! nothing else does, and a disassembled instruction is assembled to itself.
//!
//! Places that are not written in the text (the end of a clause, the next arm) become branches only
//! where falling through does not lead there; a written `goto` stays a branch.

use alloc::format;
use alloc::vec::Vec;

use crate::check::{Arm, Body, Checked, Clause, Condition, Next, Query, SMALLER, too_large};
use crate::class::EntrySet;
use crate::control::{Control, Table};
use crate::diagnostic::{Diagnostic, Span};
use crate::instruction::{self, Action, Against, Comparison, Instruction, Test};
use crate::pc::{MAX_INSTRUCTIONS, QueryPc};
use crate::program::Program;

/// The program of `checked`, with the clause of each instruction; none when errors were added.
pub(crate) fn lower(
    checked: &Checked,
    found: &mut Vec<Diagnostic>,
) -> Option<(Program, Vec<Span>)> {
    let before = found.len();
    let mut table = Table::default();
    let mut code = Vec::new();
    let mut spans = Vec::new();
    for query in &checked.queries {
        let start = code.len();
        let drafts = Emitter::query(query);
        for (at, draft) in drafts.iter().enumerate() {
            code.push(draft.resolve(start, at, drafts.len(), found)?);
            spans.push(draft.span);
        }
        if code.len() > MAX_INSTRUCTIONS {
            found.push(Diagnostic::error(
                query.span,
                too_large(code.len()),
                SMALLER,
            ));
            return None;
        }
        set(
            &mut table,
            query.entries,
            |start| Control {
                sampling: query.sampling,
                pair: query.pair,
                fields: query.fields,
                start,
            },
            start,
        );
    }
    if found.len() > before {
        return None;
    }
    match Program::new(table, code, checked.tags.clone()) {
        Ok(program) => Some((program, spans)),
        Err(invalid) => {
            // What was checked is valid: this would be a mistake of ours, and is said, not hidden.
            let at = invalid.at.and_then(|at| spans.get(at).copied());
            let message = format!("the assembler produced no valid program: {}", invalid.what);
            let fix = "this is a defect of trommel: please report it with this file";
            found.push(Diagnostic::error(at.unwrap_or_default(), message, fix));
            None
        }
    }
}

fn set(table: &mut Table, entries: EntrySet, control: impl Fn(QueryPc) -> Control, start: usize) {
    if let Some(start) = QueryPc::new(start) {
        for entry in entries.iter() {
            table.set(entry, control(start));
        }
    }
}

/// A place in the code of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Label(usize);

/// Continuations of a draft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Continuation {
    Continue,
    Stop,
    /// A branch that the text asks for.
    Goto(Label),
    /// A place that is reached by falling through if it comes next.
    To(Label),
}

/// An instruction whose places have no numbers yet.
struct Draft {
    span: Span,
    even: Comparison,
    odd: Comparison,
    immediate: u16,
    action: Action,
    matched: Continuation,
    otherwise: Continuation,
    /// The numbers of places, filled in when all are known.
    places: [usize; 2],
}

impl Draft {
    /// The instruction at `at` of a query of `length` instructions that starts at `start`.
    fn resolve(
        &self,
        start: usize,
        at: usize,
        length: usize,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Instruction> {
        let unconditional = self.even.test == Test::TRUE && self.odd.test == Test::TRUE;
        let mut target = 0;
        let mut nexts = [instruction::Next::Continue; 2];
        for (n, way) in [self.matched, self.otherwise].into_iter().enumerate() {
            if n == 1 && unconditional {
                break;
            }
            let to = match way {
                Continuation::Stop => {
                    nexts[n] = instruction::Next::Stop;
                    continue;
                }
                Continuation::Continue => at + 1,
                Continuation::Goto(_) | Continuation::To(_) => self.places[n],
            };
            if to >= length {
                let fix = "end it with `stop`: after `then`, after `else`, or as a clause of its \
                           own, `stop;`";
                let message = "the query runs over its end here";
                let error = Diagnostic::error(self.span, message, fix);
                if !found.contains(&error) {
                    found.push(error);
                }
            } else if to != at + 1 || matches!(way, Continuation::Goto(_)) {
                nexts[n] = instruction::Next::Branch;
                target = start + to;
            }
        }
        Some(Instruction {
            even: self.even,
            odd: self.odd,
            immediate: self.immediate,
            action: self.action,
            matched: nexts[0],
            otherwise: nexts[1],
            // Beyond the limit the whole query is refused.
            target: QueryPc::new(target).unwrap_or_default(),
        })
    }
}

/// Writes the code of one query.
struct Emitter {
    code: Vec<Draft>,
    /// Positions of labels: first those of the clauses and of the end, then those made here.
    places: Vec<usize>,
    /// The clause that is written.
    span: Span,
}

impl Emitter {
    fn query(query: &Query) -> Vec<Draft> {
        let mut writer = Self {
            code: Vec::new(),
            places: alloc::vec![0; query.clauses.len() + 1],
            span: query.span,
        };
        for (number, clause) in query.clauses.iter().enumerate() {
            writer.places[number] = writer.code.len();
            writer.span = clause.span;
            writer.clause(clause, Label(number + 1));
        }
        writer.places[query.clauses.len()] = writer.code.len();
        let Self {
            mut code, places, ..
        } = writer;
        for draft in &mut code {
            for (place, way) in draft
                .places
                .iter_mut()
                .zip([draft.matched, draft.otherwise])
            {
                if let Continuation::Goto(label) | Continuation::To(label) = way {
                    *place = places[label.0];
                }
            }
        }
        code
    }

    fn clause(&mut self, clause: &Clause, end: Label) {
        for (n, arm) in clause.arms.iter().enumerate() {
            let last = n + 1 == clause.arms.len();
            match clause.otherwise.as_ref().filter(|_| last) {
                None => self.arm(arm, Else::Follows(last), end),
                Some(body) if body.actions.is_empty() => {
                    let way = way(body.next, end);
                    let then = way_of_single(&arm.then, end);
                    // One instruction has one target.
                    let clash = matches!((then, way), (Some(Continuation::Goto(a)), Continuation::Goto(b)) if a != b);
                    if clash {
                        self.arm(arm, Else::Follows(false), end);
                        self.body(body, end);
                    } else {
                        self.arm(arm, Else::Is(way), end);
                    }
                }
                Some(body) => {
                    self.arm(arm, Else::Follows(false), end);
                    self.body(body, end);
                }
            }
        }
        if clause.arms.is_empty()
            && let Some(body) = &clause.otherwise
        {
            self.body(body, end);
        }
    }

    /// An `if`; `otherwise` is where it goes on when it does not match.
    fn arm(&mut self, arm: &Arm, otherwise: Else, end: Label) {
        // Whether code of this clause stands after the arm.
        let more = otherwise == Else::Follows(false);
        let after = self.label();
        let skip = match otherwise {
            Else::Follows(_) => Continuation::To(after),
            Else::Is(way) => way,
        };
        let conditions = match arm.conditions[..] {
            [a, b] => match pack(&[a, b]) {
                Some(packed) => packed,
                None => {
                    let guard = pack(&[a]).unwrap_or_default();
                    self.push(guard, Action::None, Continuation::Continue, skip);
                    pack(&[b]).unwrap_or_default()
                }
            },
            _ => pack(&arm.conditions).unwrap_or_default(),
        };
        let finish = match arm.then.next {
            Next::Continue if more => Continuation::To(end),
            Next::Continue => Continuation::Continue,
            next => way(next, end),
        };
        match arm.then.actions.split_first() {
            None => self.push(conditions, Action::None, finish, skip),
            Some((action, [])) => self.push(conditions, *action, finish, skip),
            Some((first, others)) => {
                self.push(conditions, *first, Continuation::Continue, skip);
                self.actions(others, finish);
            }
        }
        self.places[after.0] = self.code.len();
    }

    /// Actions that are done in any case, the last of a clause.
    fn body(&mut self, body: &Body, end: Label) {
        let finish = way(body.next, end);
        match &body.actions[..] {
            [] => self.actions(&[Action::None], finish),
            actions => self.actions(actions, finish),
        }
    }

    fn actions(&mut self, actions: &[Action], finish: Continuation) {
        for (n, action) in actions.iter().enumerate() {
            let matched = if n + 1 == actions.len() {
                finish
            } else {
                Continuation::Continue
            };
            self.push(Packed::default(), *action, matched, Continuation::Continue);
        }
    }

    fn push(
        &mut self,
        packed: Packed,
        action: Action,
        matched: Continuation,
        otherwise: Continuation,
    ) {
        self.code.push(Draft {
            span: self.span,
            even: packed.even,
            odd: packed.odd,
            immediate: packed.immediate,
            action,
            matched,
            otherwise,
            places: [0; 2],
        });
    }

    fn label(&mut self) -> Label {
        self.places.push(0);
        Label(self.places.len() - 1)
    }
}

/// Continuations of a clause when an arm does not match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Else {
    /// To what follows: the next clause (`true`), or more of this one.
    Follows(bool),
    /// There.
    Is(Continuation),
}

fn way(next: Next, end: Label) -> Continuation {
    match next {
        Next::Continue => Continuation::To(end),
        Next::Stop => Continuation::Stop,
        Next::Goto(clause) => Continuation::Goto(Label(clause)),
    }
}

/// Returns where a body goes whose end is in the same instruction as its condition.
fn way_of_single(body: &Body, end: Label) -> Option<Continuation> {
    (body.actions.len() <= 1).then(|| way(body.next, end))
}

/// The comparisons of one instruction.
struct Packed {
    even: Comparison,
    odd: Comparison,
    immediate: u16,
}

impl Default for Packed {
    fn default() -> Self {
        Self {
            even: Comparison::TRUE,
            odd: Comparison::TRUE,
            immediate: 0,
        }
    }
}

/// One or two conditions in an instruction, if they fit.
fn pack(conditions: &[Condition]) -> Option<Packed> {
    let mut tests: [Option<Test>; 2] = [None; 2];
    let mut words: [Option<u8>; 2] = [None; 2];
    let mut immediate = None;
    fn agree<T: PartialEq + Copy>(place: &mut Option<T>, value: T) -> Option<()> {
        (*place.get_or_insert_with(|| value) == value).then_some(())
    }
    let reads = conditions.iter().filter(|c| c.test.against().is_some());
    for condition in reads {
        let bank = usize::from(condition.word % 2);
        if tests[bank].replace(condition.test).is_some() {
            return None;
        }
        agree(&mut words[bank], condition.word / 2)?;
        match condition.test.against() {
            Some(Against::Other) => agree(&mut words[1 - bank], condition.other / 2)?,
            _ => agree(&mut immediate, condition.immediate)?,
        }
    }
    for condition in conditions.iter().filter(|c| c.test.against().is_none()) {
        let free = tests.iter_mut().find(|t| t.is_none())?;
        *free = Some(condition.test);
    }
    let [even, odd] = [0, 1].map(|bank| Comparison {
        test: tests[bank].unwrap_or(Test::TRUE),
        word: words[bank].unwrap_or(0),
    });
    Some(Packed {
        even,
        odd,
        immediate: immediate.unwrap_or(0),
    })
}
