//! Filters: programs of the system that call small functions of shared libraries for each character or line, as they are installed.

/// Programs, their options, and how often they are given the text of 24 MB for some seconds of work.
pub(super) const FILTERS: [(&str, &[&str], usize); 14] = [
    ("rev", &[], 8),
    ("wc", &["-m"], 30),
    ("wc", &["-w"], 30),
    ("wc", &["-L"], 30),
    ("cut", &["-c", "3-20"], 60),
    ("expand", &[], 60),
    ("fold", &["-w", "60"], 50),
    ("strings", &[], 25),
    ("unexpand", &["-a"], 20),
    ("fmt", &[], 12),
    ("nl", &[], 50),
    ("pr", &[], 16),
    ("od", &["-c"], 2),
    ("sed", &["y/abc/xyz/"], 6),
];
