//! The runtime's dictionary, resolved: the meaning of exit numbers.
//!
//! A block is resolved when the first of its paths is met, and shared by all of them. A path is the number
//! of the block's events that were passed, and the event of its exit. So the work is proportional
//! to the code that ran, not to the ways through it.
//!
//! Places are resolved while the code they name is mapped. The code of a block was mapped when the block was met.
//!
//! Where acyclic paths are wanted, each event is a [`Move`] too: its meaning for the thread's way through the code, whatever
//! is selected.

use std::ops::Range;

use rustc_hash::FxHashMap;
use trommel_profile::Site;
use trommel_queue::dict::{ARGUMENTS, Event, MAX_INSTRUCTION, Mark, Passed, TargetPc};
use trommel_queue::queries::Queries;
use trommel_tuple::{Kind, Outcomes, Place, Tuple};

use crate::channel::modules::{Images, Modules};
use crate::channel::shared::{Damaged, Shared};
use crate::fold::exact::UNSELECTED;
use crate::fold::only::Selection;

/// One event of a block, resolved.
#[derive(Clone, Copy)]
pub enum Step {
    /// Known at translation.
    Static(Kind, Tuple),
    /// The value is the record's next word.
    Dynamic(Kind, Place),
    /// An execution without a reported value.
    Unprofiled(Kind, Place),
    /// Control at an instruction after a call.
    AfterCall(Place),
    /// Control at an instruction that the kernel has led to.
    Delivered(Place),
    /// An event that is not selected.
    Unselected,
    /// The arguments of the next call: what it passes in registers is the record's next words.
    Arguments,
    /// An event that is not selected, and so many words of the record belong to it.
    UnselectedWords(u8),
    /// An instruction, by its number in [`Dictionary::instructions`].
    Instruction(u32),
}

impl Step {
    /// Words of a record that belong to it.
    pub const fn words(&self) -> usize {
        match self {
            Self::Dynamic(..) => 1,
            Self::Arguments => ARGUMENTS,
            Self::UnselectedWords(words) => *words as usize,
            Self::Static(..)
            | Self::Unprofiled(..)
            | Self::AfterCall(_)
            | Self::Delivered(_)
            | Self::Unselected
            | Self::Instruction(_) => 0,
        }
    }
}

/// A place where an acyclic path may begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Start {
    /// The instruction.
    pub at: Place,
    /// True if paths are wanted that begin there.
    pub selected: bool,
}

/// The meaning of an event for the acyclic path that a thread is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// Nothing.
    Stay,
    /// Control is here.
    Arrive(Start),
    /// The thread is on this path, whatever was recorded before.
    Resume(Start, Outcomes),
    /// The thread is on a path that is reported otherwise, whatever was recorded before.
    Amid,
    /// A conditional branch.
    Branch {
        /// True if it was taken.
        taken: bool,
        /// True if it was taken backward.
        back: bool,
        /// The thread's place after it.
        next: Start,
    },
    /// A call, a return, or a direct jump backward.
    End,
    /// An indirect jump from here to where the record's next word says.
    Jump(Place),
    /// An indirect jump, where both places are known.
    JumpTo(Place, Place),
    /// A mark of the runtime.
    Marked(Mark),
}

/// An instruction that is executed in windows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Its place.
    pub place: Place,
    pc: u64,
    len: u8,
    bytes: [u8; MAX_INSTRUCTION],
}

impl Instruction {
    /// Returns the instruction of these bytes, [`MAX_INSTRUCTION`] at most.
    #[cfg(test)]
    pub fn new(place: Place, pc: u64, code: &[u8]) -> Self {
        let mut bytes = [0; MAX_INSTRUCTION];
        bytes[..code.len()].copy_from_slice(code);
        Self {
            place,
            pc,
            len: code.len() as u8,
            bytes,
        }
    }

    /// Returns the address at which it was executed.
    pub const fn pc(&self) -> u64 {
        self.pc
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(MAX_INSTRUCTION)]
    }
}

/// A path that was met.
#[derive(Clone, Copy)]
pub struct Path {
    /// Number of its block.
    pub block: u32,
    /// Events of the block that were passed.
    pub passed: Passed,
    /// 64-bit words in its records.
    pub values: u16,
    /// Start of these words' tables in [`Dictionary::tables`]; of a message the number of the table itself.
    pub tables: u32,
    /// The exit's own event.
    pub tail: Option<Step>,
    /// The meaning of that event for acyclic paths.
    pub leaves: Move,
    /// True if the path is a message about that event.
    pub message: bool,
    /// Address of the instruction of the exit's own event; 0 where it has none.
    pub about: u64,
}

/// A block, as ranges of the dictionary's lists.
#[derive(Clone, Copy)]
struct Block {
    first: u32,
    events: u32,
    tables: u32,
}

/// See the module.
pub struct Dictionary {
    /// The modules met so far.
    pub modules: Modules,
    /// Ways in which branches and calls transfer control.
    pub sites: FxHashMap<Place, Site>,
    /// Subjects of the tables of values, the first of them after [`UNSELECTED`].
    pub dynamic: Vec<(Kind, Place)>,
    /// The table of each.
    table_of: FxHashMap<(Kind, Place), u32>,
    /// The table of each word of each block.
    pub tables: Vec<u32>,
    /// The instructions met.
    pub instructions: Vec<Instruction>,
    instruction_at: FxHashMap<Instruction, u32>,
    selection: Selection,
    blocks: Vec<Block>,
    block_at: FxHashMap<u32, u32>,
    steps: Vec<Step>,
    /// Moves parallel to `steps`, where acyclic paths are wanted.
    moves: Vec<Move>,
    acyclic: bool,
}

impl Dictionary {
    /// Begins with an empty dictionary. `acyclic`: there are acyclic paths to be made.
    pub fn new(selection: Selection, images: Images, acyclic: bool) -> Self {
        Self {
            modules: Modules::new(images),
            sites: FxHashMap::default(),
            dynamic: Vec::new(),
            table_of: FxHashMap::default(),
            tables: Vec::new(),
            instructions: Vec::new(),
            instruction_at: FxHashMap::default(),
            selection,
            blocks: Vec::new(),
            block_at: FxHashMap::default(),
            steps: Vec::new(),
            moves: Vec::new(),
            acyclic,
        }
    }

    /// The files that symbols are read from.
    pub fn files(&self) -> &'static trommel_symbol::Files {
        self.selection.files()
    }

    /// Tells the target what of a new region is selected. False when there is no room for that.
    pub fn tell_selected(&mut self, to: &Queries, range: Range<u64>) -> bool {
        self.selection.tell(to, range, &self.modules)
    }

    /// Tables given out, [`UNSELECTED`] included.
    pub fn table_count(&self) -> usize {
        self.dynamic.len() + 1
    }

    /// Works out what an exit number means.
    pub fn meet(&mut self, shared: &Shared, number: u32) -> Result<Path, Damaged> {
        let (header, tail) = shared.path(number as usize)?;
        let block = match self.block_at.get(&header.block) {
            Some(&block) => block,
            None => self.block(shared, header.block)?,
        };
        let Block {
            first,
            events,
            tables,
        } = self.blocks[block as usize];
        let passed = header.passed;
        let dynamic = match tail {
            Some(Event::Arguments { .. }) => true,
            Some(tail) => tail.words() != 0 && !header.message,
            None => false,
        };
        if u32::from(passed.end) > events || passed.first > passed.end || dynamic {
            return Err(Damaged {
                what: "an exit number",
                number: number.into(),
            });
        }
        let before = &self.steps[first as usize..][..usize::from(passed.first)];
        let before: usize = before.iter().map(Step::words).sum();
        let mut path = Path {
            block,
            passed,
            values: 0,
            tables: tables + before as u32,
            tail: tail.map(|event| self.resolve(&event)),
            leaves: match tail.filter(|_| self.acyclic) {
                Some(event) => self.movement(&event),
                None => Move::Stay,
            },
            message: header.message,
            about: tail.map_or(0, |event| event.pc().0),
        };
        let steps = self.steps(&path).iter().chain(&path.tail);
        path.values = steps.map(Step::words).sum::<usize>() as u16;
        if path.message {
            path.tables = match path.tail {
                Some(Step::Dynamic(kind, place)) => self.table(kind, place),
                _ => UNSELECTED,
            };
        }
        Ok(path)
    }

    /// The events of the block that the path passes, in order; its tail comes after them.
    pub fn steps(&self, path: &Path) -> &[Step] {
        &self.steps[self.range(path)]
    }

    /// Returns the moves of [`Self::steps`], where those are wanted; elsewhere none.
    pub fn moves(&self, path: &Path) -> &[Move] {
        match self.acyclic {
            true => &self.moves[self.range(path)],
            false => &[],
        }
    }

    /// Returns whether what a path means for acyclic paths does not depend on what was executed before, nor on what is after it.
    pub fn is_whole(&self, path: &Path) -> bool {
        matches!(
            self.moves(path).first(),
            Some(Move::Resume(..) | Move::Amid)
        )
    }

    fn range(&self, path: &Path) -> Range<usize> {
        let first = self.blocks[path.block as usize].first as usize;
        first + usize::from(path.passed.first)..first + usize::from(path.passed.end)
    }

    /// Returns the place where an acyclic path may begin.
    pub fn start(&mut self, pc: TargetPc) -> Start {
        let at = self.modules.place(pc);
        Start {
            at,
            selected: self.selection.has(at, &self.modules.list),
        }
    }

    /// Returns the meaning of an event for acyclic paths.
    fn movement(&mut self, event: &Event) -> Move {
        match *event {
            Event::Enter { pc } => Move::Arrive(self.start(pc)),
            Event::Begin { pc } => Move::Resume(self.start(pc), Outcomes::NONE),
            Event::Amid { .. } => Move::Amid,
            Event::Resume { start, word } => match Outcomes::from_word(word) {
                Some((outcomes, _)) => Move::Resume(self.start(start), outcomes),
                // Nothing that the runtime writes.
                None => Move::End,
            },
            Event::Branch {
                pc,
                len,
                target,
                taken,
            } => {
                let next = Event::branches_to(pc, len, target, taken);
                Move::Branch {
                    taken,
                    back: taken && target.0 <= pc.0,
                    next: self.start(next),
                }
            }
            Event::Call { .. }
            | Event::Return { .. }
            | Event::Jump { .. }
            | Event::Indirect { call: true, .. }
            | Event::Dynamic {
                kind: Kind::Call, ..
            } => Move::End,
            Event::Indirect { pc, target, .. } => {
                Move::JumpTo(self.modules.place(pc), self.modules.place(target))
            }
            Event::Dynamic {
                kind: Kind::Edge,
                pc,
            } => Move::Jump(self.modules.place(pc)),
            Event::Marked(mark) => Move::Marked(mark),
            Event::Dynamic { .. }
            | Event::Unprofiled { .. }
            | Event::Arguments { .. }
            | Event::AfterCall { .. }
            | Event::Delivered { .. }
            | Event::Instruction { .. } => Move::Stay,
        }
    }

    /// Counts each static event, when each of `paths` was executed as often as said. `unprofiled` gets how often a place was
    /// executed without a reported value, `after_call` of an instruction after a call how often control was there, and
    /// `delivered` how often the kernel led to one. Each may get one several times.
    pub fn counts<'a>(
        &self,
        paths: impl Iterator<Item = (&'a Path, u64)>,
        mut each: impl FnMut(Kind, Tuple, u64),
        mut unprofiled: impl FnMut(Place, u64),
        mut after_call: impl FnMut(Place, u64),
        mut delivered: impl FnMut(Place, u64),
    ) {
        let mut step = |step: &Step, count| match *step {
            Step::Static(kind, tuple) => each(kind, tuple, count),
            Step::Unprofiled(_, place) => unprofiled(place, count),
            Step::AfterCall(place) => after_call(place, count),
            Step::Delivered(place) => delivered(place, count),
            _ => {}
        };
        // Entry k of a block: the executions that left after k of its events, less those that began there.
        let mut left = vec![0_u64; self.steps.len() + self.blocks.len()];
        let at = |number: u32, block: &Block| (block.first + number) as usize;
        for (path, count) in paths {
            let block = at(path.block, &self.blocks[path.block as usize]);
            let (first, end) = (usize::from(path.passed.first), usize::from(path.passed.end));
            left[block + end] = left[block + end].wrapping_add(count);
            left[block + first] = left[block + first].wrapping_sub(count);
            if let Some(tail) = &path.tail {
                step(tail, count);
            }
        }
        for (number, block) in (0..).zip(&self.blocks) {
            let at = at(number, block);
            let mut passed = 0_u64;
            for n in (0..block.events as usize).rev() {
                passed = passed.wrapping_add(left[at + n + 1]);
                if passed != 0 {
                    step(&self.steps[block.first as usize + n], passed);
                }
            }
        }
    }

    /// The table of the values of an event.
    fn table(&mut self, kind: Kind, place: Place) -> u32 {
        let next = self.table_count() as u32;
        let table = *self.table_of.entry((kind, place)).or_insert(next);
        if table == next {
            self.dynamic.push((kind, place));
        }
        table
    }

    fn block(&mut self, shared: &Shared, at: u32) -> Result<u32, Damaged> {
        let events = shared.block(at)?;
        let first = self.steps.len() as u32;
        let tables = self.tables.len() as u32;
        for event in &events {
            let step = self.resolve(event);
            match step {
                Step::Dynamic(kind, place) => {
                    let table = self.table(kind, place);
                    self.tables.push(table);
                }
                _ => (0..step.words()).for_each(|_| self.tables.push(UNSELECTED)),
            }
            self.steps.push(step);
            if self.acyclic {
                let movement = self.movement(event);
                self.moves.push(movement);
            }
        }
        let number = self.blocks.len() as u32;
        self.blocks.push(Block {
            first,
            events: events.len() as u32,
            tables,
        });
        self.block_at.insert(at, number);
        Ok(number)
    }

    /// Returns the meaning of an event.
    pub fn resolve(&mut self, event: &Event) -> Step {
        if let Event::Marked(mark) = *event {
            return Step::UnselectedWords(mark.words() as u8);
        }
        if let Event::Enter { .. }
        | Event::Begin { .. }
        | Event::Amid { .. }
        | Event::Resume { .. }
        | Event::Return { .. }
        | Event::Jump { .. } = *event
        {
            return Step::Unselected;
        }
        let pc = event.pc();
        let place = self.modules.place(pc);
        // Whatever is selected: what lies between counts too.
        if let Event::Instruction { len, bytes, .. } = *event {
            let pc = pc.0;
            return Step::Instruction(self.instruction(Instruction {
                place,
                pc,
                len,
                bytes,
            }));
        }
        if !self.selection.has(place, &self.modules.list) {
            return match event.words() {
                0 => Step::Unselected,
                words => Step::UnselectedWords(words as u8),
            };
        }
        match *event {
            Event::Branch {
                len, target, taken, ..
            } => {
                let taken_to = self.modules.place(target);
                let fallthrough = self.modules.place(TargetPc(pc.0 + u64::from(len)));
                self.sites.insert(
                    place,
                    Site::Conditional {
                        taken: taken_to,
                        fallthrough,
                    },
                );
                let to = if taken { taken_to } else { fallthrough };
                Step::Static(Kind::Edge, Tuple::new(place, to.word()))
            }
            Event::Call { target, .. } => {
                self.sites.insert(place, Site::DirectCall);
                let to = self.modules.place(target);
                Step::Static(Kind::Call, Tuple::new(place, to.word()))
            }
            Event::Indirect { target, call, .. } => {
                let (kind, site) = match call {
                    true => (Kind::Call, Site::IndirectCall),
                    false => (Kind::Edge, Site::IndirectJump),
                };
                self.sites.insert(place, site);
                let to = self.modules.place_at(target);
                Step::Static(kind, Tuple::new(place, to.word()))
            }
            Event::Dynamic { kind, .. } => {
                match kind {
                    Kind::Edge => drop(self.sites.insert(place, Site::IndirectJump)),
                    Kind::Call => drop(self.sites.insert(place, Site::IndirectCall)),
                    _ => {}
                }
                Step::Dynamic(kind, place)
            }
            Event::Unprofiled { kind, .. } => Step::Unprofiled(kind, place),
            Event::AfterCall { .. } => Step::AfterCall(place),
            Event::Delivered { .. } => Step::Delivered(place),
            Event::Arguments { .. } => Step::Arguments,
            Event::Instruction { .. }
            | Event::Enter { .. }
            | Event::Begin { .. }
            | Event::Amid { .. }
            | Event::Resume { .. }
            | Event::Return { .. }
            | Event::Jump { .. }
            | Event::Marked(_) => Step::Unselected,
        }
    }

    /// The number of an instruction.
    fn instruction(&mut self, instruction: Instruction) -> u32 {
        let next = self.instructions.len() as u32;
        let number = *self.instruction_at.entry(instruction).or_insert(next);
        if number == next {
            self.instructions.push(instruction);
        }
        number
    }
}
