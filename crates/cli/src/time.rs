//! Moments, as people write them: in UTC, or as how long ago.

use std::time::{Duration, SystemTime};

const DAY: u64 = 86_400;

/// A length of time, such as `90`, `1.5s`, `5m`, `2h`, `7d`; seconds where no unit is given.
pub(crate) fn parse_length(text: &str) -> Option<Duration> {
    let units = [
        ("ms", 0.001),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", DAY as f64),
    ];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (number, seconds) = match unit {
        Some((unit, seconds)) => (&text[..text.len() - unit.len()], *seconds),
        None => (text, 1.0),
    };
    let number: f64 = number.parse().ok().filter(|n| *n >= 0.0)?;
    Duration::try_from_secs_f64(number * seconds).ok()
}

/// Milliseconds since 1970 of `2026-11-22`, `2026-11-22T18:05`, `2026-11-22T18:05:30` (all UTC, with a `Z` or
/// without, and with a space for the T), or of a length of time ago.
pub(crate) fn parse_moment(text: &str) -> Option<u64> {
    if let Some(length) = parse_length(text) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = since.unwrap_or_default();
        return Some(now.saturating_sub(length).as_millis() as u64);
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, sign| -> Option<Vec<u64>> {
        let part = |p: &str| {
            p.bytes()
                .all(|c| c.is_ascii_digit())
                .then(|| p.parse().ok())?
        };
        text.split(sign).map(part).collect()
    };
    let [year, month, day] = numbers(date, '-')?.try_into().ok()?;
    let time = numbers(time, ':')?;
    let (hour, minute, second) = match time[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let fits = (1970..=9999).contains(&year) && (1..=12).contains(&month) && hour < 24;
    if !fits || minute > 59 || second > 59 || day == 0 || day > days_of(year, month) {
        return None;
    }
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    let days = days_before(year) + months + day - 1;
    Some((days * DAY + hour * 3600 + minute * 60 + second) * 1000)
}

/// Milliseconds since 1970 as a moment in UTC, to the second.
pub(crate) fn shown(millis: u64) -> String {
    let seconds = millis / 1000;
    let (mut days, rest) = (seconds / DAY, seconds % DAY);
    let mut year = 1970 + days / 366;
    while days_before(year + 1) <= days {
        year += 1;
    }
    days -= days_before(year);
    let mut month = 1;
    while days >= days_of(year, month) {
        days -= days_of(year, month);
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z",
        days + 1
    )
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + is_leap(year) as u64,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to the beginning of a year.
const fn days_before(year: u64) -> u64 {
    const fn leaps(year: u64) -> u64 {
        let before = year - 1;
        before / 4 - before / 100 + before / 400
    }
    (year - 1970) * 365 + leaps(year) - leaps(1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_date() {
        // From `date -u -d … +%s`.
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29T12:00", 951_825_600),
            ("2026-11-22T18:21:46Z", 1_795_371_706),
            ("2100-03-01 00:00:01", 4_107_542_401),
        ] {
            assert_eq!(parse_moment(text), Some(seconds * 1000), "{text}");
            assert_eq!(parse_moment(&shown(seconds * 1000)), Some(seconds * 1000));
        }
        assert_eq!(shown(951_825_600_999), "2000-02-29T12:00:00Z");
        for wrong in [
            "2026-13-01",
            "2026-02-29",
            "2026-11-22T24:00",
            "now",
            "",
            "-1",
            "2026-+1-02",
        ] {
            assert_eq!(parse_moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_day_round_trips() {
        for day in 0..60_000 {
            let millis = day * DAY * 1000;
            assert_eq!(parse_moment(&shown(millis)), Some(millis), "{day}");
        }
    }

    #[test]
    fn lengths_have_units() {
        for (text, millis) in [
            ("90", 90_000),
            ("1.5s", 1500),
            ("250ms", 250),
            ("5m", 300_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(
                parse_length(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        assert_eq!(parse_length("-1s"), None);
        assert_eq!(parse_length("1y"), None);
        let ago = parse_moment("1h").expect("a moment");
        let now = parse_moment("0s").expect("a moment");
        assert!((3_590_000..3_610_000).contains(&(now - ago)));
    }
}
