//! Relational queries: software asks which instructions, which of their facts, how often, under what
//! condition, and where the answers go (*Relational Profiling*).
//!
//! Problem: a program executes billions of instructions, and a service thread wants the few facts that
//! its job needs. A query says which those are, in a text that people write; what collects them
//! (hardware, or code around the selected instructions) needs the same question in a form that takes a
//! few bits and a few cycles.
//!
//! Strategy: the paper's (section 3). The text is assembled into a [`Program`]: a profile control table
//! ([`Table`], one entry for each class of instructions and each event: how often, which fields, where
//! its query starts) and 64-bit query [`Instruction`]s of two comparisons, an action and a branch. The
//! [`Engine`] is the meaning of a program: facts about executed instructions go in, messages come out.
//!
//! ```text
//! text ─lex─▶ tokens ─parse─▶ ast::File ─check─▶ names resolved ─lower─▶ Program ─▶ image bytes
//!                     ◀─format─                                          │  ▲            │
//!                                          text ◀─disassemble────────────┘  └─validate───┘
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`field`], [`class`], [`rate`], [`tag`] | what a query speaks of: Table 2, Table 1, sampling rates, profile tags |
//! | [`ast`], [`mod@format`], [`diagnostic`] | the text: its tree, its normal form, what is wrong with it and where |
//! | [`instruction`], [`control`], [`program`], [`image`] | the assembled form, bit by bit, and its file |
//! | [`assemble`](fn@assemble), [`disassemble`] | from text to program and back |
//! | [`record`], [`engine`] | records and the reference interpreter |
//! | [`pair`] | pairs of executions, and the words of their records |
//! | [`throttle`] | rates for `every auto` |
//! | [`quick`] | queries that only compare and count, as trees that generated code can follow |
//! | [`x86`], [`observe`] | the class of an x86-64 instruction; where its operands and results are |
//! | [`access`] | what memory one accesses, and how data goes through it |
//!
//! The language, the encoding and their reasons are described for users in `docs/query.md`.
//!
//! Invariants: a [`Program`] is valid: every branch goes forward and stays within its query, every query
//! ends, each word has one meaning and each meaning one word. So engines need no checks, every query
//! takes at most [`MAX_INSTRUCTIONS`] steps, and disassembling and assembling again gives the
//! same words. Any text is a file or [`Diagnostic`]s with places in it; any bytes are a program or an
//! [`image::ImageError`].
//!
//! Architecture invariants: no std, no unsafe; nothing here knows how facts are collected or where
//! messages are stored.
//!
//! # Example
//! ```
//! use trommel_query::{Class, Engine, Entry, Facts, Field, Operation, QueryPc, Record, Sink, Subject};
//! use trommel_query::assemble;
//!
//! struct Sent(Vec<(u8, u64)>);
//! impl Sink for Sent {
//!     fn message(&mut self, _: QueryPc, queue: u8, record: &Record, _: bool) {
//!         self.0.push((queue, record.0[0]));
//!     }
//!     fn interrupt(&mut self, _: QueryPc, _: &Record, _: bool) {}
//!     fn counted(&mut self, _: QueryPc, _: u64) {}
//! }
//!
//! // Stores of a value other than 0, to queue 3.
//! let text = "for opSTORE 1 always collect op1; if op1 <> 0 then send 3 stop else stop;";
//! let program = assemble(text).expect("a query").program;
//! let mut engine = Engine::new(&program, 1);
//! let mut sent = Sent(Vec::new());
//! let class = Class::new(Operation::Store, 1).expect("a tag below 4");
//! let store = Entry::of(Subject::Class(class));
//! for value in [0, 5] {
//!     engine.offer(store, &Facts::NONE.with(Field::Op1, value), &mut sent);
//! }
//! assert_eq!(sent.0, [(3, 5)]);
//! ```
//!
//! **I39 (bounded queries).** Every query ends, and takes a bounded number of steps.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod access;
pub mod assemble;
pub mod ast;
mod check;
pub mod class;
pub mod control;
pub mod diagnostic;
pub mod disassemble;
pub mod engine;
pub mod field;
pub mod format;
pub mod image;
pub mod instruction;
mod lex;
mod lower;
pub mod observe;
pub mod pair;
mod parse;
mod pc;
pub mod program;
pub mod quick;
pub mod rate;
pub mod record;
pub mod tag;
pub mod throttle;
pub mod x86;

pub use assemble::{Assembly, assemble};
pub use class::{Class, ENTRIES, Entry, EntrySet, Event, Operation, Subject};
pub use control::{Control, Table};
pub use diagnostic::{Diagnostic, Position, Severity, Span};
pub use engine::{Engine, Sink};
pub use field::{Field, FieldSet};
pub use instruction::Instruction;
pub use parse::{MAX_TEXT, parse};
pub use pc::{MAX_INSTRUCTIONS, QueryPc};
pub use program::Program;
pub use rate::{Budget, Rate, Sampling};
pub use record::{Facts, Record};
