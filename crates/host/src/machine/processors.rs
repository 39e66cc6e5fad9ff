//! The processors that are online.

use std::fs;

/// The processors that are there.
pub(super) fn processors() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let all = numbers(&text);
    match all.is_empty() {
        true => vec![0],
        false => all,
    }
}

/// Parses numbers as in `0-3,6`.
fn numbers(text: &str) -> Vec<u32> {
    const MOST: u32 = 1 << 16;
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<u32>(), high.parse::<u32>()) {
            all.extend(low..=high.min(low.saturating_add(MOST)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_the_kernel_lists_them() {
        assert_eq!(numbers("0-3,6\n"), [0, 1, 2, 3, 6]);
        assert_eq!(numbers("0\n"), [0]);
        assert!(numbers("").is_empty() && numbers("x,3-1,-").is_empty());
    }
}
