//! Checks of queries: whether they can be answered by looking at a program that runs, and by windows.

use trommel_query::instruction::Action;
use trommel_query::{Field, Operation, Program, Subject};

/// The reason why a program of queries cannot be answered by looking at a program that runs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unanswerable {
    /// An event.
    #[error(
        "{0} is an event of a processor, which no program can see happen and this machine does not count: \
         only a model of one knows it: put the query to `trommel model`, or query a class of instructions, such as opLOAD"
    )]
    Event(&'static str),
    /// A fact of a pipeline.
    #[error(
        "{0} is a fact of a processor's pipeline, which no program can see: put the query to `trommel model`, or \
         collect pc, thread, op1 to op3, res1, res2 or misc"
    )]
    Pipeline(&'static str),
    /// The result of a system call.
    #[error(
        "opSYS: {0} is not known to `record`, which looks at what is executed before a system call is made; \
         collect op1 (rax), op2 (rdi) and op3 (rsi), and query other classes for results in a query of their own"
    )]
    Result(&'static str),
}

/// Checks that `record` can answer a program.
///
/// # Errors
/// The first reason why it cannot.
pub fn check(program: &Program) -> Result<(), Unanswerable> {
    for (entry, control) in program.table().entries() {
        let class = match entry.subject() {
            Subject::Event(event) => return Err(Unanswerable::Event(event.name())),
            Subject::Class(class) => class,
        };
        if let Some(field) = control.fields.iter().find(|f| f.is_of_pipeline()) {
            return Err(Unanswerable::Pipeline(field.name()));
        }
        let is_result = |f: &Field| matches!(f, Field::Res1 | Field::Res1Up);
        if class.operation == Operation::System
            && let Some(field) = control.fields.iter().find(is_result)
        {
            return Err(Unanswerable::Result(field.name()));
        }
    }
    Ok(())
}

/// The reason why a program of queries cannot be answered by windows.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotInWindows {
    /// The rate is chosen by a budget.
    #[error(
        "{0}: `every auto` keeps a budget of its own: write `always` or `every N` for windows, or leave out \
         --budget, --rate and --window"
    )]
    Auto(String),
    /// Pairs.
    #[error(
        "{0}: a window's end would cut pairs, the more of them the farther apart they are: leave out \
         --budget, --rate and --window for `pair`"
    )]
    Pairs(String),
    /// Interrupts.
    #[error(
        "{0}: no thread waits in a window, and what a window saw counts when it has ended: use `send` for windows, \
         or leave out --budget, --rate and --window for `interrupt`"
    )]
    Interrupts(String),
}

/// Checks that windows can answer a program.
///
/// # Errors
/// The first reason why they cannot.
pub fn check_in_windows(program: &Program) -> Result<(), NotInWindows> {
    for query in program.queries() {
        let header = query.header().to_string();
        if query.sampling.rate().is_none() {
            return Err(NotInWindows::Auto(header));
        }
        if query.pair.is_some() {
            return Err(NotInWindows::Pairs(header));
        }
        let code = &program.code()[query.code];
        if (code.iter()).any(|i| matches!(i.action, Action::Interrupt { .. })) {
            return Err(NotInWindows::Interrupts(header));
        }
    }
    Ok(())
}
