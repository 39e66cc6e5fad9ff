//! Recordings of a small program that is on every machine.

use std::process::Stdio;

use trommel_query::Operation;

use super::*;
use crate::instruction::{Flow, Instruction};

fn of_true(wanted: &RecordingSettings) -> Trace {
    let mut command = Command::new("/bin/true");
    command.env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    record(&mut command, wanted).expect("it can be traced")
}

#[test]
fn control_goes_where_the_next_execution_is_and_memory_holds_what_was_stored() {
    let wanted = from_start(20_000);
    let trace = of_true(&wanted);
    assert_eq!(trace.len(), 20_000);
    let mut info = InstructionInfoFactory::new();
    let code: Vec<Instruction> = (trace.code().iter())
        .map(|c| Instruction::decode(&mut info, c.pc, c.bytes()))
        .collect();
    let all: Vec<Execution> = trace.replay().collect();
    let (mut branches, mut loads) = (0, 0);
    for pair in all.windows(2) {
        let (this, next) = (&code[pair[0].code as usize], &code[pair[1].code as usize]);
        let falls = this.flow == Flow::Next || this.flow == Flow::Conditional && !pair[0].taken;
        assert!(!falls || next.pc == this.end(), "at {:#x}", this.pc);
        if this.operation.is_transfer() {
            // The first result of a transfer is where it goes.
            assert_eq!(pair[0].words[5], next.pc, "at {:#x}", this.pc);
        }
        branches += u32::from(this.operation == Operation::Branch);
        if this.operation == Operation::Load && this.accesses.len() == 1 {
            assert_eq!(pair[0].words[7], pair[0].addresses[0], "at {:#x}", this.pc);
            loads += 1;
        }
    }
    assert!(branches > 1000 && loads > 1000, "{branches} {loads}");
    let mut memory: HashMap<u64, u64> = HashMap::new();
    let mut compared = 0;
    for execution in &all {
        let this = &code[execution.code as usize];
        let whole = this.accesses.len() == 1 && this.accesses[0].size == 8 && !this.repeats;
        let at = execution.addresses[0];
        if this.operation == Operation::Load && whole {
            if let Some(value) = memory.get(&at) {
                assert_eq!(*value, execution.words[5], "at {:#x}", this.pc);
                compared += 1;
            }
        } else if this.operation == Operation::System || this.repeats {
            memory.clear();
        } else if this.accesses.iter().any(|a| a.writes) {
            // Whatever it overlaps is forgotten.
            let size = this.accesses.iter().map(|a| a.size).max().unwrap_or(0);
            for at in execution.addresses {
                memory.retain(|a, _| a.abs_diff(at) >= size.max(8).into());
            }
            if this.operation == Operation::Store && whole {
                memory.insert(at, execution.words[0]);
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

fn from_start(instructions: u64) -> RecordingSettings {
    RecordingSettings {
        every: Duration::ZERO,
        stretches: 1,
        instructions,
        finish: false,
    }
}

#[test]
fn recordings_begin_where_they_should() {
    // Without randomness of addresses one recording is the other, but for what the kernel draws.
    let pcs = |trace: &Trace| -> Vec<u64> {
        let pc = |e: Execution| trace.code()[e.code as usize].pc;
        trace.replay().map(pc).collect()
    };
    let wanted = from_start(2000);
    assert_eq!(pcs(&of_true(&wanted)), pcs(&of_true(&wanted)));
    // A program that ends before its time is up leaves nothing.
    let late = RecordingSettings {
        every: Duration::from_secs(100),
        stretches: 3,
        instructions: 2000,
        finish: false,
    };
    assert!(of_true(&late).is_empty());
    let mut endless = Command::new("/bin/sh");
    endless.args(["-c", "while :; do :; done"]);
    let wanted = RecordingSettings {
        every: Duration::from_millis(20),
        stretches: 3,
        instructions: 1000,
        finish: false,
    };
    let trace = record(&mut endless, &wanted).expect("it can be traced");
    assert_eq!(trace.len(), 3000);
    // The loop was met, not the start: few instructions, again and again.
    assert!(trace.code().len() < 2000, "{}", trace.code().len());
    assert!(trace.regions().iter().any(|r| r.used == Use::Stack));
}

#[test]
fn cpu_time_is_the_program_s_own() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"]);
    let time = cpu_time(&mut command).expect("it can be started");
    assert!(
        time > Duration::ZERO && time < Duration::from_secs(20),
        "{time:?}"
    );
    assert!(cpu_time(&mut Command::new("/bin/true")).expect("it can be started") < time);
}
