//! The language as people meet it: the paper's queries, what each construct assembles to, and what is
//! said about each mistake.

use trommel_query::Severity;
use trommel_query::disassemble::disassemble;
use trommel_query::instruction::Next;
use trommel_query::{
    Assembly, Class, Control, Entry, Event, Field, Operation, Position, Subject, assemble, format,
    image, parse,
};

fn assembled(text: &str) -> Assembly {
    assemble(text).unwrap_or_else(|found| panic!("{text}{found:?}"))
}

fn class(operation: Operation, tag: u8) -> Entry {
    Entry::of(Subject::Class(Class::new(operation, tag).expect("a tag")))
}

fn words(text: &str) -> Vec<u64> {
    let code = assembled(text).program.code().to_vec();
    code.iter().map(|i| i.encode()).collect()
}

/// Figure 2, as printed.
const FIGURE_2: [&str; 4] = [
    "for opBRANCH * every 256 collect pc misc ;\nsend 1 stop;",
    "for evL2DMISS * always collect pc res2 ;\nsend 2 stop;",
    "for opSTORE 1 always collect op1 op2 op3;\nif op1 <> 0 then send 3 stop else stop;",
    "for opJMP * opBRANCH * opLOAD *\nopSTORE * opALU * opMULT *\nopFLOAT * opSYS *\n\
     every 1024 collect pc rrate;\nsend 4 stop;",
];

const SEND: u64 = 1 << 49;
const STOP: u64 = 2 << 45;
const ELSE_STOP: u64 = 2 << 47;

#[test]
fn figure_2_assembles_to_one_instruction_each() {
    for text in FIGURE_2 {
        let assembly = assembled(text);
        // As printed, no rule gives the tag.
        assert_eq!(assembly.warnings.len(), usize::from(text == FIGURE_2[2]));
        assert_eq!(assembly.program.code().len(), 1);
    }
    let [a, b, c, d] = FIGURE_2.map(|text| assembled(text).program);
    assert_eq!(a.code()[0].encode(), SEND | STOP | 1 << 52);
    assert_eq!(b.code()[0].encode(), SEND | STOP | 2 << 52);
    let op1_is_not_0 = 2 | 14 << 4;
    assert_eq!(
        c.code()[0].encode(),
        SEND | STOP | ELSE_STOP | 3 << 52 | op1_is_not_0
    );
    assert_eq!(d.code()[0].encode(), SEND | STOP | 4 << 52);

    let entries =
        |p: &trommel_query::Program| p.table().entries().map(|(e, _)| e).collect::<Vec<_>>();
    assert_eq!(
        entries(&a),
        [0, 1, 2, 3].map(|tag| class(Operation::Branch, tag))
    );
    assert_eq!(entries(&b), [Entry::of(Subject::Event(Event::L2DataMiss))]);
    assert_eq!(entries(&c), [class(Operation::Store, 1)]);
    assert_eq!(entries(&d), Entry::all().take(32).collect::<Vec<_>>());

    // Fields are bits in the order of Table 2; 256 is in the mantissa, 1024 is 256 << 2.
    let control = |p: &trommel_query::Program, entry| p.table().get(entry).map(Control::registers);
    let branch = class(Operation::Branch, 2);
    assert_eq!(control(&a, branch), Some([256 << 19 | 1 << 10 | 1, 0]));
    assert_eq!(
        control(&c, class(Operation::Store, 1)),
        Some([1 << 19 | 0x54, 0])
    );
    assert_eq!(
        control(&d, branch),
        Some([(256 | 2 << 9) << 19 | 1 << 18 | 1, 0])
    );
}

#[test]
fn queries_together_share_the_table_and_the_code() {
    let text = FIGURE_2[..3].join("\n");
    let program = assembled(&text).program;
    assert_eq!(program.table().registers().len() * 4, 280);
    let starts: Vec<usize> = program
        .table()
        .entries()
        .map(|(_, c)| c.start.number())
        .collect();
    assert_eq!(starts, [0, 0, 0, 0, 2, 1]);
    let queries = program.queries();
    assert_eq!(
        queries[2].fields.iter().collect::<Vec<_>>(),
        [Field::Op1, Field::Op2, Field::Op3]
    );
    // The fourth selects what the first and the third select already.
    let mut found = assemble(&FIGURE_2.join("\n")).expect_err("opBRANCH has one entry");
    found.retain(|d| d.severity == Severity::Error);
    assert!(found[0].message.contains("opBRANCH 0 is selected twice"));
    assert!(found[0].message.contains("line 1"));
    assert_eq!(
        Position::of(&FIGURE_2.join("\n"), found[0].span.start).line,
        7
    );
}

#[test]
fn clauses_are_one_instruction_where_one_can_say_it() {
    let head = "for opLOAD * always collect pc op1 op2 res1 res2 misc;\n";
    // Words: pc 0, op1 1, op2 2, res1 3, res2 4, misc 5.
    for (clauses, instructions) in [
        ("send 1 stop;", 1),
        ("if op2 = 5 then stop else stop;", 1),
        ("if op1 < op2 then send 1 stop else stop;", 1),
        (
            "if op1.u32@4 = 7 and res2.u8 = 7 then send 1..4 or drop stop else stop;",
            1,
        ),
        (
            "if op1.i16 = -1 and op2 = 0xffff then count stop else stop;",
            1,
        ),
        (
            "if filter 16 and op2 bset 1 then interrupt sync stop else stop;",
            1,
        ),
        (
            "if filter 16 and filter 256 then interrupt stop else stop;",
            1,
        ),
        ("if op1 < op2 and filter 2 then count stop else stop;", 1),
        ("if op1 < op2 and op2 > 5 then count stop else stop;", 1),
        // Two immediates, two words of one bank, two partners of one word.
        ("if op1 = 1 and op2 = 2 then send 1 stop else stop;", 2),
        ("if op1 = 1 and res1 = 1 then send 1 stop else stop;", 2),
        ("if op1 < op2 and res1 > 5 then send 1 stop else stop;", 2),
        ("send 1 send 2 count stop;", 3),
        ("if op1 = 1 then send 1 stop else send 2 stop;", 2),
        (
            "if op1 = 1 then send 1 stop else if op1 = 2 then send 2 stop else stop;",
            2,
        ),
        ("if op1 = 1 then goto a else stop; send 1; a: stop;", 3),
        ("if op1 = 1 then goto a else goto b; a: stop; b: stop;", 4),
        (
            "if op1 = 1 then send 1 count goto a else goto b; a: stop; b: stop;",
            4,
        ),
        ("if op1 = 1 then send 1 else send 2; stop;", 3),
        (
            "if op1 = 1 then next else stop; if op2 = 2 then send 1 stop else stop;",
            2,
        ),
    ] {
        let text = format!("{head}{clauses}");
        assert_eq!(words(&text).len(), instructions, "{clauses}");
    }
}

#[test]
fn ways_are_taken_as_written() {
    let text = "for opLOAD * always collect op1 op2;\n\
                if op1 = 1 then send 1 else goto b;\n\
                a: send 2;\n\
                if op2 = 5 then goto b else stop;\n\
                b: stop;";
    let assembly = assemble(text).expect("it assembles");
    assert!(
        assembly.warnings[0]
            .message
            .contains("nothing branches to `a`")
    );
    let ways: Vec<_> = assembly
        .program
        .code()
        .iter()
        .map(|i| (i.matched, i.otherwise))
        .collect();
    assert_eq!(
        ways,
        [
            (Next::Continue, Next::Branch),
            (Next::Continue, Next::Continue),
            (Next::Branch, Next::Stop),
            (Next::Stop, Next::Continue),
        ]
    );
    assert_eq!(assembly.program.code()[2].target.number(), 3);
    let lines: Vec<usize> = assembly
        .spans
        .iter()
        .map(|s| Position::of(text, s.start).line)
        .collect();
    assert_eq!(lines, [2, 3, 4, 5]);
}

#[test]
fn formatting_keeps_what_people_wrote() {
    let text = "# Stores of references.\nTAG 1 symbol gc_store , module \"libjvm.so\";tag 2 pc 0X10..0x20 in x;\n\
                for OPstore 1 ALWAYS collect op1 # the value\n op2 op3; # seven words\n\
                \n\
                # Null is no reference.\n\
                if OP1.U32@4 <> 0X0f and filter 4 then send 10..11 or drop stop else # no\n\
                if op1 < -1k then count next else goto Rest;\n\
                Rest: interrupt  sync stop;\n# the end";
    let formatted = "\
# Stores of references.
tag 1 symbol \"gc_store\", module \"libjvm.so\";
tag 2 pc 0x10..0x20 in \"x\";

# the value
for opSTORE 1 always collect op1 op2 op3; # seven words
    # Null is no reference.
    # no
    if op1.u32@4 <> 0xf and filter 4 then send 10..11 or drop stop else if
        op1 < -1k then count next else goto Rest;
    Rest: interrupt sync stop;

# the end
";
    let of = |text: &str| format::format(&parse(text).expect(text));
    assert_eq!(of(text), formatted);
    assert_eq!(of(formatted), formatted);
    assert_eq!(of(""), "");
    assert_eq!(of("#only\r\n#comments"), "#only\n#comments\n");
    let long = format!("for {}always collect pc;stop;", "opLOAD 1 ".repeat(20));
    let formatted = of(&long);
    assert!(
        formatted.lines().all(|line| line.len() <= 80),
        "{formatted}"
    );
    assert_eq!(of(&formatted), formatted);
}

#[test]
fn programs_go_to_bytes_and_back() {
    let text = "tag 1 module \"/usr/lib/libz.so.1\", symbol \"a \\\"b\\\\\";\n\
                tag 3 pc 0x1000..0x2000, pc 1..2 in \"x\";\n\
                for opLOAD 1 opLOAD 3 opJMP * every 1000 collect pc op1 res1 misc;\n\
                if filter 2 then send 7..9 or drop;\n\
                if res1.i16@4 >= -5 and true then count goto out else goto out;\n\
                out: if true and filter 256 then interrupt stop else stop;\n\
                for evITLBMISS * always collect pc; stop;";
    let program = assembled(text).program;
    let bytes = image::encode(&program);
    assert_eq!(image::decode(&bytes).as_ref(), Ok(&program));
    let text = disassemble(&program);
    assert_eq!(assembled(&text).program, program, "{text}");
    assert_eq!(format::format(&parse(&text).expect("parses")), text);
    // Every shorter file is refused, and says that it is cut short.
    for length in 8..bytes.len() {
        let error = image::decode(&bytes[..length]).expect_err("cut short");
        assert_eq!((error.at, &error.what[..]), (length, "it is cut short"));
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(image::decode(&longer).is_err());
    let text = image::decode(b"for opLOAD").expect_err("a text");
    assert!(text.to_string().contains("query asm -o"), "{text}");
}
