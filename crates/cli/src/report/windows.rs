//! Basis of a profile that is made of windows: the budget, the cost, and what was seen.

use std::io::{self, Write};

use trommel_profile::windows::Windows;

use crate::json::Json;
use crate::output::{duration, grouped};

/// The lines of a report's header, each with what it is about.
pub(crate) fn lines(windows: &Windows) -> Vec<(&'static str, String)> {
    let wanted = match windows.budget > 0.0 {
        true => format!("{} % of the CPU time", windows.budget),
        false => "none: rate and length were given".to_owned(),
    };
    let taken = format!(
        "{}, {} of them counted, {} instructions; {} whole, {} cut by a system call, {} by a signal, {} by what cannot be controlled; {} did not begin",
        grouped(windows.taken),
        grouped(windows.counted),
        grouped(windows.instructions),
        grouped(windows.whole),
        grouped(windows.calls),
        grouped(windows.signals),
        grouped(windows.refused),
        grouped(windows.skipped),
    );
    let last = format!(
        "{:.0} a second of CPU time, {} instructions each; {}",
        windows.rate, windows.length, windows.pacing
    );
    let coverage = format!("{:.4} % of the program's CPU time", windows.coverage());
    if windows.are_bursts() {
        return of_bursts(windows, wanted, coverage);
    }
    let mut lines = vec![
        ("budget", wanted),
        ("paid", paid(windows)),
        ("windows", taken),
        ("in the end", last),
        ("coverage", coverage),
    ];
    if let Some(callers) = &windows.callers {
        let kept = grouped(callers.lists.len() as u64);
        let told = match callers.dropped {
            0 => format!("{kept} lists of values"),
            n => format!(
                "{kept} lists of values; {} samples of callers that were seen less were given up",
                grouped(n)
            ),
        };
        lines.push(("callers", told));
    }
    lines
}

/// Words for what was paid of the program's CPU time.
fn paid(windows: &Windows) -> String {
    let of_program = match windows.are_bursts() {
        true => format!("{} in bursts", duration(windows.in_windows)),
        false => format!(
            "{} in windows, {} for signals",
            duration(windows.in_windows),
            duration(windows.in_kernel)
        ),
    };
    let (cpu, host) = (duration(windows.cpu), duration(windows.host));
    match windows.tells_cost() {
        true => format!(
            "{:.2} % of {cpu} of CPU time: {:.2} % by the program ({of_program}), {:.2} % by trommel ({host})",
            windows.cost(),
            windows.cost_of_target(),
            windows.cost_of_host(),
        ),
        false => format!(
            "not known in percent, as {cpu} of CPU time are too little to tell: {of_program}, {host} by trommel"
        ),
    }
}

/// Lines about bursts.
fn of_bursts(windows: &Windows, wanted: String, coverage: String) -> Vec<(&'static str, String)> {
    /// Nanoseconds of CPU time in which what is spent in advance is earned.
    const SHORT: u64 = 5_000_000_000;
    let mut paid = paid(windows);
    if windows.tells_cost() && windows.cpu < SHORT && windows.cost() > windows.budget {
        paid += "; a short run may pay more, as its first burst is not earned yet";
    }
    let taken = match windows.taken {
        0 => windows.pacing.clone(),
        taken => format!("{}, {}", grouped(taken), windows.pacing),
    };
    vec![
        ("budget", wanted),
        ("paid", paid),
        ("bursts", taken),
        ("coverage", coverage),
    ]
}

/// The same before a table.
pub(crate) fn heading(out: &mut impl Write, windows: &Windows) -> io::Result<()> {
    let mut lines = lines(windows).into_iter();
    lines.try_for_each(|(name, text)| writeln!(out, "# {name:<11} {text}"))
}

/// The member `windows` of a report.
pub(super) fn json<W: Write>(json: &mut Json<W>, windows: &Windows) -> io::Result<()> {
    json.member_object("windows")?;
    json.real("budget_percent", windows.budget)?;
    json.real("paid_percent", windows.cost())?;
    json.real("paid_target_percent", windows.cost_of_target())?;
    json.real("paid_host_percent", windows.cost_of_host())?;
    json.boolean("paid_tells", windows.tells_cost())?;
    json.real("coverage_percent", windows.coverage())?;
    for (name, number) in [
        ("taken", windows.taken),
        ("counted", windows.counted),
        ("whole", windows.whole),
        ("cut_by_calls", windows.calls),
        ("cut_by_signals", windows.signals),
        ("refused", windows.refused),
        ("skipped", windows.skipped),
        ("instructions", windows.instructions),
        ("cpu_ns", windows.cpu),
        ("wall_ns", windows.wall),
        ("in_windows_ns", windows.in_windows),
        ("in_kernel_ns", windows.in_kernel),
        ("host_ns", windows.host),
        ("covered_ns", windows.covered),
        ("length", windows.length.into()),
    ] {
        json.number(name, number)?;
    }
    json.real("rate", windows.rate)?;
    json.text("pacing", &windows.pacing)?;
    if let Some(callers) = &windows.callers {
        json.number("caller_samples_dropped", callers.dropped)?;
    }
    json.end_object()
}
