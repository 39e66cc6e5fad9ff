//! A run before anything has started: what its processes will be told, and who is there to be given what they tell.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use trommel_compress::Strata;
use trommel_compress::interval::Shield;
use trommel_profile::Profile;
use trommel_symbol::Files;
use trommel_tuple::Kind;

use super::Session;
use super::native::Execed;
use super::parts::{Account, First, Means, Receivers};
use super::querying::Querying;
use super::releases::Releases;
use super::retakes::Retakes;
use super::stops::Stops;
use crate::ask::custom::{self, Custom};
use crate::ask::prefetch::{self};
use crate::ask::service::{Instance, Write};
use crate::channel::memory::Budget;
use crate::channel::modules::Images;
use crate::channel::terms::Prefetching;
use crate::channel::terms::{TargetCounts, Terms};
use crate::channel::tracing::Tracing;
use crate::fold::is_exact;
use crate::fold::levels;
use crate::kernel::births::Births;
use crate::serve::engine::Engine;
use crate::serve::failure::RecordError;
use crate::serve::news::News;
use crate::serve::options::RecordOptions;
use crate::takeover::forked::Forked;
use crate::windows::toll::Toll;

/// Returns what the program itself counts. Paths and values, where the order of events does not matter. The events of a
/// stratified sampler or a multi-hash profiler, where all are enabled and nowhere else, and values need not be
/// hashed with the papers' function.
fn counts(options: &RecordOptions) -> TargetCounts {
    let kinds = options.kinds;
    let transfers = kinds.iter().all(Kind::value_is_place);
    let paths = kinds.has(Kind::Path);
    let others = [Kind::Edge, Kind::Call, Kind::Path].into_iter().collect();
    let stress = &options.stress;
    if kinds.is_empty() && options.contexts == 0
        || options.simulate.is_some()
        || paths && !kinds.is_within(others)
        || options.stream.is_some()
        || stress.window != 0
        || stress.events
        || options.sampling.is_some() && !options.bursts
    {
        return TargetCounts::Nothing;
    }
    let all = options.only.is_empty() || selects(options);
    match (
        Strata::of(&options.compressor),
        Shield::of(&options.compressor),
    ) {
        _ if is_exact(&options.compressor) => TargetCounts::Paths,
        // In the order in which they end.
        _ if paths => TargetCounts::Nothing,
        (Some(strata), _) if all && (transfers || strata.is_cheap()) => {
            TargetCounts::Strata(strata)
        }
        (_, Some(shield)) if all && (transfers || shield.is_cheap()) => {
            TargetCounts::Intervals(shield)
        }
        _ => TargetCounts::Nothing,
    }
}

/// Returns true if code that is not selected is to have no events: not where the order in which code is executed tells more than its events do.
fn selects(options: &RecordOptions) -> bool {
    !options.only.is_empty()
        && !options.kinds.is_empty()
        && !options.kinds.has(Kind::Path)
        && options.sampling.is_none()
        && options.stress.window == 0
        && options.question.is_none()
}

/// Percent by which shares of values may differ that are known, where those are not to be profiled on and the target counts.
fn converge(options: &RecordOptions) -> Option<f64> {
    let counts = matches!(
        counts(options),
        TargetCounts::Paths | TargetCounts::Strata(_)
    );
    let values = [Kind::Value, Kind::Type].map(|kind| options.kinds.has(kind));
    options
        .converge
        .filter(|_| counts && values.contains(&true))
}

/// The file for messages, if they are to be written.
fn messages_for(options: &RecordOptions) -> Result<Option<Rc<RefCell<Write>>>, RecordError> {
    let (Some(path), Some(_)) = (&options.messages, options.question) else {
        return Ok(None);
    };
    let write = Write::create(path);
    let write = write.map_err(|error| RecordError::Messages {
        path: path.clone(),
        error,
    })?;
    Ok(Some(Rc::new(RefCell::new(write))))
}

/// Services of libraries for the first process.
fn first_services(options: &RecordOptions) -> Result<Vec<Instance>, RecordError> {
    let begin = |of| {
        let instance = Instance::begin(of, options.question, options.changes_queries());
        match instance.failure() {
            None => Ok(instance),
            Some(why) => Err(RecordError::Service {
                name: of.name().to_owned(),
                why: why.to_owned(),
            }),
        }
    };
    options.services.iter().map(begin).collect()
}

/// The customisation module, loaded.
fn custom_of(named: &custom::Named) -> Result<Rc<Custom>, RecordError> {
    Custom::start(named.clone()).map_err(|why| RecordError::Custom {
        name: named.name.clone(),
        why,
    })
}

impl<'a> Session<'a> {
    /// A run in which nothing has started. `notice` gets what the user should know.
    /// `others` gets the profiles of all processes but the first.
    pub fn new(
        options: &'a RecordOptions,
        toll: Option<Toll>,
        notice: &'a mut dyn FnMut(News),
        others: &'a mut dyn FnMut(Profile, Engine),
    ) -> Result<Self, RecordError> {
        // Before anything else is there that its process would keep.
        let custom = options.custom.as_ref().map(custom_of).transpose()?;
        let messages = messages_for(options)?;
        let services = Some(first_services(options)?);
        let prefetch = match (options.stress.prefetch, options.prefetch) {
            (true, _) => Prefetching::Everywhere,
            (false, true) => Prefetching::Misses,
            (false, false) => Prefetching::Nothing,
        };
        let timed = toll.filter(|_| options.kinds.has(Kind::Latency));
        let by_caller = options.sampling.is_some_and(|sampling| sampling.by_caller);
        // Before the account of what the run costs begins.
        let levels = timed.map(|toll| levels::measure(toll.cycle));
        Ok(Self {
            options,
            notice,
            others,
            terms: Terms {
                kinds: options.recorded(),
                counts: counts(options),
                options: options.stress.options,
                window: match options.sampling {
                    Some(_) if options.bursts => 0,
                    Some(sampling) => sampling.first_length(),
                    None => options.stress.window,
                },
                window_skip: options.sampling.map_or(0, |sampling| sampling.skip()),
                // Between bursts a process has no children of ours, and so it has none in them.
                follow: options.follow && !options.bursts,
                // Queries are put to fragments.
                tracing: match options.question {
                    Some(_) => Tracing::NONE,
                    None => options.tracing,
                },
                question: match prefetch {
                    Prefetching::Misses => Some(Box::leak(Box::new(prefetch::question()))),
                    Prefetching::Nothing | Prefetching::Everywhere => match &custom {
                        Some(custom) => Some(custom.question),
                        None => options.question,
                    },
                },
                selects: selects(options),
                listed: custom.is_some() || by_caller,
                stacks: by_caller,
                contexts: options.contexts,
                prefetch,
                converge: converge(options),
            },
            means: Means {
                images: match has_places(options) {
                    true => Images::default(),
                    false => Images::without_builds(),
                },
                budget: Rc::new(Budget::new(options.memory)),
                // One for each run of the command: symbols borrow from it until the end.
                files: Box::leak(Box::new(Files::new())),
                toll,
                levels,
            },
            receivers: Receivers {
                streams: HashMap::new(),
                stream_whole: true,
                messages,
                services,
                custom,
            },
            first: First::default(),
            account: Account::begin(),
            families: Vec::new(),
            processes: Vec::new(),
            started: 0,
            ancestors: Vec::new(),
            traced: Vec::new(),
            arrivals: Vec::new(),
            stops: Stops::default(),
            births: Births::default(),
            forked: Forked::default(),
            execed: Execed::default(),
            releases: Releases::default(),
            retakes: Retakes::default(),
            keeping: Vec::new(),
            epochs: None,
            querying: Querying::default(),
        })
    }
}

/// Returns true if places in code come out of a run.
fn has_places(options: &RecordOptions) -> bool {
    let asked = options.question.is_some() || options.custom.is_some();
    !options.kinds.is_empty() || options.contexts != 0 || asked || options.simulate.is_some()
}
