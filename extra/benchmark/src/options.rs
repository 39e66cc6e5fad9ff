//! Words of the command line: those of this harness, and those that cargo and other runners of tests give.

/// Words that runners of tests give, and that change nothing here.
const IGNORED: [&str; 7] = [
    "--nocapture",
    "--no-capture",
    "--quiet",
    "-q",
    "--include-ignored",
    "--show-output",
    "--verbose",
];

/// Usage, for `--help`.
pub(crate) const HELP: &str = "\
Usage: cargo bench [--bench FILE] [-- OPTIONS] [NAME…]

Counts the instructions of benchmarks by Trommel. NAME chooses those whose name contains it.

  --baseline NAME       compare with that baseline, in place of the run before
  --save-baseline NAME  keep the counts as that baseline; a NAME with `/` is a file
  --fail-above PCT      end with exit status 3 if a benchmark has PCT percent more instructions
  --json                write trommel.benchmark/1
  --exact               NAME is a whole name
  --test                run each benchmark once, uncounted
  --list                list the benchmarks

TROMMEL names the command; the default is `trommel`.";

/// Options of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Options {
    pub(crate) filters: Vec<String>,
    pub(crate) exact: bool,
    pub(crate) help: bool,
    pub(crate) list: bool,
    /// Only benchmarks that are marked to be ignored are wanted, and there are none.
    pub(crate) ignored: bool,
    /// Cargo runs benchmarks, rather than tests.
    pub(crate) bench: bool,
    pub(crate) test: bool,
    pub(crate) json: bool,
    pub(crate) baseline: Option<String>,
    pub(crate) save: Option<String>,
    pub(crate) fail_above: Option<f64>,
    /// The benchmark that this process runs to be counted.
    pub(crate) counted: Option<String>,
}

/// Word by which a program runs itself for one benchmark.
pub(crate) const COUNTED: &str = "--counted-by-trommel";

impl Options {
    /// Reads the words after the program's name.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (&*word, None),
            };
            let mut value = || {
                let value = value.take().or_else(|| words.next());
                value.ok_or_else(|| format!("{name}: its value is missing; see --help"))
            };
            match name {
                "--help" | "-h" => options.help = true,
                "--list" => options.list = true,
                "--ignored" => options.ignored = true,
                "--bench" => options.bench = true,
                "--test" => options.test = true,
                "--exact" => options.exact = true,
                "--json" => options.json = true,
                "--baseline" => options.baseline = Some(value()?),
                "--save-baseline" => options.save = Some(value()?),
                "--fail-above" => options.fail_above = Some(percent(&value()?)?),
                COUNTED => options.counted = Some(value()?),
                "--format" | "--color" | "--test-threads" | "--skip" => drop(value()?),
                _ if IGNORED.contains(&name) => {}
                _ if word.starts_with('-') => {
                    return Err(format!("{word}: no such option; see --help"));
                }
                _ => options.filters.push(word),
            }
        }
        Ok(options)
    }

    /// Returns true if a benchmark is chosen.
    pub(crate) fn choose(&self, name: &str) -> bool {
        let matches = |filter: &String| match self.exact {
            true => filter == name,
            false => name.contains(&**filter),
        };
        !self.ignored && (self.filters.is_empty() || self.filters.iter().any(matches))
    }

    /// Returns true if counts are asked for, and not only wished for.
    pub(crate) fn needs_counts(&self) -> bool {
        self.json || self.baseline.is_some() || self.save.is_some() || self.fail_above.is_some()
    }

    /// Returns true if benchmarks run once, uncounted.
    pub(crate) fn uncounted(&self) -> bool {
        self.test || !(self.bench || self.needs_counts())
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| format!("--fail-above {text}: give percent, from 0 to 100"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_of_cargo_and_of_test_runners_are_known() {
        let cargo = parse("--bench sort").expect("cargo bench sort");
        assert!(cargo.choose("sort_all") && !cargo.choose("hash") && !cargo.uncounted());
        let one = parse("sort --exact --nocapture --format terse").expect("a runner of tests");
        assert!(one.choose("sort") && !one.choose("sort_all") && one.uncounted());
        assert!(!parse("--list --ignored").expect("a list").choose("sort"));
    }

    #[test]
    fn options_have_their_values_after_a_space_or_an_equals_sign() {
        let spaced = parse("--baseline main --fail-above 1%").expect("options");
        assert_eq!(
            spaced,
            parse("--baseline=main --fail-above=1").expect("options")
        );
        assert_eq!(spaced.fail_above, Some(1.0));
        assert!(spaced.needs_counts() && !spaced.uncounted());
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, said) in [
            ("--fail-above", "--fail-above: its value is missing"),
            ("--fail-above 200", "--fail-above 200: give percent"),
            ("--fail-above x", "--fail-above x: give percent"),
            ("--basline a", "--basline: no such option"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.starts_with(said), "{error}");
        }
    }
}
