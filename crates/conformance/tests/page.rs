//! `report --html` in a browser without a window.
//!
//! A copy of the page gets two scripts: one before all others that collects errors, and one at the end that types, clicks and writes down
//! what is there then. The browser prints the document afterwards. Call paths are made up, so their sums are known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, output, trommel, which};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::recorded::{self, Recorded};
use trommel_conformance::settled;
use trommel_profile::call_tree::{Basis, Frame, Weight};
use trommel_profile::{Module, Profile};
use trommel_symbol::{Files, Symbols};
use trommel_tuple::{ModuleId, Place, Vaddr};

/// A test; an error says what differs.
type Test = fn() -> Result<(), String>;

const ALL: &[(&str, Test)] = &[
    ("page: functions, search, sorting, zoom and code", looked_at),
    (
        "page: record writes it, and says so where there are no call paths",
        of_record,
    ),
    ("page: hostile names are text", hostile),
    ("page: a hundred thousand nodes are small and fast", large),
    ("page: refusals are one line", refusals),
];

fn main() {
    settled::settle();
    let args = Arguments::from_args();
    let trial = |&(name, test): &(&str, Test)| Trial::test(name, move || Ok(test()?));
    libtest_mimic::run(&args, ALL.iter().map(trial).collect()).exit();
}

/// The browser; says so if there is none.
fn browser(test: &str) -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find_map(which);
    if found.is_none() {
        not_tested(format!("page {test}: chromium is not installed"));
    }
    found
}

fn error(error: impl ToString) -> String {
    error.to_string()
}

/// Looks at a page by a script, which leaves what it finds in `found`; that, as JSON.
fn look(browser: &Path, scratch: &Scratch, page: &Path, script: &str) -> Result<Value, String> {
    const ERRORS: &str = "<script>window.errors = []; \
        addEventListener('error', (e) => errors.push(e.message)); \
        addEventListener('securitypolicyviolation', (e) => errors.push('policy: ' + e.blockedURI));</script>";
    let text = fs::read_to_string(page).map_err(error)?;
    let ended = format!(
        "<script>{{ let found; try {{ {script} }} catch (e) {{ errors.push(String(e)); }} \
         const out = document.createElement('pre'); out.id = 'test-result'; \
         out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify({{ errors, found }})))); \
         document.body.append(out); }}</script></body>"
    );
    let text = text.replacen("<head>", &format!("<head>{ERRORS}"), 1);
    let text = text.replacen("</body>", &ended, 1);
    let copy = scratch.path("looked-at.html");
    fs::write(&copy, text).map_err(error)?;
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--window-size=1200,900", "--virtual-time-budget=4000"])
        .arg(format!(
            "--user-data-dir={}",
            scratch.path("browser").display()
        ))
        .arg(format!("file://{}", copy.display()));
    let printed = output(&mut command)?;
    let result = printed.split("id=\"test-result\">").nth(1);
    let result = result.and_then(|rest| rest.split('<').next());
    let result = result.ok_or_else(|| format!("no result:\n{printed:.2000}"))?;
    let json = decoded(result).ok_or("no base64")?;
    let value: Value = serde_json::from_str(&json).map_err(error)?;
    match value["errors"].as_array().is_some_and(Vec::is_empty) {
        true => Ok(value["found"].clone()),
        false => Err(format!("errors in the page: {}", value["errors"])),
    }
}

/// Text of base64.
fn decoded(text: &str) -> Option<String> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for digit in text.bytes().filter(|b| *b != b'=') {
        bits = bits << 6 | DIGITS.iter().position(|d| *d == digit)? as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    String::from_utf8(bytes).ok()
}

fn expect(found: &Value, wanted: &Value) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("found {found:#}\nnot {wanted:#}")),
    }
}

/// Writes a page of a profile.
fn page(scratch: &Scratch, data: &Path) -> Result<PathBuf, String> {
    let page = scratch.path("page.html");
    let mut report = Command::new(trommel());
    output(report.args(["report", "--html"]).arg(&page).arg(data))?;
    Ok(page)
}

fn record(scratch: Scratch, options: &[&str]) -> Result<Recorded, String> {
    let program = recorded::compiled(&scratch, "gcc", &["-O2", "-g"])?;
    Recorded::of(scratch, program, options)
}

/// Adds call paths to a recorded profile: main → work → mix 60, kind 30 and itself 10.
fn add_paths(data: &Path) -> Result<(), String> {
    let mut profiles = trommel_store::read(data).map_err(error)?;
    let profile = profiles.first_mut().ok_or("no process")?;
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules);
    let app = profile.modules.iter().find(|m| m.path.ends_with(b"/app"));
    let app = app.ok_or("no app")?.id;
    for (names, own) in [
        (&["main", "work", "mix"][..], 60),
        (&["main", "work", "kind"], 30),
        (&["main", "work"], 10),
    ] {
        let mut frames = Vec::new();
        for name in names {
            let ranges = symbols.ranges_of(app, name);
            let start = ranges.first().ok_or_else(|| format!("no {name}"))?.start;
            let at = Place::new(app, Vaddr(start));
            frames.push(Frame { at, call: None });
        }
        let weight = Weight { times: 3, own };
        profile
            .call_tree_mut(Basis::Contexts)
            .add_stack(frames, weight);
    }
    trommel_store::write(data, &profiles).map_err(error)?;
    Ok(())
}

fn looked_at() -> Result<(), String> {
    let Some(browser) = browser("functions, search, sorting, zoom and code") else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(error)?;
    let Recorded { scratch, data, .. } =
        record(scratch, &["-e", "edge,call,value", "--exact-values"])?;
    add_paths(&data)?;
    let page = page(&scratch, &data)?;
    let script = "
        const all = (selector) => [...document.querySelectorAll(selector)];
        const names = () => all('#functions tbody td.name').map((td) => td.textContent);
        const boxes = () => all('#graph .box').map((box) => box.textContent);
        const box = (name) => all('#graph .box').find((box) => box.textContent === name);
        const width = (name) => Math.round(100 * box(name).offsetWidth / document.getElementById('graph').clientWidth);
        const click = (element) => element.dispatchEvent(new MouseEvent('click', { bubbles: true }));
        found = { hottest: names()[0], inclusive: all('#functions tbody tr td.inclusive')[0].textContent };
        found.boxes = boxes();
        found.widths = ['main', 'work', 'mix', 'kind'].map(width);
        click(box('mix'));
        found.zoomed = [width('mix'), document.getElementById('trail').textContent];
        document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
        found.out = width('mix');
        click(document.querySelector('[data-view=callers]'));
        found.callers = boxes().slice(0, 4).sort();
        click(box('kind'));
        found.up = width('work');
        click(document.querySelector('[data-view=flame]'));
        found.flame = box('main').offsetTop > box('mix').offsetTop;
        click(all('#functions th').find((th) => th.textContent === 'function'));
        found.sorted = JSON.stringify(names()) === JSON.stringify([...names()].sort());
        const search = document.getElementById('search');
        search.value = 'KIND';
        search.dispatchEvent(new Event('input', { bubbles: true }));
        found.found = names();
        found.matched = document.getElementById('matched').textContent.replace(/.*; /, '');
        found.marked = all('#graph .box.matched').map((box) => box.textContent);
        found.code = all('#code-list summary').length > 2;
        found.bias = all('#code-list .bias').length > 0;
        found.source = all('#code-list tr.source').some((tr) => tr.textContent.includes('export_calls.c:'));
        found.hot = all('#code-list tr.hot').length > 0;
        found.run = document.getElementById('run').textContent.includes('every event is counted');";
    let found = look(&browser, &scratch, &page, script)?;
    let wanted = serde_json::json!({
        "hottest": "mix", "inclusive": "60.00%",
        "boxes": ["all", "main", "work", "mix", "kind"],
        "widths": [100, 100, 60, 30],
        "zoomed": [100, "all › main › work › mix"], "out": 60,
        "callers": ["all", "kind", "mix", "work"], "up": 100, "flame": true,
        "sorted": true, "found": ["kind"],
        "matched": "30.00% on paths with one", "marked": ["kind"],
        "code": true, "bias": true, "source": true, "hot": true, "run": true,
    });
    expect(&found, &wanted)
}

fn of_record() -> Result<(), String> {
    let Some(browser) = browser("of record") else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(error)?;
    let page = scratch.path("recorded.html");
    let Recorded { scratch, .. } = record(scratch, &["--html", &page.to_string_lossy()])?;
    let script = "
        found = [document.getElementById('paths-there').hidden, document.getElementById('paths-none').textContent.includes('record -e context'),
                 document.querySelector('#functions tbody td.name').textContent];";
    let found = look(&browser, &scratch, &page, script)?;
    expect(&found, &serde_json::json!([true, true, "mix"]))
}

/// A profile of modules with these names, a stack of all of them, and a tree of `nodes` more below it.
fn made_up(scratch: &Scratch, names: &[&str], nodes: u64) -> Result<PathBuf, String> {
    let mut profile = Profile {
        command: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
        ..Profile::default()
    };
    for (number, name) in names.iter().enumerate() {
        profile.modules.push(Module {
            id: ModuleId(number as u16),
            path: name.as_bytes().to_vec(),
            ..Module::default()
        });
    }
    let frame = |number: u64| Frame {
        at: Place::new(
            ModuleId((number % names.len() as u64) as u16),
            Vaddr(number),
        ),
        call: None,
    };
    let tree = profile.call_tree_mut(Basis::Stacks);
    let weight = Weight {
        times: 1,
        own: 1000,
    };
    tree.add_stack((0..names.len() as u64).map(frame), weight);
    // Thin and deep, as real ones are: each number's digits are a path.
    for n in 0..nodes {
        let digits = (0..6).map(|digit| frame(n / 7_u64.pow(digit) % 7 + u64::from(digit)));
        tree.add_stack(digits, Weight { times: 1, own: n });
    }
    let data = scratch.path("made-up.data");
    trommel_store::write(&data, &[profile]).map_err(error)?;
    Ok(data)
}

fn hostile() -> Result<(), String> {
    let Some(browser) = browser("hostile names") else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(error)?;
    let names = [
        "[</script><script>window.bad = 1</script>]",
        "[<img src=x onerror='window.bad = 1'>]",
        "[<!-- <script> \u{2028} \\ \" ' & &lt; ]",
        "[]]>]",
    ];
    let data = made_up(&scratch, &names, 0)?;
    let page = page(&scratch, &data)?;
    let script = "
        const texts = [...document.querySelectorAll('#functions tbody td.name')].map((td) => td.textContent);
        document.querySelector('#graph .box').dispatchEvent(new MouseEvent('mousemove', { bubbles: true }));
        found = { bad: window.bad === undefined, texts: texts.sort(), images: document.images.length,
                  command: document.getElementById('command').textContent.includes('\\x3c/script>') };";
    let found = look(&browser, &scratch, &page, script)?;
    // A path's last part is a module's name.
    let base = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let mut texts: Vec<String> = names.iter().map(|name| shown(&base(name))).collect();
    texts.sort();
    let wanted = serde_json::json!({ "bad": true, "texts": texts, "images": 0, "command": true });
    expect(&found, &wanted)
}

/// The name that a page shows of a module: what is in brackets as it is, else in brackets.
fn shown(base: &str) -> String {
    match base.starts_with('[') {
        true => base.to_owned(),
        false => format!("[{base}]"),
    }
}

fn large() -> Result<(), String> {
    let scratch = Scratch::new().map_err(error)?;
    let names: Vec<String> = (0..60).map(|n| format!("[module number {n}]")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let data = made_up(&scratch, &names, 7_u64.pow(6))?;
    let page = page(&scratch, &data)?;
    let size = fs::metadata(&page).map_err(error)?.len();
    if size > 10 << 20 {
        return Err(format!("the page has {size} bytes"));
    }
    let Some(browser) = browser("a hundred thousand nodes") else {
        return Ok(());
    };
    let script = "
        const began = performance.now();
        for (const view of ['callers', 'flame', 'icicle'])
            document.querySelector('[data-view=' + view + ']').dispatchEvent(new MouseEvent('click', { bubbles: true }));
        const boxes = document.querySelectorAll('#graph .box').length;
        found = { boxes: boxes > 100 && boxes <= 6000, fast: performance.now() - began < 5000 };";
    let found = look(&browser, &scratch, &page, script)?;
    expect(&found, &serde_json::json!({ "boxes": true, "fast": true }))
}

fn refusals() -> Result<(), String> {
    let scratch = Scratch::new().map_err(error)?;
    let data = made_up(&scratch, &["[app]"], 0)?;
    let absent = scratch.path("absent/page.html");
    for (to, wanted) in [
        ("-", "needs the name of a file"),
        (&*absent.to_string_lossy(), "absent"),
    ] {
        let mut report = Command::new(trommel());
        let done = report
            .args(["report", "--html", to])
            .arg(&data)
            .output()
            .map_err(error)?;
        let printed = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() || printed.lines().count() != 1 || !printed.contains(wanted) {
            return Err(format!("{to}: {printed}"));
        }
    }
    Ok(())
}
