//! Stress options: what tests set to make rare things common.
//!
//! The text is a list of `name=number` or `name`, separated by commas. See `docs/testing.md`.

use trommel_queue::options;

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
        bits |= match name {
            "insns" if (1..=options::INSNS_MASK).contains(&number) => number,
            "far" if number <= 1 => number * options::FAR,
            "guard" if number <= 1 => number * options::GUARD,
            "pages" if number <= 0xffff => number << options::CACHE_SHIFT,
            "insns" | "far" | "guard" | "pages" => return Err(format!("`{item}` is out of range")),
            _ => return Err(format!("`{name}` is none of insns, far, guard, pages")),
        };
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
        for wrong in ["insns=0", "insns=256", "far=2", "x", "pages=x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
