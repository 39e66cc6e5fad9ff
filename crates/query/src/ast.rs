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
    pub behind: Option<String>,
}

/// A word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// Where.
    pub span: Span,
    /// As written.
    pub text: String,
}

/// A number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// Where, its sign included.
    pub span: Span,
    /// Its value, of 64 bits and a sign.
    pub value: i128,
    /// How it was written.
    pub form: Form,
}

/// How a number is written.
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
    /// Where.
    pub places: Vec<Place>,
}

/// Instructions that get a tag.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
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
    /// What it is about.
    pub selectors: Vec<Selector>,
    /// How often.
    pub every: Every,
    /// What is collected.
    pub fields: Vec<Name>,
    /// What is done with it.
    pub clauses: Vec<Clause>,
}

/// Which executions.
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
    /// What is done when none matches; of an unconditional clause, all of it.
    pub otherwise: Option<Body>,
}

/// `if … and … then …`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arm {
    /// From `if` on.
    pub span: Span,
    /// One or two.
    pub conditions: Vec<Condition>,
    /// What is done when all hold.
    pub then: Body,
}

/// Actions, and where to go afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// All of it.
    pub span: Span,
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// Where to go; without, to the next clause.
    pub next: Option<Next>,
}

/// An action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// Where.
    pub span: Span,
    /// Which.
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

/// Where a query goes on.
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
    /// Where.
    pub span: Span,
    /// What.
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
        /// What is looked at.
        operand: Operand,
        /// `bset`
        set: bool,
        /// The mask.
        mask: Comparand,
    },
}

/// What is compared with.
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
    /// The field.
    pub field: Name,
    /// Which part of it, and how to read that; without, the whole word, unsigned.
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
