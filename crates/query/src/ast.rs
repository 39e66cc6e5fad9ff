//! The tree of a query file. Names are as they were written; what they mean is checked later, so that
//! the formatter works on files that do not assemble.

use alloc::string::String;
use alloc::vec::Vec;

use crate::diagnostic::Span;
pub use crate::instruction::Relation;

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct File {
    /// Its statements.
    pub items: Vec<Item>,
    /// Comments after the last one.
    pub comments: Vec<String>,
}

/// A statement of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// `tag 1 module "libjvm.so";`
    Tag(Tag),
    /// `for …; …`
    Query(Query),
}

/// The comments that belong to a statement, without the `#`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Comments {
    /// On the lines before it, and those inside it.
    pub before: Vec<String>,
    /// After it, on the line where it ends.
    pub after: Option<String>,
}

/// A word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// Position in the text.
    pub span: Span,
    /// The text as written.
    pub text: String,
}

/// A number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// Position, its sign included.
    pub span: Span,
    /// Its value, of 64 bits and a sign.
    pub value: i128,
    /// Form in which it was written.
    pub form: Form,
}

/// Forms of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `256`
    Decimal,
    /// `0x100`
    Hex,
    /// `10k`
    Thousands,
    /// `2M`
    Millions,
}

/// `tag N place, place;`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tag {
    /// All of it.
    pub span: Span,
    /// Comments.
    pub comments: Comments,
    /// The tag.
    pub tag: Number,
    /// Instructions that get the tag.
    pub places: Vec<TagTarget>,
}

/// Instructions that get a tag.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TagTarget {
    /// `module "libz.so.1"`
    Module(Name),
    /// `symbol "main"`
    Symbol(Name),
    /// `pc 0x1000..0x2000 in "libz.so.1"`
    Range {
        /// The first address.
        from: Number,
        /// After the last.
        to: Number,
        /// The module; the program itself without one.
        module: Option<Name>,
    },
}

/// `for … every N collect …; clauses`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// The header.
    pub span: Span,
    /// The header's comments.
    pub comments: Comments,
    /// Instructions or events that the query is about.
    pub selectors: Vec<Selector>,
    /// Rate at which they are profiled.
    pub every: Every,
    /// Largest distance of pairs: `pair 16`.
    pub pair: Option<Number>,
    /// Fields that are collected.
    pub fields: Vec<Name>,
    /// Clauses that are tried in turn.
    pub clauses: Vec<Clause>,
}

/// Rates of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Every {
    /// `always`
    Always,
    /// `every 256`
    Number(Number),
    /// `every auto`, `every auto 5%`
    Auto(Option<Number>),
}

/// `opLOAD 1`, `opLOAD *`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    /// Both words.
    pub span: Span,
    /// The class or event.
    pub name: Name,
    /// The tag; `*` without.
    pub tag: Option<Number>,
}

/// `label: if … then … else …;`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clause {
    /// All of it.
    pub span: Span,
    /// Comments.
    pub comments: Comments,
    /// Its label.
    pub label: Option<Name>,
    /// `if`, and each `else if`: the first that matches counts.
    pub arms: Vec<Arm>,
    /// Body when no arm matches; of an unconditional clause, the whole body.
    pub otherwise: Option<Body>,
}

/// `if … and … then …`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arm {
    /// From `if` on.
    pub span: Span,
    /// One or two.
    pub conditions: Vec<Condition>,
    /// Body when all conditions hold.
    pub then: Body,
}

/// Actions, and where to go afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// All of it.
    pub span: Span,
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// Continuation; without one, the next clause.
    pub next: Option<Next>,
}

/// An action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// Position in the text.
    pub span: Span,
    /// Kind of the action.
    pub kind: ActionKind,
}

/// The actions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ActionKind {
    /// `send 3`, `send 4..7 or drop`
    Send {
        /// The queue, or the first one.
        first: Number,
        /// The last one.
        last: Option<Number>,
        /// `or drop`
        drop: bool,
    },
    /// `count`
    Count,
    /// `interrupt`, `interrupt sync`
    Interrupt {
        /// `sync`
        sync: bool,
    },
}

/// Continuations of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// `stop`
    Stop(Span),
    /// `next`: at the next clause.
    Next(Span),
    /// `goto label`
    Goto(Span, Name),
}

/// A comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// Position in the text.
    pub span: Span,
    /// Kind of the condition.
    pub kind: ConditionKind,
}

/// The comparisons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConditionKind {
    /// `true`, `false`
    Constant(bool),
    /// `filter 16`
    Filter(Number),
    /// `op1 < 5`, `op1 < op2`
    Compare(Operand, Relation, Comparand),
    /// `misc bset 1`, `misc bclr 1`
    Bits {
        /// The operand that is tested.
        operand: Operand,
        /// `bset`
        set: bool,
        /// The mask.
        mask: Comparand,
    },
}

/// The other side of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Comparand {
    /// A number.
    Number(Number),
    /// Another field.
    Operand(Operand),
}

/// `op1`, `op1.u16@2`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operand {
    /// All of it.
    pub span: Span,
    /// True if it is of the second of a pair: `second.op1`.
    pub second: bool,
    /// The field, or the distance.
    pub field: Name,
    /// Part of the word, and its sign; without one, the whole word, unsigned.
    pub part: Option<Part>,
}

/// `.u16@2`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// From after the dot on.
    pub span: Span,
    /// `u16`
    pub kind: Name,
    /// The byte where it starts; without, 0.
    pub byte: Option<Number>,
}
