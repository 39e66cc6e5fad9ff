//! The parser: recursive descent with one token of lookahead, no recursion deeper than the grammar, and an
//! error at the token where reading stopped.
//!
//! ```text
//! file      = { tag | query } .
//! tag       = "tag" number place { "," place } ";" .
//! place     = "module" name | "symbol" name
//!           | "pc" number ".." number [ "in" name ] .
//! query     = "for" selector { selector } rate [ "pair" number ]
//!             "collect" field { field } ";" clause { clause } .
//! selector  = class ( "*" | number ) .
//! rate      = "every" ( number | "auto" [ number "%" ] ) | "always" .
//! clause    = [ label ":" ] ( { test body "else" } body
//!           | test body { "else" test body } ) ";" .
//! test      = "if" condition [ "and" condition ] "then" .
//! body      = action { action } [ next ] | next .
//! action    = "send" number [ ".." number ] [ "or" "drop" ]
//!           | "count" | "interrupt" [ "sync" ] .
//! next      = "stop" | "next" | "goto" label .
//! condition = "true" | "false" | "filter" number
//!           | operand compare ( [ "-" ] number | operand )
//!           | operand ( "bset" | "bclr" ) ( number | operand ) .
//! compare   = "=" | "<>" | "<" | "<=" | ">" | ">=" .
//! operand   = ( [ "second" "." ] field | "distance" )
//!             [ "." type [ "@" number ] ] .
//! type      = "u8" | "u16" | "u32" | "u64" | "i8" | "i16" | "i32" | "i64" .
//! name      = word | '"' characters '"' .
//! number    = digits [ "k" | "M" ] | "0x" hexadecimal digits .
//! ```
//! Letters of keywords and mnemonics may be of either case. A comment starts with `#`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::ast::{
    Action, ActionKind, Arm, Body, Clause, Comments, Comparand, Condition, ConditionKind, Every,
    File, Item, Name, Next, Number, Operand, Part, Query, Selector, Tag, TagTarget,
};
use crate::class::ENTRIES;
use crate::diagnostic::{Diagnostic, Span, closest};
use crate::field::Field;
use crate::instruction::Relation;
use crate::lex::{Comment, Kind, Token, lex};
use crate::pair::Word;

/// Bytes of a text at most: queries are small, and positions and diagnostics stay cheap.
pub const MAX_TEXT: usize = 1 << 20;

/// Words that are no labels.
const KEYWORDS: [&str; 29] = [
    "tag",
    "module",
    "symbol",
    "pc",
    "in",
    "for",
    "every",
    "always",
    "collect",
    "if",
    "and",
    "then",
    "else",
    "send",
    "or",
    "drop",
    "count",
    "interrupt",
    "sync",
    "stop",
    "next",
    "goto",
    "true",
    "false",
    "filter",
    "bset",
    "bclr",
    "wait",
    "auto",
];

type Result<T> = core::result::Result<T, Box<Diagnostic>>;

/// The tree of a text.
///
/// # Errors
/// Where it stops to be a file of queries. Whether its names mean something is not looked at.
pub fn parse(text: &str) -> core::result::Result<File, Diagnostic> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes; {MAX_TEXT} is the limit", text.len());
        let fix = "divide it into several files";
        return Err(Diagnostic::error(Span::default(), message, fix));
    }
    let (tokens, comments) = lex(text)?;
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        comments,
        commented: 0,
    };
    parser.file().map_err(|error| *error)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    comments: Vec<Comment>,
    /// Comments that belong to statements before.
    commented: usize,
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        // The last token is the end, and is never passed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The span of the token that was taken last.
    fn before(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn written(&self, span: Span) -> &str {
        &self.text[span.start..span.end]
    }

    fn is_word(&self, word: &str) -> bool {
        let token = self.token();
        token.kind == Kind::Word && self.written(token.span).eq_ignore_ascii_case(word)
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token().kind, Kind::Sign(s) if s == sign)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }

    /// Returns what stands here, in words.
    fn found(&self) -> String {
        let token = self.token();
        match &token.kind {
            Kind::End => "the end of the text".to_string(),
            _ => format!("`{}`", self.written(token.span)),
        }
    }

    fn expected<T>(&self, what: &str, fix: &str) -> Result<T> {
        let message = format!("expected {what}, found {}", self.found());
        Err(Box::new(Diagnostic::error(self.span(), message, fix)))
    }

    fn number(&mut self, what: &str, fix: &str) -> Result<Number> {
        let Token { span, kind } = self.token().clone();
        let Kind::Number(value, form) = kind else {
            return self.expected(what, fix);
        };
        self.at += 1;
        Ok(Number { span, value, form })
    }

    /// A word that is no keyword.
    fn word(&mut self, what: &str, fix: &str) -> Result<Name> {
        let span = self.span();
        let text = self.written(span);
        let is_keyword = KEYWORDS.iter().any(|k| k.eq_ignore_ascii_case(text))
            && !text.eq_ignore_ascii_case("pc");
        if self.token().kind != Kind::Word || is_keyword {
            return self.expected(what, fix);
        }
        let text = text.to_string();
        self.at += 1;
        Ok(Name { span, text })
    }

    /// A name: a word or a text in quotation marks.
    fn name(&mut self, what: &str) -> Result<Name> {
        let span = self.span();
        let text = match &self.token().kind {
            Kind::Text(text) => text.clone(),
            Kind::Word => self.written(span).to_string(),
            _ => return self.expected(what, "write it in quotation marks: \"libz.so.1\""),
        };
        self.at += 1;
        if self.is_sign(".") || self.is_sign("-") {
            let fix = "write the whole name in quotation marks: \"libz.so.1\"";
            return self.expected("the end of the name", fix);
        }
        Ok(Name { span, text })
    }

    /// The `;` at the end of a statement that starts at `start`, and the statement's comments.
    fn end(&mut self, start: Span, what: &str, fix: &str) -> Result<(Span, Comments)> {
        if !self.take_sign(";") {
            return self.expected(what, fix);
        }
        let end = self.before();
        let mut comments = Comments::default();
        while let Some(comment) = self.comments.get(self.commented) {
            if comment.start < end.start {
                comments.before.push(comment.text.clone());
            } else if self.text[end.end..comment.start].contains('\n')
                || comment.start > self.span().start
            {
                break;
            } else {
                comments.after = Some(comment.text.clone());
            }
            self.commented += 1;
        }
        Ok((start.to(end), comments))
    }

    fn file(&mut self) -> Result<File> {
        let mut items = Vec::new();
        while self.token().kind != Kind::End {
            if self.is_word("tag") {
                items.push(Item::Tag(self.tag()?));
            } else if self.is_word("for") {
                items.push(Item::Query(self.query()?));
            } else {
                return self.expected(
                    "a query or a tag",
                    "a query starts with its header: `for opLOAD * every 256 collect pc;`",
                );
            }
        }
        let comments = self.comments[self.commented..].iter();
        Ok(File {
            items,
            comments: comments.map(|c| c.text.clone()).collect(),
        })
    }

    fn tag(&mut self) -> Result<Tag> {
        const FORM: &str = "write `tag 1 module \"libz.so.1\";`, or `symbol \"inflate\"`, or \
                            `pc 0x1000..0x2000`";
        let start = self.span();
        self.at += 1;
        let tag = self.number("a tag", "tags are 0 to 3: `tag 1 module \"libz.so.1\";`")?;
        let mut places = Vec::new();
        loop {
            places.push(if self.take_word("module") {
                TagTarget::Module(self.name("the name of a module")?)
            } else if self.take_word("symbol") {
                TagTarget::Symbol(self.name("the name of a function")?)
            } else if self.take_word("pc") {
                let form = "a range of addresses is written 0x1000..0x2000, the last one excluded";
                let from = self.number("an address", form)?;
                if !self.take_sign("..") {
                    return self.expected("`..`", form);
                }
                let to = self.number("an address", form)?;
                let module = match self.take_word("in") {
                    true => Some(self.name("the name of a module")?),
                    false => None,
                };
                TagTarget::Range { from, to, module }
            } else {
                return self.expected("`module`, `symbol` or `pc`", FORM);
            });
            if !self.take_sign(",") {
                break;
            }
        }
        let (span, comments) = self.end(start, "`,` or `;`", "end the tag with `;`")?;
        Ok(Tag {
            span,
            comments,
            tag,
            places,
        })
    }

    /// Returns what follows `auto`, if anything does.
    fn budget(&mut self) -> Result<Option<Number>> {
        if !matches!(self.token().kind, Kind::Number(..)) {
            return Ok(None);
        }
        const FIX: &str = "a budget is a percentage of the program's time: `every auto 5%`";
        let budget = self.number("a budget", FIX)?;
        match self.take_sign("%") {
            true => Ok(Some(budget)),
            false => self.expected("`%`", FIX),
        }
    }

    fn query(&mut self) -> Result<Query> {
        const HEADER: &str =
            "a header is written `for opLOAD * opSTORE 1 every 256 collect pc res2;`";
        let start = self.span();
        self.at += 1;
        let mut selectors = Vec::new();
        while !self.is_word("every") && !self.is_word("always") {
            let name = self.word("a class, an event, `every` or `always`", HEADER)?;
            let fix = format!("write `{} *` for all tags, or one of 0 to 3", name.text);
            let tag = match self.take_sign("*") {
                true => None,
                false => Some(self.number("`*` or a profile tag", &fix)?),
            };
            selectors.push(Selector {
                span: name.span.to(self.before()),
                name,
                tag,
            });
            if let Some(last) = selectors.get(ENTRIES) {
                let message = format!("more than {ENTRIES} classes and events");
                let fix = "there are no more: select each once";
                return Err(Box::new(Diagnostic::error(last.span, message, fix)));
            }
        }
        if selectors.is_empty() {
            return self.expected("a class of instructions or an event", HEADER);
        }
        let every = match self.take_word("every") {
            true if self.take_word("auto") => Every::Auto(self.budget()?),
            true => {
                let fix = "write `every 256`, `every auto 5%`, or `always`";
                Every::Number(self.number("a sampling rate", fix)?)
            }
            false => {
                self.at += 1;
                Every::Always
            }
        };
        let pair = match self.take_word("pair") {
            true => {
                let fix = "write `every 1k pair 16`: the second of a pair is one of the next 16";
                Some(self.number("the largest distance of pairs", fix)?)
            }
            false => None,
        };
        if !self.take_word("collect") {
            return self.expected("`collect`", HEADER);
        }
        let mut fields = Vec::new();
        while !self.is_sign(";") {
            fields.push(self.word("a field or `;`", "end the header with `;`")?);
            if fields.len() > Field::ALL.len() {
                let message = format!("more than {} fields", Field::ALL.len());
                let fix = "a record has seven words: collect at most seven fields, each once";
                return Err(Box::new(Diagnostic::error(self.before(), message, fix)));
            }
        }
        if fields.is_empty() {
            return self.expected("a field", "name what to collect: `collect pc res2`");
        }
        let (span, comments) = self.end(start, "`;`", HEADER)?;
        let mut clauses = Vec::new();
        while !(self.token().kind == Kind::End || self.is_word("for") || self.is_word("tag")) {
            clauses.push(self.clause()?);
        }
        Ok(Query {
            span,
            comments,
            selectors,
            every,
            pair,
            fields,
            clauses,
        })
    }

    fn clause(&mut self) -> Result<Clause> {
        let start = self.span();
        let after = self.tokens.get(self.at + 1).map(|t| &t.kind);
        let label = if self.token().kind == Kind::Word && after == Some(&Kind::Sign(":")) {
            let name = self.word("a label", "keywords are no labels: choose another name")?;
            self.at += 1;
            Some(name)
        } else {
            None
        };
        let mut arms = Vec::new();
        let mut otherwise = None;
        loop {
            let span = self.span();
            if !self.take_word("if") {
                otherwise = Some(self.body()?);
                break;
            }
            let mut conditions = alloc::vec![self.condition()?];
            if self.take_word("and") {
                conditions.push(self.condition()?);
            }
            if self.is_word("and") {
                let message = "a third comparison: a clause makes at most two";
                let fix = "put the first into a clause before: `if … then next else stop;`";
                return Err(Box::new(Diagnostic::error(self.span(), message, fix)));
            }
            if !self.take_word("then") {
                return self.expected("`then` or `and`", "write `if op1 <> 0 then send 3 stop;`");
            }
            let then = self.body()?;
            arms.push(Arm {
                span: span.to(self.before()),
                conditions,
                then,
            });
            if !self.take_word("else") {
                break;
            }
        }
        let (span, comments) = self.end(start, "`;`", "end the clause with `;`")?;
        Ok(Clause {
            span,
            comments,
            label,
            arms,
            otherwise,
        })
    }

    fn body(&mut self) -> Result<Body> {
        let start = self.span();
        let mut actions = Vec::new();
        while let Some(action) = self.action()? {
            actions.push(action);
        }
        let span = self.span();
        let next = if self.take_word("stop") {
            Some(Next::Stop(span))
        } else if self.take_word("next") {
            Some(Next::Next(span))
        } else if self.take_word("goto") {
            let fix = "write `goto rare`, and `rare:` before a clause below";
            Some(Next::Goto(span, self.word("a label", fix)?))
        } else {
            None
        };
        if actions.is_empty() && next.is_none() {
            if self.token().kind == Kind::Word {
                let actions = ["send", "count", "interrupt", "stop", "next", "goto", "if"];
                if let Some(meant) = closest(self.written(self.span()), actions) {
                    return self.expected("an action", &format!("write `{meant}`"));
                }
            }
            return self.expected(
                "an action",
                "there are `send 1`, `count`, `interrupt`, `interrupt sync`, and then `stop`, \
                 `next` or `goto label`",
            );
        }
        Ok(Body {
            span: start.to(self.before()),
            actions,
            next,
        })
    }

    fn action(&mut self) -> Result<Option<Action>> {
        let start = self.span();
        let kind = if self.take_word("send") {
            let first = self.number("a queue", "queues have numbers: `send 1`, `send 4..7`")?;
            let last = match self.take_sign("..") {
                true => Some(self.number("a queue", "several queues are written `send 4..7`")?),
                false => None,
            };
            let drop = self.take_word("or");
            if drop && !self.take_word("drop") {
                let fix = "write `or drop`; without it the thread waits for room in the queue";
                return self.expected("`drop`", fix);
            }
            ActionKind::Send { first, last, drop }
        } else if self.take_word("count") {
            ActionKind::Count
        } else if self.take_word("interrupt") {
            ActionKind::Interrupt {
                sync: self.take_word("sync"),
            }
        } else {
            return Ok(None);
        };
        Ok(Some(Action {
            span: start.to(self.before()),
            kind,
        }))
    }

    fn condition(&mut self) -> Result<Condition> {
        let start = self.span();
        let kind = if self.take_word("true") {
            ConditionKind::Constant(true)
        } else if self.take_word("false") {
            ConditionKind::Constant(false)
        } else if self.take_word("filter") {
            let fix = "filters are `filter 2`, `filter 4`, `filter 16`, `filter 256`";
            ConditionKind::Filter(self.number("the rate of a filter", fix)?)
        } else {
            self.comparison()?
        };
        Ok(Condition {
            span: start.to(self.before()),
            kind,
        })
    }

    fn comparison(&mut self) -> Result<ConditionKind> {
        const FORM: &str = "write `op1 <> 0`, `op1.u16@2 > 5`, `misc bset 1`, `filter 16`, `true`";
        let operand = self.operand(FORM)?;
        let set = self.is_word("bset");
        if set || self.is_word("bclr") {
            self.at += 1;
            let mask = self.comparand("a mask", "write `misc bset 0x3`")?;
            return Ok(ConditionKind::Bits { operand, set, mask });
        }
        let relation = Relation::ALL.into_iter().find(|r| self.is_sign(r.name()));
        let Some(relation) = relation else {
            let what = "a relation (=, <>, <, <=, >, >=, bset, bclr)";
            return self.expected(what, FORM);
        };
        self.at += 1;
        let with = self.comparand("a number or a field", "write `op1 <> 0` or `op1 < op2`")?;
        Ok(ConditionKind::Compare(operand, relation, with))
    }

    fn comparand(&mut self, what: &str, fix: &str) -> Result<Comparand> {
        let start = self.span();
        if self.take_sign("-") {
            let mut number = self.number("a number", fix)?;
            number.value = -number.value;
            number.span = start.to(number.span);
            return Ok(Comparand::Number(number));
        }
        match self.token().kind {
            Kind::Number(..) => Ok(Comparand::Number(self.number(what, fix)?)),
            Kind::Word => Ok(Comparand::Operand(self.operand(fix)?)),
            _ => self.expected(what, fix),
        }
    }

    fn operand(&mut self, fix: &str) -> Result<Operand> {
        let start = self.span();
        let second = self.is_word(Word::SECOND);
        if second {
            self.at += 1;
            if !self.take_sign(".") {
                return self.expected("`.`", "a field of the second is written `second.pc`");
            }
        }
        let field = self.word("a comparison", fix)?;
        let mut part = None;
        if self.take_sign(".") {
            const TYPES: &str = "a part of a field is written op1.u16@2: type and first byte; types \
                                 are u8, u16, u32, u64, i8, i16, i32, i64";
            let kind = self.word("a type", TYPES)?;
            let byte = match self.take_sign("@") {
                true => Some(self.number("the byte where the part starts", TYPES)?),
                false => None,
            };
            part = Some(Part {
                span: kind.span.to(self.before()),
                kind,
                byte,
            });
        }
        Ok(Operand {
            span: start.to(self.before()),
            second,
            field,
            part,
        })
    }
}
