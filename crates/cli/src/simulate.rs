//! Caches and predictors that `record` simulates: what is asked for, and what they came to.

use std::io::{self, Write};

use anyhow::{Result, bail};
use serde::Serialize;
use trommel_host::fold::simulated::Simulate;
use trommel_profile::simulated::{Accessed, Predicted, Simulated};
use trommel_tuple::{Kind, KindSet};

use crate::args::RecordArgs;
use crate::json::Json;
use crate::output::{grouped, number_of, percent};

/// Returns what is to be simulated, if anything is, and refuses what does not go with it.
pub(crate) fn asked(
    args: &RecordArgs,
    kinds: KindSet,
    in_windows: bool,
) -> Result<Option<Simulate>> {
    let sharing = args.events.is_some_and(|events| events.sharing);
    let caches = sharing || kinds.has(Kind::Miss) || kinds.has(Kind::LastMiss);
    let Some(what) = (match kinds.iter().find(|kind| kind.is_simulated()) {
        Some(kind) => Some(kind.name()),
        None => sharing.then_some("sharing"),
    }) else {
        if args.cache.is_some() {
            bail!("--cache is for simulated caches: add miss, llmiss or sharing to -e");
        }
        return Ok(None);
    };
    if args.cache.is_some() && !caches {
        bail!(
            "--cache is for simulated caches, and `mispredict` has none: add miss or llmiss to -e"
        );
    }
    let refused = [
        (
            in_windows,
            "--budget, --rate and --window",
            "it is of all of a run",
        ),
        (
            !args.only.is_empty(),
            "--only",
            "all code shares the caches",
        ),
        (args.query.is_some(), "--query", "both change the same code"),
        (
            args.module_lib.is_some(),
            "--module-lib",
            "it is given windows",
        ),
        (
            args.converge.is_some(),
            "--converge",
            "the target counts values there, in no order",
        ),
        (
            args.events.is_some_and(|events| events.contexts),
            "-e context",
            "the target counts contexts, in no order",
        ),
        (
            kinds.has(Kind::Path),
            "-e path",
            "both follow the order of events",
        ),
    ];
    for (given, option, why) in refused {
        if given {
            bail!("`{what}` does not go with {option}: {why}; make two recordings");
        }
    }
    Ok(Some(Simulate {
        caches: args.cache.unwrap_or_default(),
        sharing,
    }))
}

/// Returns what was simulated, in lines for people.
pub(crate) fn lines(simulated: &Simulated) -> Vec<String> {
    let mut lines = Vec::new();
    let Simulated {
        caches,
        loads,
        stores,
        conditional,
        indirect,
        sharing,
        ..
    } = simulated;
    if loads.accesses + stores.accesses != 0 {
        lines.push(format!("caches {caches}, least recently used"));
        for (name, of) in [("loads", loads), ("stores", stores)] {
            lines.push(format!(
                "{} {name}, {} missed l1 ({:.2} %), {} missed ll ({:.2} %)",
                grouped(of.accesses),
                grouped(of.first),
                percent(of.first, of.accesses),
                grouped(of.last),
                percent(of.last, of.accesses),
            ));
        }
    }
    for (name, of) in [("conditional", conditional), ("indirect", indirect)] {
        if of.branches != 0 {
            lines.push(format!(
                "{} {name} branches, {} mispredicted ({:.2} %)",
                grouped(of.branches),
                grouped(of.wrong),
                percent(of.wrong, of.branches),
            ));
        }
    }
    if let Some(sharing) = sharing {
        lines.push(format!(
            "{} handed over between threads",
            number_of(sharing.lines.len() as u64, "line")
        ));
    }
    lines
}

/// Members of what was simulated.
#[derive(Serialize)]
struct Members {
    simulated: Figures,
}

#[derive(Serialize)]
struct Figures {
    caches: String,
    loads: Missed,
    stores: Missed,
    conditional: Wrong,
    indirect: Wrong,
}

#[derive(Serialize)]
struct Missed {
    accesses: u64,
    l1_misses: u64,
    ll_misses: u64,
}

#[derive(Serialize)]
struct Wrong {
    branches: u64,
    mispredicted: u64,
}

/// Writes the member `simulated` of a report.
pub(crate) fn json<W: Write>(json: &mut Json<W>, simulated: &Simulated) -> io::Result<()> {
    let missed = |of: &Accessed| Missed {
        accesses: of.accesses,
        l1_misses: of.first,
        ll_misses: of.last,
    };
    let wrong = |of: &Predicted| Wrong {
        branches: of.branches,
        mispredicted: of.wrong,
    };
    json.members(&Members {
        simulated: Figures {
            caches: simulated.caches.to_string(),
            loads: missed(&simulated.loads),
            stores: missed(&simulated.stores),
            conditional: wrong(&simulated.conditional),
            indirect: wrong(&simulated.indirect),
        },
    })
}
