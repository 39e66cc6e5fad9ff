//! Comparisons: which word they read and how, and whether they can match at all.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::bounds::Bounds;
use super::{Checker, Clauses, Condition, list};
use crate::ast::{self, Comparand, ConditionKind, Form, Number, Operand};
use crate::diagnostic::Span;
use crate::field::Field;
use crate::instruction::{Against, Chance, Known, Lane, Test, bounds, immediate_value};
use crate::pair::{Layout, Word};

impl Checker<'_> {
    pub(super) fn condition(
        &mut self,
        condition: &ast::Condition,
        of: &Clauses<'_>,
    ) -> Option<Condition> {
        let span = condition.span;
        let chance = |chance| Condition {
            span,
            test: Test::Chance(chance),
            word: 0,
            other: 0,
            immediate: 0,
        };
        match &condition.kind {
            ConditionKind::Constant(true) => Some(chance(Chance::True)),
            ConditionKind::Constant(false) => Some(chance(Chance::False)),
            ConditionKind::Filter(n) => {
                let filter = u64::try_from(n.value).ok().and_then(Chance::filter);
                if filter.is_none() {
                    let message = format!("there is no filter {}", n.text());
                    let fix = "filters are 2, 4, 16 and 256; two in a clause multiply, and the \
                               header's `every N` takes other rates";
                    self.error(n.span, message, fix);
                }
                filter.map(chance)
            }
            ConditionKind::Compare(operand, relation, with) => {
                let left = self.operand(operand, of)?;
                let relation = *relation;
                let test = |against, signed| Test::Magnitude {
                    relation,
                    signed,
                    lane: left.lane,
                    against,
                };
                match with {
                    Comparand::Operand(right) => {
                        let word = self.other(operand, &left, right, of)?;
                        // Equality of two words is the same in both readings.
                        let signed = left.signed
                            && !matches!(relation, ast::Relation::Equal | ast::Relation::NotEqual);
                        Some(left.compared(span, test(Against::Other, signed), word))
                    }
                    Comparand::Number(number) => {
                        let test = test(Against::Immediate, left.signed);
                        let outcome =
                            Known::of_magnitude(relation, left.signed, left.lane, number.value);
                        if !self.possible(span, &left, number, outcome) {
                            return None;
                        }
                        if outcome == Known::Depends
                            && let Some(bounds) = Bounds::of(left.at, of)
                            && let Some(range) = bounds.of_lane(left.signed, left.lane)
                        {
                            let known = Known::within(range, relation, number.value);
                            self.foreseen(span, known, bounds.why);
                        }
                        let immediate = self.immediate(number, &left)?;
                        Some(left.with(span, test, immediate))
                    }
                }
            }
            ConditionKind::Bits { operand, set, mask } => {
                let left = self.operand(operand, of)?;
                let set = *set;
                if left.signed {
                    let fix = "bits have no sign: write `u` for `i`";
                    self.error(operand.span, "a test of bits in a signed number", fix);
                    return None;
                }
                let test = |against| Test::Bits {
                    set,
                    lane: left.lane,
                    against,
                };
                match mask {
                    Comparand::Operand(right) => {
                        let word = self.other(operand, &left, right, of)?;
                        Some(left.compared(span, test(Against::Other), word))
                    }
                    Comparand::Number(number) => {
                        let immediate = self.immediate(number, &left)?;
                        let test = test(Against::Immediate);
                        let condition = left.with(span, test, immediate);
                        let outcome = test.outcome(immediate);
                        if outcome == Known::Depends
                            && let Some(bounds) = Bounds::of(left.at, of)
                        {
                            let known = bounds.of_bits(set, left.lane, immediate);
                            self.foreseen(span, known, bounds.why);
                        }
                        self.possible(span, &left, number, outcome)
                            .then_some(condition)
                    }
                }
            }
        }
    }

    /// Returns true if a comparison can match; says so when it cannot, or cannot but.
    fn possible(&mut self, span: Span, left: &Left, number: &Number, outcome: Known) -> bool {
        let (least, most) = bounds(left.signed, left.lane);
        let signed = match left.signed || number.value > 0 {
            true => String::new(),
            false => {
                let (field, bits, byte) = (left.at.name(), left.lane.bits(), left.lane.byte());
                format!("; as a signed number it is written {field}.i{bits}@{byte}")
            }
        };
        let fix = format!("{} is from {least} to {most}{signed}", left.text);
        match outcome {
            Known::Depends => return true,
            Known::Always => self.warn(span, "this comparison always matches", fix),
            Known::Never => self.error(span, "this comparison can never match", fix),
        }
        outcome == Known::Always
    }

    /// Warns of a comparison whose outcome the header tells.
    fn foreseen(&mut self, span: Span, known: Known, why: String) {
        match known {
            Known::Depends => {}
            Known::Always => self.warn(span, "this comparison always matches", why),
            Known::Never => self.warn(span, "this comparison can never match", why),
        }
    }

    /// The immediate of a number.
    fn immediate(&mut self, number: &Number, left: &Left) -> Option<u16> {
        let immediate = match left.signed {
            true => i16::try_from(number.value).ok().map(|n| n as u16),
            false => u16::try_from(number.value).ok(),
        };
        if immediate.is_none() {
            let sign = if left.signed { "a signed" } else { "an" };
            let message = format!(
                "{} does not fit into {sign} immediate of 16 bits",
                number.text()
            );
            let fix = self.split(number, left);
            self.error(number.span, message, fix);
        }
        immediate
    }

    fn split(&self, number: &Number, left: &Left) -> String {
        if number.value < 0 || left.lane.bits() < 32 || left.signed {
            return "numbers from 0 to 65535 fit, and -32768 to 32767 with a signed type".into();
        }
        let high = number.value >> 16 & 0xffff;
        let number = Number {
            value: high,
            form: Form::Hex,
            ..*number
        };
        let byte = left.lane.byte();
        format!(
            "compare 16 bits at a time, as {}.u16@{byte} and {}.u16@{} (here {})",
            left.at.name(),
            left.at.name(),
            byte + 2,
            number.text()
        )
    }

    /// The word of the right operand, which has the type of the left one.
    fn other(
        &mut self,
        operand: &Operand,
        left: &Left,
        right: &Operand,
        of: &Clauses<'_>,
    ) -> Option<u8> {
        let mut typed = right.clone();
        if typed.part.is_none() {
            typed.part.clone_from(&operand.part);
        }
        let other = self.operand(&typed, of)?;
        if (other.lane, other.signed) != (left.lane, left.signed) {
            let fix = format!(
                "two words are compared in the same place: give both the same type, or none to `{}`",
                right.field.text
            );
            self.error(right.span, "the two sides have different types", fix);
            return None;
        }
        if other.word % 2 == left.word % 2 {
            let bank = if left.word.is_multiple_of(2) {
                "even"
            } else {
                "odd"
            };
            let message = format!(
                "{} and {} are words {} and {} of the record, and two words can be compared if one \
                 is even and one odd",
                left.at.name(),
                other.at.name(),
                left.word,
                other.word
            );
            let fix = match of.layout {
                Some(layout) if layout.paired => {
                    "in pairs a field of one record can be compared with any of the other's".into()
                }
                layout => layout
                    .and_then(|layout| between(layout, left.at, other.at))
                    .map_or_else(
                        || format!("collect other fields, so that they are not both {bank}"),
                        |field| {
                            format!(
                                "also collect `{}`, which stands between them and moves one to the \
                                 other bank",
                                field.name()
                            )
                        },
                    ),
            };
            self.error(right.span, message, fix);
            return None;
        }
        Some(other.word)
    }

    fn operand(&mut self, operand: &Operand, of: &Clauses<'_>) -> Option<Left> {
        let at = self.word(operand)?;
        let (lane, signed) = match &operand.part {
            None => (Lane::WORD, false),
            Some(part) => self.part(part)?,
        };
        // When the header is wrong what it collects is not known, and more errors help nobody.
        let layout = of.layout?;
        let word = layout.word_of(at);
        if word.is_none() {
            let message = format!("`{}` is not collected by this query", at.name());
            let fix = match at {
                Word::Second(_) | Word::Distance if !layout.paired => {
                    "only pairs have it: write `every 10k pair 16` in the header".into()
                }
                Word::Field(field) | Word::Second(field) => {
                    format!("add `{}` to `collect` in its header", field.name())
                }
                Word::Distance => "write `every 10k pair 16` in the header".into(),
            };
            self.error(operand.span, message, fix);
        }
        Some(Left {
            at,
            text: self.text[operand.span.start..operand.span.end].to_string(),
            word: word?,
            lane,
            signed,
        })
    }

    /// Returns what an operand names.
    fn word(&mut self, operand: &Operand) -> Option<Word> {
        let is_distance = operand.field.text.eq_ignore_ascii_case(Word::DISTANCE);
        match operand.second {
            false if is_distance => Some(Word::Distance),
            false => self.field(&operand.field).map(Word::Field),
            true => self.field(&operand.field).map(Word::Second),
        }
    }

    fn part(&mut self, part: &ast::Part) -> Option<(Lane, bool)> {
        let name = part.kind.text.to_ascii_lowercase();
        let kinds = [8, 16, 32, 64]
            .into_iter()
            .flat_map(|bits| [(bits, 'u'), (bits, 'i')]);
        let kind = kinds
            .into_iter()
            .find(|(bits, sign)| name == format!("{sign}{bits}"));
        let Some((bits, sign)) = kind else {
            let message = format!("`{}` is no type", part.kind.text);
            let fix = "values have 8, 16, 32 or 64 bits, unsigned or signed: u8, u16, u32, u64, i8, \
                       i16, i32, i64";
            self.error(part.kind.span, message, fix);
            return None;
        };
        let byte = part.byte.map_or(0, |byte| byte.value);
        let lane = u64::try_from(byte)
            .ok()
            .and_then(|byte| Lane::new(bits, byte));
        if lane.is_none() {
            let bytes = (0..8)
                .step_by(bits as usize / 8)
                .map(|byte| format!("{byte}"));
            let message = format!("a value of {bits} bits does not start at byte {byte}");
            let bytes: Vec<String> = bytes.collect();
            let fix = format!(
                "it starts at byte {}",
                list(bytes.iter().map(String::as_str))
            );
            self.error(part.span, message, fix);
        }
        Some((lane?, sign == 'i'))
    }

    /// Reports two comparisons of one value that cannot hold together. Where they could but for what the header says of the value,
    /// that is a warning, as of one comparison.
    pub(super) fn together(&mut self, arm: &ast::Arm, conditions: &[Condition], of: &Clauses<'_>) {
        let [a, b] = conditions else { return };
        if a.word != b.word {
            return;
        }
        let message = "these two comparisons can never match together";
        let span = arm.conditions[0].span.to(arm.conditions[1].span);
        if exclude(a, b, None) {
            let fix =
                "no value satisfies both: change one, or take two clauses for one or the other";
            self.error(span, message, fix);
            return;
        }
        let word = of
            .layout
            .and_then(|layout| layout.words().nth(usize::from(a.word)));
        let bounds = word.and_then(|word| Bounds::of(word, of));
        let alone = |c: &Condition| exclude(c, c, bounds.as_ref());
        // Of one that never matches alone enough is said.
        if let Some(known) = &bounds
            && !alone(a)
            && !alone(b)
            && exclude(a, b, Some(known))
        {
            self.warn(span, message, &known.why);
        }
    }
}

/// The left side of a comparison.
struct Left {
    at: Word,
    text: String,
    word: u8,
    lane: Lane,
    signed: bool,
}

impl Left {
    fn with(&self, span: Span, test: Test, immediate: u16) -> Condition {
        Condition {
            span,
            test,
            word: self.word,
            other: 0,
            immediate,
        }
    }

    fn compared(&self, span: Span, test: Test, other: u8) -> Condition {
        Condition {
            other,
            ..self.with(span, test, 0)
        }
    }
}

/// A field that stands between two of a record that has room for it.
fn between(layout: Layout, left: Word, right: Word) -> Option<Field> {
    let (Word::Field(left), Word::Field(right)) = (left, right) else {
        return None;
    };
    let (low, high) = (left.min(right), left.max(right));
    let free = |f: &Field| *f > low && *f < high && !layout.fields.has(*f);
    let has_room = layout.len() < Layout::most_fields(layout.paired);
    Field::ALL.into_iter().find(free).filter(|_| has_room)
}

/// Returns true if no value within `known` satisfies both comparisons, which are of the same word.
fn exclude(a: &Condition, b: &Condition, known: Option<&Bounds>) -> bool {
    use Against::Immediate;
    match (a.test, b.test) {
        (
            Test::Magnitude {
                relation: r,
                signed,
                lane,
                against: Immediate,
            },
            Test::Magnitude {
                relation: s,
                signed: also,
                lane: same,
                against: Immediate,
            },
        ) if (signed, lane) == (also, same) => {
            // Both change their truth only at their immediates and beside them.
            let (least, most) = known
                .and_then(|known| known.of_lane(signed, lane))
                .unwrap_or_else(|| bounds(signed, lane));
            let [x, y] = [a, b].map(|c| immediate_value(signed, c.immediate));
            let values = [least, x - 1, x, x + 1, y - 1, y, y + 1, most];
            !(values.into_iter())
                .any(|v| (least..=most).contains(&v) && r.holds(v, x) && s.holds(v, y))
        }
        (
            Test::Bits {
                set,
                lane,
                against: Immediate,
            },
            Test::Bits {
                set: also,
                lane: same,
                against: Immediate,
            },
        ) if lane == same => set != also && a.immediate & b.immediate != 0,
        (
            Test::Magnitude {
                relation: ast::Relation::Equal,
                signed: false,
                lane,
                against: Immediate,
            },
            Test::Bits {
                lane: same,
                against: Immediate,
                ..
            },
        ) if lane == same => !b.test.holds(
            u64::from(a.immediate) << (8 * lane.byte()),
            b.immediate,
            0,
            |_| true,
        ),
        (
            Test::Bits { .. },
            Test::Magnitude {
                relation: ast::Relation::Equal,
                ..
            },
        ) => exclude(b, a, known),
        _ => false,
    }
}
