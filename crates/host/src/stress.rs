//! Stress options: what tests set to make rare things common.
//!
//! The text is a list of `name=number` or `name`, separated by commas. See `docs/testing.md`.

use trommel_queue::options;

const NAMES: [&str; 12] = [
    "insns",
    "far",
    "guard",
    "pages",
    "delay",
    "evict",
    "leave",
    "fail-dispatch",
    "fail-translate",
    "fail-syscall",
    "fail-deliver",
    "fail-random",
];

/// The options of a text, as the runtime reads them.
///
/// # Errors
/// The name or number that is wrong.
pub fn parse(text: &str) -> Result<u64, String> {
    let mut bits = 0;
    for item in text.split(',').filter(|i| !i.is_empty()) {
        let (name, value) = item.split_once('=').unwrap_or((item, "1"));
        let number: u64 = value
            .parse()
            .map_err(|_| format!("`{value}` is not a number"))?;
        let (mask, shift, fixed) = match name {
            "insns" if number == 0 => return Err(format!("`{item}` is out of range")),
            "insns" => (options::INSNS_MASK, 0, 0),
            "far" => (1, options::FAR.trailing_zeros(), 0),
            "guard" => (1, options::GUARD.trailing_zeros(), 0),
            "pages" => (0xffff, options::CACHE_SHIFT, 0),
            "delay" => (0xff, options::DELAY_SHIFT, 0),
            "evict" => (0xfff, options::EVICT_SHIFT, 0),
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
        bits |= number << shift | fixed;
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_or_refused() {
        assert_eq!(parse(""), Ok(0));
        assert_eq!(parse("insns=1,far"), Ok(1 | options::FAR));
        assert_eq!(parse("pages=4"), Ok(4 << options::CACHE_SHIFT));
        assert_eq!(parse("guard"), Ok(options::GUARD));
        assert_eq!(
            parse("evict=7,leave=9,delay=3"),
            Ok(7 << options::EVICT_SHIFT | 9 << options::END_SHIFT | 3 << options::DELAY_SHIFT)
        );
        assert_eq!(
            parse("fail-translate=4095"),
            Ok(0xfff << options::END_SHIFT | options::END_TRANSLATE)
        );
        for wrong in [
            "insns=0",
            "insns=256",
            "far=2",
            "x",
            "pages=x",
            "leave=4096",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
