//! Services in libraries, named on the command line (`docs/query.md`).

use std::ffi::CString;

use anyhow::{Result, anyhow, bail};
use trommel_host::ask::service::Foreign;
use trommel_query::Program;
use trommel_query::instruction::{Action, Queues};

use crate::args::ServiceSpec;
use crate::output::printable;

/// Loads them, for messages of `question` and, if there are `intervals`, for these.
pub(crate) fn load(
    specs: &[ServiceSpec],
    question: Option<&Program>,
    intervals: bool,
) -> Result<Vec<Foreign>> {
    (specs.iter())
        .map(|spec| one(spec, question, intervals))
        .collect()
}

fn one(spec: &ServiceSpec, question: Option<&Program>, intervals: bool) -> Result<Foreign> {
    let name = printable(&spec.name);
    match (spec.queue, question) {
        (Some(queue), None) => bail!(
            "service {name}: there is no query that sends to queue {queue}: name one with --query, or write LIB alone for \
             the intervals of a profiler (-c)"
        ),
        (Some(queue), Some(question)) => check(&name, queue, question)?,
        (None, _) if !intervals => bail!(
            "service {name}: without a queue it is given intervals, and there are none: name events and an interval profiler, \
             as in -e edge,call -c 'M4[10k,1%]2048', or write QUEUE=LIB for messages of a query"
        ),
        (None, _) => {}
    }
    // Words of a command line hold none.
    let argument = CString::new(spec.argument.as_str()).unwrap_or_default();
    let loaded = Foreign::load(&spec.library, spec.name.clone(), spec.queue, argument);
    loaded.map_err(|why| {
        let library = spec.library.display().to_string();
        anyhow!("service {name}: {}: {why}", printable(&library))
    })
}

/// Checks that a query sends to a queue.
fn check(name: &str, queue: u8, question: &Program) -> Result<()> {
    let sends = |action| match action {
        Action::Send(Queues { first, count, .. }) => {
            (first..=first.saturating_add(count - 1)).contains(&queue)
        }
        // Interrupts go to all of them.
        Action::Interrupt { .. } => true,
        _ => false,
    };
    if !question.code().iter().any(|i| sends(i.action)) {
        bail!("service {name}: no query sends to queue {queue}");
    }
    Ok(())
}
