//! Filter of the tuples in the perfect profile that a value-reuse optimiser would look at.

use std::fmt;
use std::str::FromStr;

use trommel_compress::Percent;

/// The filters of the paper. They apply to the perfect profile only; "at least" includes equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    /// Executions that a load has at least.
    pub executions: u64,
    /// Share of its load's executions that a tuple has at least.
    pub tuple: Percent,
    /// Share of a load's executions that its selected tuples have at least.
    pub load: Percent,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            executions: 1000,
            tuple: Percent(10_000_000),
            load: Percent(40_000_000),
        }
    }
}

impl Filter {
    /// Every tuple counts.
    pub const ALL: Self = Self {
        executions: 0,
        tuple: Percent(0),
        load: Percent(0),
    };
}

/// An error in a filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterError {
    /// The offending column, from 1.
    pub column: usize,
    /// The problem and its fix.
    pub message: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for FilterError {}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        let mut column = 1;
        for part in text.split(',') {
            let error = |at: usize, message: String| FilterError {
                column: column + at,
                message,
            };
            let form = "a filter is written executions=1000,tuple=10%,load=40%";
            let Some((name, value)) = part.split_once('=') else {
                return Err(error(0, format!("{part:?} has no '='; {form}")));
            };
            let value_at = name.chars().count() + 1;
            let percent = |zero: bool| match value {
                "0%" if zero => Ok(Percent(0)),
                _ => value.parse::<Percent>(),
            };
            match name {
                "executions" => {
                    filter.executions = value
                        .parse()
                        .map_err(|_| error(value_at, format!("{value:?} is no number; {form}")))?;
                }
                "tuple" | "load" => {
                    let share =
                        percent(true).map_err(|e| error(value_at + e.column - 1, e.message))?;
                    if name == "tuple" {
                        filter.tuple = share;
                    } else {
                        filter.load = share;
                    }
                }
                _ => return Err(error(0, format!("{name:?} is no filter; {form}"))),
            }
            column += part.chars().count() + 1;
        }
        Ok(filter)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            executions,
            tuple,
            load,
        } = self;
        write!(f, "executions={executions},tuple={tuple},load={load}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_round_trip() {
        for text in [
            "executions=1000,tuple=10%,load=40%",
            "executions=0,tuple=0%,load=0.5%",
        ] {
            assert_eq!(text.parse::<Filter>().unwrap().to_string(), text);
        }
        assert_eq!("load=40%".parse(), Ok(Filter::default()));
    }

    #[test]
    fn wrong_filters_name_the_column() {
        for (text, column) in [
            ("", 1),
            ("executions", 1),
            ("executions=x", 12),
            ("executions=1,tuple=10", 22),
            ("executions=1,tuple=101%", 20),
            ("executions=1,lode=10%", 14),
        ] {
            assert_eq!(text.parse::<Filter>().unwrap_err().column, column, "{text}");
        }
    }
}
