//! Query instructions: 64 bits, two comparisons, an immediate, a branch and an action (Figure 4).
//!
//! ```text
//! bits    what
//!  0–10   comparison of a word of the even bank (words 0, 2, 4, 6)
//! 11–21   comparison of a word of the odd bank (words 1, 3, 5)
//! 22–37   immediate, for both comparisons
//! 38–44   branch target: a query PC
//! 45–46   after a match:  0 the next instruction, 1 the target, 2 stop
//! 47–48   otherwise:      the same
//! 49–51   action of a match: 0 none, 1 send, 2 count, 3 interrupt, 4 interrupt sync
//! 52–63   its operand: of send, queue (8 bits), queues − 1 (3), drop (1); of count, the counter (12)
//!
//! comparison:
//!  0–3    test: 0 chance, 1 =, 2 <>, 3 <, 4 <=, 5 >, 6 >=, 7 bset, 8 bclr, 9–14 as 1–6, signed
//!  4–7    lane: 0–7 a byte, 8–11 16 bits, 12–13 32 bits, 14 the word;
//!         of chance 0 true, 1 false, 2–5 filter 2, 4, 16, 256
//!  8–9    word of the bank
//!  10     against: 0 the immediate, 1 the same lane of the word that the other comparison selects
//! ```
//!
//! Two words of different banks are what a record buffer with two banks gives in one cycle (section
//! 3.4.2). That they share one immediate is the price of 64 bits.
//!
//! Invariant: what [`Instruction::decode`] accepts, [`Instruction::encode`] gives back: fields that mean
//! nothing are 0, and so there is one word for each instruction.

mod comparison;
mod malformed;

pub use comparison::{Against, Chance, Comparison, Known, Lane, Relation, Test};
pub(crate) use comparison::{bounds, immediate_value};
pub use malformed::Malformed;

use crate::pc::QueryPc;

/// The queues that a message may go to, and what happens when its queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Queues {
    /// The first queue.
    pub first: u8,
    /// Number of queues, 1 to 8: the n-th message of the instruction goes to queue `first + n mod count`.
    pub count: u8,
    /// The message is dropped and counted when the queue is full; otherwise the thread waits.
    pub drop: bool,
}

impl Queues {
    /// Queues of one instruction at most.
    pub const MOST: u8 = 8;

    /// Returns true if a queue is one of them.
    pub const fn hold(self, queue: u8) -> bool {
        match queue.checked_sub(self.first) {
            Some(n) => n < self.count,
            None => false,
        }
    }
}

/// Actions on a record that matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Nothing.
    None,
    /// It is written to a queue.
    Send(Queues),
    /// The instruction's counter counts it.
    Count,
    /// The profiled thread is interrupted; with `sync` it goes on when the query has ended.
    Interrupt {
        /// The thread waits for the end of the query.
        sync: bool,
    },
}

/// Continuations of a query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// At the next instruction.
    Continue,
    /// At the branch target.
    Branch,
    /// Nowhere: it ends.
    Stop,
}

impl Next {
    const ALL: [Self; 3] = [Self::Continue, Self::Branch, Self::Stop];

    fn decode(bits: u64) -> Result<Self, Malformed> {
        let next = Self::ALL.get((bits & 3) as usize).copied();
        next.ok_or(Malformed("where the query goes on is reserved"))
    }
}

/// A query instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Instruction {
    /// The comparison of a word of the even bank.
    pub even: Comparison,
    /// The comparison of a word of the odd bank.
    pub odd: Comparison,
    /// Immediate operand of both comparisons; 0 where neither uses it.
    pub immediate: u16,
    /// Done when both succeed.
    pub action: Action,
    /// Continuation when both comparisons hold.
    pub matched: Next,
    /// Continuation otherwise.
    pub otherwise: Next,
    /// The branch target, 0 where there is no branch.
    pub target: QueryPc,
}

/// Values of an instruction's counter.
pub const COUNTER_BITS: u32 = 12;

impl Instruction {
    /// Returns true if it matches every record.
    pub fn is_unconditional(&self) -> bool {
        self.even.test == Test::TRUE && self.odd.test == Test::TRUE
    }

    /// The word, its counter 0.
    pub fn encode(&self) -> u64 {
        let next = |next| Next::ALL.iter().position(|n| *n == next).unwrap_or(0) as u64;
        let (action, operand) = match self.action {
            Action::None => (0, 0),
            Action::Send(Queues { first, count, drop }) => (
                1,
                u64::from(first) | u64::from((count - 1) & 7) << 8 | u64::from(drop) << 11,
            ),
            Action::Count => (2, 0),
            Action::Interrupt { sync } => (3 + u64::from(sync), 0),
        };
        self.even.encode()
            | self.odd.encode() << 11
            | u64::from(self.immediate) << 22
            | (self.target.number() as u64) << 38
            | next(self.matched) << 45
            | next(self.otherwise) << 47
            | action << 49
            | operand << 52
    }

    /// The instruction of a word.
    ///
    /// # Errors
    /// When the word is not what [`Instruction::encode`] makes of an instruction, or the instruction
    /// holds a comparison that no record can match other than the constant `false`.
    pub fn decode(word: u64) -> Result<Self, Malformed> {
        let even = Comparison::decode(word & 0x7ff)?;
        let odd = Comparison::decode(word >> 11 & 0x7ff)?;
        let operand = word >> 52;
        let action = match word >> 49 & 7 {
            0 => Action::None,
            1 => Action::Send(Queues {
                first: operand as u8,
                count: (operand >> 8 & 7) as u8 + 1,
                drop: operand >> 11 != 0,
            }),
            2 => Action::Count,
            3 => Action::Interrupt { sync: false },
            4 => Action::Interrupt { sync: true },
            _ => return Err(Malformed("the action is reserved")),
        };
        let instruction = Self {
            even,
            odd,
            immediate: (word >> 22) as u16,
            action,
            matched: Next::decode(word >> 45)?,
            otherwise: Next::decode(word >> 47)?,
            target: QueryPc::new((word >> 38 & 0x7f) as usize)
                .ok_or(Malformed("the branch target is out of range"))?,
        };
        instruction.check()?;
        if instruction.encode() != word {
            return Err(Malformed(
                "bits that mean nothing are set (a counter starts at 0)",
            ));
        }
        Ok(instruction)
    }

    /// Checks rules that the encoded form cannot express.
    fn check(&self) -> Result<(), Malformed> {
        let tests = [self.even.test, self.odd.test];
        let against = |which| tests.into_iter().any(|t| t.against() == Some(which));
        if self.immediate != 0 && !against(Against::Immediate) {
            return Err(Malformed(
                "there is an immediate, and nothing compares with it",
            ));
        }
        let [even, odd] = tests.map(|t| t.against());
        let even_read = even.is_some() || odd == Some(Against::Other);
        let odd_read = odd.is_some() || even == Some(Against::Other);
        if self.even.word != 0 && !even_read || self.odd.word != 0 && !odd_read {
            return Err(Malformed("a word is selected that nothing reads"));
        }
        if self.odd.word == 3 {
            return Err(Malformed(
                "a comparison reads word 7, and a record has seven words",
            ));
        }
        if let Action::Send(Queues { first, count, .. }) = self.action
            && first.checked_add(count - 1).is_none()
        {
            return Err(Malformed("it sends to queues above 255"));
        }
        let branches = self.matched == Next::Branch || self.otherwise == Next::Branch;
        if !branches && self.target.number() != 0 {
            return Err(Malformed("there is a branch target, and nothing branches"));
        }
        if self.is_unconditional() && self.otherwise != Next::Continue {
            return Err(Malformed(
                "it always matches, and says where to go otherwise",
            ));
        }
        let never = |test: Test| {
            test != Test::Chance(Chance::False) && test.outcome(self.immediate) == Known::Never
        };
        if tests.into_iter().any(never) {
            return Err(Malformed("a comparison can never match"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
