//! From names to what they mean: every mistake that needs no knowledge of instructions is found here,
//! and all of them at once.
//!
//! What comes out says for each clause which words are compared how, and by number where the query goes
//! on. `lower` makes instructions of that.

pub(crate) mod bounds;
mod clause;
mod condition;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::ast::{self, Every, File, Item, Name, Number, Selector, TagTarget};
use crate::class::{Class, ENTRIES, Entry, EntrySet, Event, Operation, Subject, TAGS};
use crate::diagnostic::{Diagnostic, Position, Severity, Span, closest};
use crate::field::{Field, FieldSet};
use crate::image::{MAX_RULES, rule_bytes};
use crate::instruction::{Action, Test};
use crate::pair::{Layout, Within};
use crate::pc::MAX_INSTRUCTIONS;
use crate::rate::{Budget, Rate, Sampling};
use crate::tag::{Rule, Where};

/// A file whose names are resolved.
pub(crate) struct Checked {
    pub(crate) tags: Vec<Rule>,
    pub(crate) queries: Vec<Query>,
}

pub(crate) struct Query {
    /// The header.
    pub(crate) span: Span,
    pub(crate) entries: EntrySet,
    pub(crate) sampling: Sampling,
    pub(crate) pair: Option<Within>,
    pub(crate) fields: FieldSet,
    pub(crate) clauses: Vec<Clause>,
}

pub(crate) struct Clause {
    pub(crate) span: Span,
    pub(crate) arms: Vec<Arm>,
    pub(crate) otherwise: Option<Body>,
}

pub(crate) struct Arm {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) then: Body,
}

pub(crate) struct Body {
    pub(crate) actions: Vec<Action>,
    pub(crate) next: Next,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The next clause.
    Continue,
    Stop,
    /// The clause of this number.
    Goto(usize),
}

/// A comparison of a word of the record, or none of a chance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    pub(crate) span: Span,
    pub(crate) test: Test,
    pub(crate) word: u8,
    /// The word it is compared with, if it is compared with one.
    pub(crate) other: u8,
    pub(crate) immediate: u16,
}

/// Resolves the names of `file`, which is the tree of `text`. What comes out is meaningful when no
/// error was added.
pub(crate) fn check(text: &str, file: &File, found: &mut Vec<Diagnostic>) -> Checked {
    let mut checker = Checker {
        text,
        found,
        taken: Vec::new(),
        rules: 0,
    };
    let mut checked = Checked {
        tags: Vec::new(),
        queries: Vec::new(),
    };
    if checker.is_too_large(file) {
        return checked;
    }
    for item in &file.items {
        match item {
            Item::Tag(tag) => checker.tag(tag, &mut checked.tags),
            Item::Query(query) => {
                let others = file.items.iter().filter_map(|item| match item {
                    Item::Query(other) if other.span != query.span => Some(other),
                    _ => None,
                });
                let query = checker.query(query, &others.collect::<Vec<_>>());
                checked.queries.push(query);
            }
        }
    }
    checker.without_code(file, &checked.tags);
    let asks = file.items.iter().any(|item| matches!(item, Item::Query(_)));
    if !asks && checker.errors() == 0 {
        let fix = "write one, such as `for opBRANCH * every 256 collect pc misc; send 1 stop;`";
        checker.warn(Span::default(), "there is no query: nothing is asked", fix);
    }
    checked
}

/// Errors, and warnings, at most.
const MOST: usize = 100;
/// Bytes of the name of a module or function at most.
const MAX_NAME: usize = 4096;

/// Returns what is said of a program of so many instructions.
pub(crate) fn too_large(instructions: usize) -> String {
    format!(
        "with this query the program has {instructions} instructions, and {MAX_INSTRUCTIONS} is the \
         limit"
    )
}

/// Remedy for a program that is too large.
pub(crate) const SMALLER: &str = "a clause with one action is one instruction: decide less in the \
                                  query and more in its service thread";

struct Checker<'a> {
    text: &'a str,
    found: &'a mut Vec<Diagnostic>,
    /// Entries of queries, and where they were named.
    taken: Vec<(Entry, Span)>,
    /// Bytes that the rules for tags take in an image.
    rules: usize,
}

impl Checker<'_> {
    fn error(&mut self, span: Span, message: impl ToString, fix: impl ToString) {
        self.add(Diagnostic::error(span, message, fix));
    }

    fn warn(&mut self, span: Span, message: impl ToString, fix: impl ToString) {
        self.add(Diagnostic::warning(span, message, fix));
    }

    /// More than [`MOST`] of a kind help nobody.
    fn add(&mut self, diagnostic: Diagnostic) {
        let alike = self
            .found
            .iter()
            .filter(|d| d.severity == diagnostic.severity);
        if alike.count() < MOST {
            self.found.push(diagnostic);
        }
    }

    /// Returns true if there are more clauses than instructions can be, or more queries than entries. What
    /// follows takes time that grows faster than the text.
    fn is_too_large(&mut self, file: &File) -> bool {
        let (mut queries, mut least) = (0, 0);
        for item in &file.items {
            let Item::Query(query) = item else { continue };
            queries += 1;
            let clauses = query.clauses.iter();
            least += clauses.map(|c| c.arms.len().max(1)).sum::<usize>();
            if queries > ENTRIES {
                let message = format!("this is query {queries}, and {ENTRIES} is the limit");
                let fix = "each entry of the profile control table has one query: select several \
                           classes in one header";
                self.error(query.span, message, fix);
                return true;
            }
            if least > MAX_INSTRUCTIONS {
                self.error(query.span, too_large(least), SMALLER);
                return true;
            }
        }
        false
    }

    fn line(&self, span: Span) -> usize {
        Position::of(self.text, span.start).line
    }

    fn tag(&mut self, tag: &ast::Tag, rules: &mut Vec<Rule>) {
        let number = self.profile_tag(&tag.tag);
        for place in &tag.places {
            let (name, is_range) = match place {
                TagTarget::Module(name) | TagTarget::Symbol(name) => (Some(name), false),
                TagTarget::Range { module, .. } => (module.as_ref(), true),
            };
            let bytes = name.map_or(0, |name| name.text.len());
            if bytes > MAX_NAME {
                let message = format!("a name of {bytes} bytes");
                let fix = format!("names have at most {MAX_NAME} bytes");
                self.error(tag.span, message, fix);
            }
            let before = self.rules;
            self.rules += rule_bytes(bytes.min(MAX_NAME), is_range);
            // Once: the places after it are as much too many as this one.
            if (before..self.rules).contains(&MAX_RULES) {
                let message = "too many places have tags";
                let fix = "give tags to modules or ranges in place of many functions";
                self.error(tag.span, message, fix);
            }
        }
        for place in &tag.places {
            let place = match place {
                TagTarget::Module(name) => Where::Module(name.text.clone()),
                TagTarget::Symbol(name) => Where::Symbol(name.text.clone()),
                TagTarget::Range { from, to, module } => {
                    if from.value >= to.value {
                        let span = from.span.to(to.span);
                        self.error(
                            span,
                            "the range is empty",
                            "write the lower address first; the last one is excluded",
                        );
                    }
                    Where::Range {
                        from: from.value as u64,
                        to: to.value as u64,
                        module: module.as_ref().map(|name| name.text.clone()),
                    }
                }
            };
            rules.push(Rule { tag: number, place });
        }
    }

    /// Tags that are selected by number, and that no rule gives to any code. Without a rule, all code has tag 0.
    fn without_code(&mut self, file: &File, rules: &[Rule]) {
        let queries = file.items.iter().filter_map(|item| match item {
            Item::Query(query) => Some(query),
            Item::Tag(_) => None,
        });
        for selector in queries.flat_map(|query| &query.selectors) {
            let Some(number) = &selector.tag else {
                continue;
            };
            let is_given = |tag| tag == 0 || rules.iter().any(|rule| i128::from(rule.tag) == tag);
            if (0..i128::from(TAGS)).contains(&number.value) && !is_given(number.value) {
                let name = &selector.name.text;
                let message = format!(
                    "`{name} {0}` selects nothing: no rule gives tag {0} to any code",
                    number.value
                );
                let fix = format!(
                    "write a rule, such as `tag {} symbol \"NAME\";`, or `{name} *` to select all code",
                    number.value
                );
                self.warn(selector.span, message, fix);
            }
        }
    }

    fn profile_tag(&mut self, number: &Number) -> u8 {
        match u8::try_from(number.value).ok().filter(|tag| *tag < TAGS) {
            Some(tag) => tag,
            None => {
                let message = format!("there is no profile tag {}", number.text());
                self.error(number.span, message, "tags have two bits: 0, 1, 2 or 3");
                0
            }
        }
    }

    fn query(&mut self, query: &ast::Query, others: &[&ast::Query]) -> Query {
        let entries = self.selectors(&query.selectors);
        let errors = self.errors();
        let events: Vec<_> = entries.iter().filter_map(event).collect();
        let paired = query.pair.is_some();
        let fields = self.fields(&query.fields, events.first().copied(), paired);
        let fields_are_known = self.errors() == errors;
        let sampling = self.sampling(&query.every);
        let pair = self.pair(query, sampling, &entries);
        let mut clauses = Clauses {
            query,
            others,
            entries,
            pair,
            layout: fields_are_known.then_some(Layout { fields, paired }),
            used: Vec::new(),
        };
        self.labels(query);
        let checked = Query {
            span: query.span,
            entries,
            sampling,
            pair,
            fields,
            clauses: (0..query.clauses.len())
                .map(|at| self.clause(at, &mut clauses))
                .collect(),
        };
        for label in query.clauses.iter().filter_map(|c| c.label.as_ref()) {
            if !clauses.used.contains(&label.text) {
                let message = format!("nothing branches to `{}`", label.text);
                self.warn(label.span, message, "remove the label");
            }
        }
        if query.clauses.is_empty() {
            self.error(
                query.span,
                "the query does nothing with what it collects",
                "add a clause after the header, such as `send 1 stop;`",
            );
        }
        self.reachable(&checked);
        checked
    }

    fn errors(&self) -> usize {
        let errors = self.found.iter();
        errors.filter(|d| d.severity == Severity::Error).count()
    }

    fn selectors(&mut self, selectors: &[Selector]) -> EntrySet {
        let mut all = EntrySet::NONE;
        for selector in selectors {
            for entry in self.selector(selector) {
                let before = self.taken.iter().find(|(e, _)| *e == entry);
                if let Some((_, span)) = before {
                    let message = format!(
                        "{entry} is selected twice: before in line {}",
                        self.line(*span)
                    );
                    let fix = "an entry of the profile control table has one query: select it once, \
                               or divide the class by profile tags";
                    self.error(selector.span, message, fix);
                    break;
                }
                self.taken.push((entry, selector.span));
                all = all.with(entry);
            }
        }
        all
    }

    fn selector(&mut self, selector: &Selector) -> Vec<Entry> {
        let name = &selector.name.text;
        if let Some(event) = Event::ALL
            .into_iter()
            .find(|e| e.name().eq_ignore_ascii_case(name))
        {
            if selector.tag.is_some() {
                let message = format!("{} has no profile tags", event.name());
                let fix = format!(
                    "write `{} *`: an event is of all instructions",
                    event.name()
                );
                self.error(selector.span, message, fix);
            }
            return alloc::vec![Entry::of(Subject::Event(event))];
        }
        let operation = Operation::ALL
            .into_iter()
            .find(|o| o.name().eq_ignore_ascii_case(name));
        let Some(operation) = operation else {
            let operations = Operation::ALL.iter().map(|o| o.name());
            let events = Event::ALL.iter().map(|e| e.name());
            let fix = match closest(name, operations.clone().chain(events.clone())) {
                Some(meant) => format!("write `{meant}`"),
                None => format!("there are {} and {}", list(operations), list(events)),
            };
            let message = format!("`{name}` is no class of instructions and no event");
            self.error(selector.name.span, message, fix);
            return Vec::new();
        };
        let tags = match &selector.tag {
            None => 0..TAGS,
            Some(number) => {
                let tag = self.profile_tag(number);
                tag..tag + 1
            }
        };
        let class = |tag| Some(Entry::of(Subject::Class(Class::new(operation, tag)?)));
        tags.filter_map(class).collect()
    }

    fn sampling(&mut self, every: &Every) -> Sampling {
        match every {
            Every::Always => Sampling::ALWAYS,
            Every::Number(number) => Sampling::Every(self.rate(number)),
            Every::Auto(None) => Sampling::Auto(Budget::USUAL),
            Every::Auto(Some(number)) => Sampling::Auto(self.budget(number)),
        }
    }

    fn budget(&mut self, number: &Number) -> Budget {
        let percent = u64::try_from(number.value).unwrap_or(0);
        Budget::new(percent).unwrap_or_else(|| {
            let message = format!("{}% is no budget", number.text());
            self.error(number.span, message, "budgets go from 1% to 100%");
            Budget::USUAL
        })
    }

    fn rate(&mut self, number: &Number) -> Rate {
        let n = u64::try_from(number.value).unwrap_or(0);
        Rate::new(n).unwrap_or_else(|| {
            let (below, above) = Rate::around(n);
            let fix = match below == above {
                true => format!("rates go from 1 to {}", Rate::RAREST.one_in()),
                false => format!(
                    "above 511 a rate has nine binary digits and zeros: take {} or {}",
                    below.one_in(),
                    above.one_in()
                ),
            };
            let message = format!("{} is no sampling rate", number.text());
            self.error(number.span, message, fix);
            Rate::ALWAYS
        })
    }

    /// Returns the distance of pairs, if the header asks for pairs that can be had.
    fn pair(
        &mut self,
        query: &ast::Query,
        sampling: Sampling,
        entries: &EntrySet,
    ) -> Option<Within> {
        let number = query.pair.as_ref()?;
        let within = u64::try_from(number.value).ok().and_then(Within::new);
        let Some(within) = within else {
            let message = format!("{} is no distance of pairs", number.text());
            let fix = format!("distances go from 1 to {}", Within::MOST.most());
            self.error(number.span, message, fix);
            return None;
        };
        let example = format!("write `every 10k {within}`, for one pair in 10k executions");
        match sampling {
            Sampling::Auto(_) => {
                let message = "`every auto` has no pairs, as it begins with each execution";
                self.error(number.span, message, example);
            }
            Sampling::Every(rate) if rate.one_in() <= within.most() => {
                let message = format!(
                    "`{rate}` leaves no room for the second of a pair, which is one of the next {}",
                    within.most()
                );
                let fix = format!("take a rate above the distance: {example}");
                self.error(number.span, message, fix);
            }
            Sampling::Every(_) => {}
        }
        let events = entries.iter().filter_map(event).count();
        if events != 0 && events != entries.iter().count() {
            let message = "a pair of an instruction and an event, which is noticed later";
            let fix = "select instructions in one query and events in another one";
            self.error(number.span, message, fix);
        }
        Some(within)
    }

    fn fields(&mut self, names: &[Name], event: Option<Event>, paired: bool) -> FieldSet {
        let most = Layout::most_fields(paired);
        let mut set = FieldSet::NONE;
        for (n, name) in names.iter().enumerate() {
            let Some(field) = self.field(name) else {
                continue;
            };
            if set.has(field) {
                let message = format!("`{}` is collected twice", field.name());
                self.error(name.span, message, "remove one of the two");
            } else if n == most {
                let message = match paired {
                    true => format!(
                        "a record of a pair has {most} fields of each and the distance, and this is one more"
                    ),
                    false => format!("a record has {most} words, and this is one more"),
                };
                self.error(name.span, message, "collect fewer fields");
            }
            if let Some(event) = event
                && !field.is_of_events()
            {
                let known = Field::ALL.iter().filter(|f| f.is_of_events());
                let message = format!("{} cannot collect `{}`", event.name(), field.name());
                let fix = format!(
                    "when an event is noticed only {} are known; to see more, profile \
                     instructions in a query of their own",
                    list(known.map(|f| f.name()))
                );
                self.error(name.span, message, fix);
            }
            set = set.with(field);
        }
        set
    }

    fn field(&mut self, name: &Name) -> Option<Field> {
        let field = Field::from_name(&name.text);
        if field.is_none() {
            let names = Field::ALL.iter().map(|f| f.name());
            let fix = match closest(&name.text, names.clone()) {
                Some(meant) => format!("write `{meant}`; fields are {}", list(names)),
                None => format!("fields are {}", list(names)),
            };
            self.error(name.span, format!("`{}` is no field", name.text), fix);
        }
        field
    }

    fn labels(&mut self, query: &ast::Query) {
        let labels: Vec<&Name> = query
            .clauses
            .iter()
            .filter_map(|c| c.label.as_ref())
            .collect();
        for (n, label) in labels.iter().enumerate() {
            if let Some(first) = labels[..n].iter().find(|l| l.text == label.text) {
                let line = self.line(first.span);
                let message = format!("the label `{}` is there twice", label.text);
                self.error(
                    label.span,
                    message,
                    format!("rename it; the first is in line {line}"),
                );
            }
        }
    }
}

/// Context in which the clauses of a query are checked.
struct Clauses<'a> {
    query: &'a ast::Query,
    others: &'a [&'a ast::Query],
    /// Selected instructions and events.
    entries: EntrySet,
    /// The distance of pairs, if the header asks for them.
    pair: Option<Within>,
    /// Meanings of the words of a record, if they are known.
    layout: Option<Layout>,
    /// Labels that are branched to.
    used: Vec<String>,
}

fn event(entry: Entry) -> Option<Event> {
    match entry.subject() {
        Subject::Event(event) => Some(event),
        Subject::Class(_) => None,
    }
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => last.to_string(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}
