use std::process::{Command, Stdio};
use std::time::Instant;
use trommel_model::machine::queries;
use trommel_model::service::*;
use trommel_model::trace::{Trace, record::*};
use trommel_model::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap();
    let skip: u64 = a[2].parse().unwrap();
    let file = format!("/tmp/me/{}.itrace", a[3]);
    let t = Instant::now();
    if !std::path::Path::new(&file).exists() {
        let mut c = Command::new(&a[5]);
        c.args(&a[6..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let trace = record(
            &mut c,
            &Wanted {
                after: std::time::Duration::from_millis(skip),
                instructions: n,
            },
        )
        .unwrap();
        std::fs::write(&file, trace.encode()).unwrap();
        println!("recorded {} in {:?}", trace.len(), t.elapsed());
    }
    let t = Instant::now();
    let b = std::fs::read(&file).unwrap();
    let trace = Trace::decode(&b).unwrap();
    println!(
        "{} bytes {} codes {} decode {:?}",
        b.len(),
        trace.code().len(),
        trace.len(),
        t.elapsed()
    );
    let p = Program::new(trace);
    println!("tagged {}", p.code().iter().filter(|c| c.tag == 1).count());
    let none = queries("");
    let q = queries(
        "for opBRANCH * every 256 collect pc misc; send 1 stop; for opSTORE 1 always collect op1 op2 op3; if op1 <> 0 then send 3..5 stop else stop;",
    );
    for (w, q, par) in [
        ("none", &none, Parameters::TABLE_5),
        ("32/32", &q, Parameters::TABLE_5.with(32, 32)),
        ("1/8", &q, Parameters::TABLE_5.with(1, 8)),
        ("4/8", &q, Parameters::TABLE_5.with(4, 8)),
    ] {
        let t = Instant::now();
        let o = p.run(
            par,
            q,
            &[&[(1, EDGES)], &[(3, BARRIER), (4, BARRIER), (5, BARRIER)]],
            false,
        );
        println!(
            "{w}: {:?} cycles {} ipc {:.3} mispred {} miss {:?} records {} stalled {:?} {:.3}% full {} served {} deepest {} engine {:?}",
            t.elapsed(),
            o.core.cycles,
            o.ipc(),
            o.core.mispredicted,
            o.core.misses,
            o.profile.records,
            o.core.stalled,
            100.0 * o.stalled(),
            o.core.full,
            o.served,
            o.deepest,
            o.engine
        );
        if w == "none" {
            println!("{:?}", o.core.classes);
        }
        if w == "32/32" {
            for n in [1, 2, 4, 8, 12, 16] {
                print!(
                    "{n}: {:.2}% {:.2}%  ",
                    100.0 * Outcome::at_least(&o.profile.buffers, n),
                    100.0 * Outcome::at_least(&o.profile.networks, n)
                );
            }
            println!();
        }
    }
}
