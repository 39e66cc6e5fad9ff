//! Services in libraries, named on the command line (`docs/query.md`).

use std::ffi::CString;

use anyhow::{Result, anyhow, bail};
use trommel_host::ask::service::Foreign;
use trommel_query::Program;
use trommel_query::instruction::{Action, Queues};

use crate::args::ServiceSpec;
use crate::output::printable;

/// Loads them, for messages of `question`.
pub(crate) fn load(specs: &[ServiceSpec], question: &Program) -> Result<Vec<Foreign>> {
    specs.iter().map(|spec| one(spec, question)).collect()
}

fn one(spec: &ServiceSpec, question: &Program) -> Result<Foreign> {
    let name = printable(&spec.name);
    let sends = |action| match action {
        Action::Send(Queues { first, count, .. }) => {
            (first..=first.saturating_add(count - 1)).contains(&spec.queue)
        }
        // Interrupts go to all of them.
        Action::Interrupt { .. } => true,
        _ => false,
    };
    if !question.code().iter().any(|i| sends(i.action)) {
        bail!("service {name}: no query sends to queue {}", spec.queue);
    }
    // Words of a command line hold none.
    let argument = CString::new(spec.argument.as_str()).unwrap_or_default();
    let loaded = Foreign::load(
        &spec.library,
        spec.name.clone(),
        spec.queue,
        argument,
        question,
    );
    loaded.map_err(|why| {
        let library = spec.library.display().to_string();
        anyhow!("service {name}: {}: {why}", printable(&library))
    })
}
