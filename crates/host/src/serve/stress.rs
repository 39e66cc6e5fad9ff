//! Stress options: what tests set to make rare things common.
//!
//! The text is a list of `name=number` or `name`, separated by commas. See `docs/testing.md`.

use trommel_queue::{MAX_WINDOW, options};

const NAMES: [&str; 31] = [
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
    "bursts",
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
    "fail-start",
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
    /// Microseconds of a burst of control and between two, in the mean, each drawn at random; 0: as the budget says.
    pub bursts: u32,
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
    let mut stress = Stress::default();
    for item in text.split(',').filter(|i| !i.is_empty()) {
        let (name, value) = item.split_once('=').unwrap_or((item, "1"));
        let number: u64 = value
            .parse()
            .map_err(|_| format!("`{value}` is not a number"))?;
        let in_range = match stress.switch(name) {
            Some(switch) => {
                *switch = number != 0;
                true
            }
            None => match name {
                "window" => set(&mut stress.window, number, |n| {
                    (1..=MAX_WINDOW).contains(&n)
                }),
                "ring" => set(&mut stress.ring, number, |n| {
                    (1..=MOST_PAGES).contains(&n) && n.is_power_of_two()
                }),
                "bursts" => set(&mut stress.bursts, number, |n| (1..=1_000_000).contains(&n)),
                "pace" => set(&mut stress.pace, number, |_| true),
                _ => {
                    let field = Field::of(name)
                        .ok_or_else(|| format!("`{name}` is none of {}", NAMES.join(", ")))?;
                    field.put(&mut stress.options, number)
                }
            },
        };
        if !in_range {
            return Err(format!("`{item}` is out of range"));
        }
    }
    Ok(stress)
}

/// Pages of a ring of samples at most.
const MOST_PAGES: u32 = 1 << 16;

/// Sets a number that is in range. Returns false if it is not.
fn set(to: &mut u32, number: u64, in_range: impl Fn(u32) -> bool) -> bool {
    let number = u32::try_from(number).ok().filter(|n| in_range(*n));
    number.map(|number| *to = number).is_some()
}

impl Stress {
    /// Returns the switch that an option sets.
    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "events" => Some(&mut self.events),
            "rates" => Some(&mut self.rates),
            "prefetch" => Some(&mut self.prefetch),
            "retake" => Some(&mut self.retake),
            _ => self.without.of(name),
        }
    }
}

/// A field of the word that the runtime reads.
struct Field {
    /// The least and the greatest number.
    range: std::ops::RangeInclusive<u64>,
    /// The field's first bit.
    shift: u32,
    /// Bits that name the option, of those that share a field.
    named: u64,
}

impl Field {
    /// Returns the field that an option sets.
    fn of(name: &str) -> Option<Self> {
        let field = |most, shift, named| Self {
            range: 0..=most,
            shift,
            named,
        };
        let flag = |bit: u64| field(1, bit.trailing_zeros(), 0);
        let evict = |named| field(0xfff, options::EVICT_SHIFT, named);
        let end = |named| field(0xfff, options::END_SHIFT, named);
        Some(match name {
            "insns" => Self {
                range: 1..=options::INSNS_MASK,
                shift: 0,
                named: 0,
            },
            "far" => flag(options::FAR),
            "guard" => flag(options::GUARD),
            "trace" => flag(options::TRACE),
            "counters" => flag(options::COUNTERS),
            "breakpoints" => flag(options::BREAKPOINTS),
            "arena" => field(0xf, options::ARENA_SHIFT, 0),
            "pages" => field(0xfff, options::CACHE_SHIFT, 0),
            "delay" => field(0x7f, options::DELAY_SHIFT, 0),
            "evict" => evict(0),
            "flush" => evict(options::FLUSH),
            "turn" => evict(options::TURN),
            "leave" => end(options::END_LEAVE),
            "fail-dispatch" => end(options::END_DISPATCH),
            "fail-translate" => end(options::END_TRANSLATE),
            "fail-syscall" => end(options::END_SYSCALL),
            "fail-deliver" => end(options::END_DELIVER),
            "fail-random" => end(options::END_RANDOM),
            "fail-start" => end(options::END_START),
            _ => return None,
        })
    }

    /// Puts a number in. Returns false if it is out of range.
    fn put(&self, word: &mut u64, number: u64) -> bool {
        if !self.range.contains(&number) {
            return false;
        }
        // Of those that share a field the last one counts.
        let shared = match self.shift {
            options::EVICT_SHIFT => options::FLUSH | options::TURN,
            options::END_SHIFT => options::END_MASK,
            _ => 0,
        };
        let mask = self.range.end() << self.shift;
        *word = *word & !(mask | shared) | number << self.shift | self.named;
        true
    }
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
