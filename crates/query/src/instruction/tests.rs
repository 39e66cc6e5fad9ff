//! Instructions bit by bit, and comparisons against all values of a byte.

use super::*;

fn instruction(word: u64) -> Instruction {
    Instruction::decode(word).expect("an instruction")
}

#[test]
fn queues_hold_those_from_the_first_on() {
    let queues = Queues {
        first: 4,
        count: 3,
        drop: false,
    };
    assert!((0..=255).all(|n| queues.hold(n) == (4..7).contains(&n)));
}

#[test]
fn bits_are_where_the_manual_says() {
    // if op1 <> 0 then send 3 stop else stop, op1 in word 0.
    let word = 2 | 14 << 4 | 2 << 45 | 2 << 47 | 1 << 49 | 3 << 52;
    let decoded = instruction(word);
    assert_eq!(
        decoded,
        Instruction {
            even: Comparison {
                test: Test::Magnitude {
                    relation: Relation::NotEqual,
                    signed: false,
                    lane: Lane::WORD,
                    against: Against::Immediate,
                },
                word: 0,
            },
            odd: Comparison::TRUE,
            immediate: 0,
            action: Action::Send(Queues {
                first: 3,
                count: 1,
                drop: false,
            }),
            matched: Next::Stop,
            otherwise: Next::Stop,
            target: QueryPc::FIRST,
        }
    );
    assert_eq!(decoded.encode(), word);

    // if misc.u16@2 bset 0x8000 and op2.i32@4 >= -2: two immediates, so not one word; with one of them:
    let word = (7 | 9 << 4 | 3 << 8) | (14 | 13 << 4 | 2 << 8) << 11 | 0xfffe << 22 | 2 << 45;
    let decoded = instruction(word);
    assert_eq!((decoded.even.word, decoded.odd.word), (3, 2));
    assert!(matches!(
        decoded.odd.test,
        Test::Magnitude {
            relation: Relation::GreaterOrEqual,
            signed: true,
            lane: Lane(13),
            against: Against::Immediate
        }
    ));
    assert_eq!(decoded.immediate, 0xfffe);
    assert_eq!(decoded.encode(), word);
}

#[test]
fn what_means_nothing_is_refused() {
    let stop = 2 << 45;
    instruction(stop);
    let refused = [
        (15, "a reserved test"),
        (2 | 15 << 4, "a reserved lane"),
        (6 << 4, "a reserved chance"),
        (1 << 10, "a chance compared with a word"),
        (9 | 14 << 4 | 1 << 10, "signed equality of words"),
        (1 << 22, "an immediate that nobody uses"),
        (1 << 8, "a word that nobody reads"),
        ((1 | 3 << 8) << 11, "word 7"),
        (1 << 38, "a target that nobody branches to"),
        (3 << 47, "a reserved way"),
        (2 << 47, "otherwise of what always matches"),
        (5 << 49, "a reserved action"),
        (2 << 49 | 7 << 52, "a counter that does not start at 0"),
        (1 << 49 | 0x7ff << 52, "queues above 255"),
        (3 | 14 << 4, "less than 0"),
    ];
    for (bits, what) in refused {
        assert!(Instruction::decode(stop | bits).is_err(), "{what}");
    }
    assert!(Instruction::decode(3 << 45).is_err(), "a reserved way");
}

#[test]
fn lanes_read_their_part_of_a_word() {
    let word = 0x8123_4567_89ab_cdef_u64;
    let lane = |bits, byte| Lane::new(bits, byte).expect("a lane");
    assert_eq!(lane(8, 0).unsigned(word), 0xef);
    assert_eq!(lane(8, 7).unsigned(word), 0x81);
    assert_eq!(lane(16, 2).unsigned(word), 0x89ab);
    assert_eq!(lane(32, 4).unsigned(word), 0x8123_4567);
    assert_eq!(lane(64, 0).unsigned(word), word);
    assert_eq!(lane(8, 7).signed(word), -127);
    assert_eq!(lane(16, 2).signed(word), 0x89ab - 0x1_0000);
    assert_eq!(lane(32, 0).signed(word), 0x89ab_cdef - 0x1_0000_0000);
    assert_eq!(lane(64, 0).signed(word), word as i64);
    for (bits, byte) in [(16, 1), (32, 2), (64, 4), (8, 8), (24, 0), (16, u64::MAX)] {
        assert_eq!(Lane::new(bits, byte), None);
    }
}

#[test]
fn outcomes_are_those_of_all_values() {
    let byte = Lane::new(8, 0).expect("a lane");
    for signed in [false, true] {
        for relation in Relation::ALL {
            for immediate in [
                0, 1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xff7f, 0xff80, 0xffff,
            ] {
                let test = Test::Magnitude {
                    relation,
                    signed,
                    lane: byte,
                    against: Against::Immediate,
                };
                same_as_tried(test, immediate);
            }
        }
    }
    for set in [false, true] {
        for immediate in [0, 1, 0xff, 0x100, 0x1ff, 0xffff] {
            let test = Test::Bits {
                set,
                lane: byte,
                against: Against::Immediate,
            };
            same_as_tried(test, immediate);
        }
    }
}

fn same_as_tried(test: Test, immediate: u16) {
    let held = (0..256).filter(|value| test.holds(*value, immediate, 0, |_| false));
    let outcome = match held.count() {
        0 => Known::Never,
        256 => Known::Always,
        _ => Known::Depends,
    };
    assert_eq!(test.outcome(immediate), outcome, "{test:?} {immediate:#x}");
}
