//! The bytes of a profile's parts: one description each, for writing and reading.

use std::collections::BTreeMap;

use trommel_profile::arguments::{Argument, Passed};
use trommel_profile::call_tree::{Basis, Frame, Lost, NodeId, Weight};
use trommel_profile::callers::Called;
use trommel_profile::custom::{Custom, Value, Valued};
use trommel_profile::filter::{Filter, Filtered};
use trommel_profile::intervals::{Interval, Intervals, Row, Sequence};
use trommel_profile::memory::{Cache, Conflict, Level, Levels, Pair};
use trommel_profile::queries::{Acted, Active, Count, Paid, Queries, Seen, Sent, Served};
use trommel_profile::rare::{EDGES, Edge, FEW, Rare};
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::{self, At, Function, Held, Machine, Operand, Samples};
use trommel_profile::simulated::{
    Accessed, Caches, Geometry, Predicted, SharedLine, Simulated, Toucher,
};
use trommel_profile::windows::Windows;
use trommel_profile::{
    Counted, KindProfile, Loaded, Module, Origin, Profile, Run, Scope, Site, Sum, Thread,
};
use trommel_tuple::{Kind, Message, Place, Tuple};

use crate::field::{Field, Inside, record};
use crate::sorted::{self, deltas};
use crate::varint::{Cursor, put, put_signed};

record!(Profile { origin, command, compressor, counted, run } and {
    modules, kinds, sites, threads, windows, queries, samples, filter, call_trees, compiled, sum,
    simulated, intervals, scope, after_calls, deliveries
});
record!(Sum {
    recordings,
    processes
});
record!(Origin { pid, parent, exec });
record!(Run {
    started,
    wall,
    target_cpu,
    host_cpu,
    dropped,
    undercount,
    waits,
    wait_time,
    status as ended,
    detach,
});
record!(Module { id, path, build_id, loaded } and { code });
record!(Scope { late, only });
record!(Loaded { start, end, bias });
record!(KindProfile { seen, messages } and { counts });
record!(Thread { number, tid, seen });

record!(Windows {
    taken, counted, whole, calls, signals, refused, skipped, instructions, cpu, wall, in_windows, in_kernel, host, covered,
    length, budget, rate, pacing,
} and { user, sites, rare, pairs, arguments, callers, levels, custom });
record!(Sampled {
    samples,
    executions,
    variance,
    probability,
    factor_error
});
record!(Rare { all } and { edges });
record!(Passed {
    register,
    target,
    call
});
record!(Called { kind, at, call });
record!(Levels { own, cycle } and { levels });
record!(Level {
    cache,
    typical,
    below,
    mistaken
});
record!(Custom { name, title, places, windows, lost, pairs, failures } and { sites });
record!(Valued { sampled, values });
record!(Value { count, text });

record!(Filter { limit, rounds, tables } and { places });

record!(Queries { program, places, untabulated, unmet, seen, done } and { messages, services, name, load, active, paid, windowed });
record!(Active { code, from, until });
record!(Paid { ticks, of });
record!(Seen {
    executed,
    profiled,
    acted
});
record!(Acted {
    sent,
    served,
    dropped,
    counted,
    counted_for,
    interrupted
});
record!(Sent { at, queue, words as short });
record!(Count {
    messages,
    executions
});
record!(Served { name, columns, failures, places, messages, lost } and { rows, intervals });

record!(Samples { machine, threads, entered } and { places });
record!(Machine {
    budget, rate, wall, toll, host, taken, lost, throttled, kernel, deferred, decoded, unknown, processors, missing,
    of_processes,
} and { functions });
type SampledThread = samples::Thread;
record!(SampledThread { name, sampled });
record!(At { sampled, operands });
record!(Held { sampled, values as deltas });
record!(Function {
    module,
    start,
    size,
    name,
    code
});

record!(Geometry { bytes, ways });
record!(Caches { line, first, last });
record!(Accessed {
    accesses,
    first,
    last
});
record!(Predicted { branches, wrong });
record!(Simulated { caches, loads, stores, conditional, indirect } and { accesses, branches, sharing });
record!(SharedLine {
    process,
    address,
    object,
    handoffs,
    touchers
});
record!(Toucher {
    thread,
    at,
    offset,
    size,
    loads,
    stores
});

record!(Intervals { halvings } and { sequences });
record!(Sequence { process, thread, ended, events } and { each });
record!(Interval {
    number,
    start,
    events,
    candidates
});
type MessageIntervals = Intervals<Row>;
record!(MessageIntervals { halvings } and { sequences });
type MessageSequence = Sequence<Row>;
record!(MessageSequence { process, thread, ended, events } and { each });
type MessageInterval = Interval<Row>;
record!(MessageInterval {
    number,
    start,
    events,
    candidates
});
record!(Row { words as short, count });

record!(Frame { at, call });
record!(Weight { times, own });
record!(Lost {
    truncated,
    broken,
    folded
});

impl Field for Basis {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push(*self as u8);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let basis = Self::ALL.get(usize::from(cursor.byte()?));
        basis.copied().ok_or("call paths of an unknown basis")
    }
}

/// Candidates are of one sample each.
impl Field for Message {
    fn put(&self, raw: &mut Vec<u8>) {
        self.kind.put(raw);
        self.tuple.pc.put(raw);
        self.tuple.value.put(raw);
        self.count.put(raw);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Ok(Self {
            kind: Kind::get(cursor)?,
            tuple: Tuple::new(Place::get(cursor)?, u64::get(cursor)?),
            count: u64::get(cursor)?,
            samples: 1,
        })
    }
}

impl Field for NodeId {
    fn put(&self, raw: &mut Vec<u8>) {
        self.0.put(raw);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        u32::get(cursor).map(Self)
    }
}

impl Field for Counted {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push((*self == Self::Code).into());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Ok(match bool::get(cursor)? {
            false => Self::Service,
            true => Self::Code,
        })
    }
}

/// The exit status: a flag, and a number that is 0 without it.
mod ended {
    use crate::field::{Field, Inside};
    use crate::varint::{Cursor, put_signed};

    pub(super) fn put(status: &Option<i32>, raw: &mut Vec<u8>) {
        status.is_some().put(raw);
        put_signed(raw, status.unwrap_or(0).into());
    }

    pub(super) fn get(cursor: &mut Cursor<'_>) -> Inside<Option<i32>> {
        let known = bool::get(cursor)?;
        let status = i32::try_from(cursor.signed()?).map_err(|_| "an exit status is too large")?;
        match known {
            false if status != 0 => Err("the exit status is malformed"),
            known => Ok(known.then_some(status)),
        }
    }
}

/// A list of words whose length is one byte.
pub(crate) mod short {
    use crate::field::{Field, Inside};
    use crate::varint::Cursor;

    pub(crate) fn put(words: &[u64], raw: &mut Vec<u8>) {
        raw.push(words.len() as u8);
        for word in words {
            word.put(raw);
        }
    }

    pub(crate) fn get(cursor: &mut Cursor<'_>) -> Inside<Vec<u64>> {
        (0..cursor.byte()?).map(|_| u64::get(cursor)).collect()
    }
}

impl Field for Cache {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push(*self as u8);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Self::from_number(cursor.byte()?).ok_or("a level that does not exist")
    }
}

impl Field for Operand {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push(self.number());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Self::from_number(cursor.byte()?).ok_or("an operand that does not exist")
    }
}

/// The target is written as its distance from the instruction.
impl Field for Edge {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push(self.kind as u8);
        self.from.put(raw);
        put_signed(raw, self.to.word().wrapping_sub(self.from.word()) as i64);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let kind = Kind::get(cursor)?;
        if !EDGES.contains(&kind) {
            return Err("an edge that is neither a branch nor a call");
        }
        let from = cursor.number()?;
        Ok(Self {
            kind,
            from: Place::from_word(from),
            to: Place::from_word(from.wrapping_add_signed(cursor.signed()?)),
        })
    }
}

/// Reads a number of windows that is not more than few.
pub(crate) fn few(cursor: &mut Cursor<'_>) -> Inside<u8> {
    match cursor.byte()? {
        draws @ 1..=FEW => Ok(draws),
        _ => Err("an edge that more windows saw than few"),
    }
}

/// The load is written as its distance from the store.
impl Field for Pair {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push(self.conflict as u8);
        self.store.put(raw);
        put_signed(raw, self.load.word().wrapping_sub(self.store.word()) as i64);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let conflict = Conflict::from_number(cursor.byte()?);
        let store = cursor.number()?;
        Ok(Self {
            conflict: conflict.ok_or("a conflict that does not exist")?,
            store: Place::from_word(store),
            load: Place::from_word(store.wrapping_add_signed(cursor.signed()?)),
        })
    }
}

impl Field for Filtered {
    fn put(&self, raw: &mut Vec<u8>) {
        self.outs.put(raw);
        self.changes.put(raw);
        raw.push(u8::from(self.settled) | u8::from(self.unprofiled.is_some()) << 1);
        if let Some(unprofiled) = self.unprofiled {
            unprofiled.put(raw);
        }
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let (outs, changes) = (cursor.number()?, cursor.number()?);
        let flags = cursor.byte()?;
        if flags > 3 {
            return Err("how a place was filtered is malformed");
        }
        Ok(Self {
            outs,
            changes,
            settled: flags & 1 != 0,
            unprofiled: match flags & 2 {
                0 => None,
                _ => Some(cursor.number()?),
            },
        })
    }
}

/// Values are written in order, each as the difference from the one before.
impl Field for Argument {
    fn put(&self, raw: &mut Vec<u8>) {
        self.sampled.put(raw);
        let counts = sorted::sorted(&self.counts);
        put(raw, counts.len() as u64);
        let mut last = 0;
        for &(value, count) in &*counts {
            put(raw, value.wrapping_sub(last));
            put(raw, count);
            last = value;
        }
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let sampled = Sampled::get(cursor)?;
        let values: BTreeMap<u64, u64> = deltas::get(cursor)?;
        Ok(Self {
            sampled,
            counts: values.into_iter().collect(),
        })
    }
}

/// Writes how a branch transfers control; places are relative to its own.
pub(crate) fn put_site(site: &Site, word: u64, raw: &mut Vec<u8>) {
    let relative = |raw: &mut Vec<u8>, other: &Place| {
        put_signed(raw, other.word().wrapping_sub(word) as i64);
    };
    match site {
        Site::Conditional { taken, fallthrough } => {
            raw.push(0);
            relative(raw, taken);
            relative(raw, fallthrough);
        }
        Site::IndirectJump => raw.push(1),
        Site::DirectCall => raw.push(2),
        Site::IndirectCall => raw.push(3),
    }
}

/// Reads what [`put_site`] writes.
pub(crate) fn get_site(word: u64, cursor: &mut Cursor<'_>) -> Inside<Site> {
    Ok(match cursor.byte()? {
        0 => Site::Conditional {
            taken: Place::from_word(word.wrapping_add_signed(cursor.signed()?)),
            fallthrough: Place::from_word(word.wrapping_add_signed(cursor.signed()?)),
        },
        1 => Site::IndirectJump,
        2 => Site::DirectCall,
        3 => Site::IndirectCall,
        _ => return Err("a branch of an unknown type"),
    })
}
