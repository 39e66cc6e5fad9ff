//! Services in libraries, named on the command line (`docs/query.md`).

use std::ffi::CString;

use anyhow::{Result, anyhow, bail};
use trommel_host::ask::service::Foreign;
use trommel_query::Program;
use trommel_query::instruction::{Action, Queues};

use crate::args::ServiceSpec;
use crate::output::{self, printable};

/// Services that are to be had.
pub(crate) struct Offered<'a> {
    /// Queries whose messages there are.
    pub(crate) question: Option<&'a Program>,
    /// Further queries may be loaded.
    pub(crate) loads: bool,
    /// There are intervals of a profiler.
    pub(crate) intervals: bool,
}

/// Loads them, for what is `offered`.
pub(crate) fn load(specs: &[ServiceSpec], offered: &Offered<'_>) -> Result<Vec<Foreign>> {
    specs.iter().map(|spec| one(spec, offered)).collect()
}

fn one(spec: &ServiceSpec, offered: &Offered<'_>) -> Result<Foreign> {
    let name = printable(&spec.name);
    match (spec.queue, offered.question) {
        (Some(queue), None) => bail!(
            "service {name}: there is no query that sends to queue {queue}: name one with --query, or write LIB alone for \
             the intervals of a profiler (-c)"
        ),
        (Some(queue), Some(question)) if !sends(question, queue) => match offered.loads {
            true => output::complain(&format!(
                "service {name}: no query sends to queue {queue} until one is loaded that does"
            )),
            false => bail!("service {name}: no query sends to queue {queue}"),
        },
        (Some(_), Some(_)) => {}
        (None, _) if !offered.intervals => bail!(
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

/// Returns true if a query sends to a queue.
fn sends(question: &Program, queue: u8) -> bool {
    let to_it = |action| match action {
        Action::Send(Queues { first, count, .. }) => {
            (first..=first.saturating_add(count - 1)).contains(&queue)
        }
        // Interrupts go to all of them.
        Action::Interrupt { .. } => true,
        _ => false,
    };
    question.code().iter().any(|i| to_it(i.action))
}
