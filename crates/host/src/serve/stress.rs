//! Stress options: what tests set to make rare things common.
//!
//! The text is a list of `name=number` or `name`, separated by commas. See `docs/testing.md`.

use trommel_queue::{MAX_WINDOW, options};

const NAMES: [&str; 29] = [
    "no-traces",
    "no-opt",
    "no-link",
    "no-returns",
    "events",
    "rates",
    "prefetch",
    "retake",
    "ring",
    "window",
    "pace",
    "insns",
    "far",
    "guard",
    "trace",
    "counters",
    "breakpoints",
    "pages",
    "arena",
    "delay",
    "evict",
    "flush",
    "turn",
    "leave",
    "fail-dispatch",
    "fail-translate",
    "fail-syscall",
    "fail-deliver",
    "fail-random",
];

/// Stress options that a text asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stress {
    /// Options as the runtime reads them.
    pub options: u64,
    /// Instructions that control lasts for at a time; 0: for good.
    pub window: u32,
    /// Microseconds of a thread's user time from one window to the next; 0: as many as usual.
    pub pace: u32,
    /// All events are recorded, also where it is enough to count paths.
    pub events: bool,
    /// Rates of `every auto` are rehearsed (`trommel_query::throttle::Rehearsal`).
    pub rates: bool,
    /// Prefetches of no use are put everywhere.
    pub prefetch: bool,
    /// Reattaches each detached process soon, whatever it does.
    pub retake: bool,
    /// The means of the engine that `trommel run` goes without.
    pub without: Without,
    /// Pages of a processor's ring of samples; 0: as many as usual.
    pub ring: u32,
}

/// Means of the engine that `trommel run` can go without, to measure what each gains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Without {
    /// No traces are made.
    pub traces: bool,
    /// Traces are laid out, and not optimised.
    pub optimiser: bool,
    /// Exits are not linked: each goes through the dispatcher.
    pub links: bool,
    /// Returns are not predicted: traces end there.
    pub returns: bool,
}

impl Without {
    /// Returns the switch that an option sets.
    fn of(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "no-traces" => Some(&mut self.traces),
            "no-opt" => Some(&mut self.optimiser),
            "no-link" => Some(&mut self.links),
            "no-returns" => Some(&mut self.returns),
            _ => None,
        }
    }
}

/// The options of a text.
///
/// # Errors
/// The name or number that is wrong.
pub fn parse(text: &str) -> Result<Stress, String> {
    let mut bits = 0;
    let mut window = 0;
    let mut pace = 0;
    let mut events = false;
    let mut rates = false;
    let mut prefetch = false;
    let mut retake = false;
    let mut ring = 0;
    let mut without = Without::default();
    for item in text.split(',').filter(|i| !i.is_empty()) {
        let (name, value) = item.split_once('=').unwrap_or((item, "1"));
        let number: u64 = value
            .parse()
            .map_err(|_| format!("`{value}` is not a number"))?;
        if name == "window" {
            let length = u32::try_from(number).ok();
            window = length
                .filter(|length| (1..=MAX_WINDOW).contains(length))
                .ok_or_else(|| format!("`{item}` is out of range"))?;
            continue;
        }
        if name == "events" {
            events = number != 0;
            continue;
        }
        if name == "rates" {
            rates = number != 0;
            continue;
        }
        if name == "prefetch" {
            prefetch = number != 0;
            continue;
        }
        if name == "retake" {
            retake = number != 0;
            continue;
        }
        if let Some(off) = without.of(name) {
            *off = number != 0;
            continue;
        }
        if name == "ring" {
            const MOST: u32 = 1 << 16;
            let pages = u32::try_from(number).ok();
            ring = pages
                .filter(|pages| (1..=MOST).contains(pages) && pages.is_power_of_two())
                .ok_or_else(|| format!("`{item}` is out of range"))?;
            continue;
        }
        if name == "pace" {
            pace = u32::try_from(number).map_err(|_| format!("`{item}` is out of range"))?;
            continue;
        }
        let (mask, shift, fixed) = match name {
            "insns" if number == 0 => return Err(format!("`{item}` is out of range")),
            "insns" => (options::INSNS_MASK, 0, 0),
            "far" => (1, options::FAR.trailing_zeros(), 0),
            "guard" => (1, options::GUARD.trailing_zeros(), 0),
            "trace" => (1, options::TRACE.trailing_zeros(), 0),
            "counters" => (1, options::COUNTERS.trailing_zeros(), 0),
            "breakpoints" => (1, options::BREAKPOINTS.trailing_zeros(), 0),
            "arena" => (0xf, options::ARENA_SHIFT, 0),
            "pages" => (0xfff, options::CACHE_SHIFT, 0),
            "delay" => (0x7f, options::DELAY_SHIFT, 0),
            "evict" => (0xfff, options::EVICT_SHIFT, 0),
            "flush" => (0xfff, options::EVICT_SHIFT, options::FLUSH),
            "turn" => (0xfff, options::EVICT_SHIFT, options::TURN),
            "leave" => (0xfff, options::END_SHIFT, options::END_LEAVE),
            "fail-dispatch" => (0xfff, options::END_SHIFT, options::END_DISPATCH),
            "fail-translate" => (0xfff, options::END_SHIFT, options::END_TRANSLATE),
            "fail-syscall" => (0xfff, options::END_SHIFT, options::END_SYSCALL),
            "fail-deliver" => (0xfff, options::END_SHIFT, options::END_DELIVER),
            "fail-random" => (0xfff, options::END_SHIFT, options::END_RANDOM),
            _ => return Err(format!("`{name}` is none of {}", NAMES.join(", "))),
        };
        if number > mask {
            return Err(format!("`{item}` is out of range"));
        }
        // Of those that share a field the last one counts.
        let kind = match shift {
            options::EVICT_SHIFT => options::FLUSH | options::TURN,
            options::END_SHIFT => options::END_MASK,
            _ => 0,
        };
        bits = bits & !(mask << shift | kind) | number << shift | fixed;
    }
    Ok(Stress {
        options: bits,
        window,
        pace,
        events,
        rates,
        prefetch,
        retake,
        ring,
        without,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_or_refused() {
        let options = |text| parse(text).map(|stress| stress.options);
        assert_eq!(parse(""), Ok(Stress::default()));
        assert_eq!(options("insns=1,far"), Ok(1 | options::FAR));
        assert_eq!(options("pages=4"), Ok(4 << options::CACHE_SHIFT));
        assert_eq!(options("arena=3"), Ok(3 << options::ARENA_SHIFT));
        assert_eq!(options("guard"), Ok(options::GUARD));
        assert_eq!(options("trace=1"), Ok(options::TRACE));
        assert_eq!(
            options("trace,flush=1000"),
            Ok(options::TRACE | options::FLUSH | 1000 << options::EVICT_SHIFT)
        );
        assert_eq!(options("flush=1000,evict=7"), options("evict=7"));
        assert_eq!(
            options("fail-translate=4095,leave=9"),
            Ok(9 << options::END_SHIFT | options::END_LEAVE)
        );
        assert_eq!(options("breakpoints"), Ok(options::BREAKPOINTS));
        assert_eq!(
            options("evict=7,leave=9,delay=3"),
            Ok(7 << options::EVICT_SHIFT | 9 << options::END_SHIFT | 3 << options::DELAY_SHIFT)
        );
        assert_eq!(
            options("fail-translate=4095"),
            Ok(0xfff << options::END_SHIFT | options::END_TRANSLATE)
        );
        assert_eq!(
            parse("guard,window=4096"),
            Ok(Stress {
                options: options::GUARD,
                window: 4096,
                ..Stress::default()
            })
        );
        assert_eq!(parse("insns=2,events").map(|s| s.events), Ok(true));
        let without = parse("no-opt,no-link").map(|s| s.without);
        let both = Without {
            optimiser: true,
            links: true,
            ..Without::default()
        };
        assert_eq!(without, Ok(both));
        assert_eq!(parse("ring=4").map(|s| s.ring), Ok(4));
        assert_eq!(parse("prefetch,far").map(|s| s.prefetch), Ok(true));
        assert_eq!(parse("retake,leave=3").map(|s| s.retake), Ok(true));
        for wrong in [
            "insns=0",
            "insns=128",
            "far=2",
            "x",
            "pages=x",
            "leave=4096",
            "window=0",
            "window=60001",
            "ring=0",
            "ring=3",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
