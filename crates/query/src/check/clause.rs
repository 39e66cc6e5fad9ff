//! Clauses: their actions, where they branch to, and whether anything comes to them.

use alloc::format;
use alloc::vec::Vec;

use super::{Arm, Body, Checker, Clause, Clauses, Condition, Next, Query};
use crate::ast::{self, Name, Number};
use crate::diagnostic::closest;
use crate::instruction::{Action, Queues};

impl Checker<'_> {
    pub(super) fn clause(&mut self, at: usize, of: &mut Clauses<'_>) -> Clause {
        let clause = &of.query.clauses[at];
        let arms = clause.arms.iter();
        Clause {
            span: clause.span,
            arms: arms
                .map(|arm| {
                    let conditions = arm.conditions.iter();
                    let conditions = conditions.filter_map(|c| self.condition(c, of));
                    let conditions: Vec<Condition> = conditions.collect();
                    self.together(arm, &conditions, of);
                    Arm {
                        conditions,
                        then: self.body(&arm.then, at, of),
                    }
                })
                .collect(),
            otherwise: (clause.otherwise.as_ref()).map(|body| self.body(body, at, of)),
        }
    }

    fn body(&mut self, body: &ast::Body, at: usize, of: &mut Clauses<'_>) -> Body {
        let actions = body.actions.iter();
        let actions = actions.map(|action| match &action.kind {
            ast::ActionKind::Count => Action::Count,
            ast::ActionKind::Interrupt { sync } => Action::Interrupt { sync: *sync },
            ast::ActionKind::Send { first, last, drop } => {
                Action::Send(self.queues(first, last.as_ref(), *drop))
            }
        });
        Body {
            actions: actions.collect(),
            next: match &body.next {
                None | Some(ast::Next::Next(_)) => Next::Continue,
                Some(ast::Next::Stop(_)) => Next::Stop,
                Some(ast::Next::Goto(_, label)) => self.branch(label, at, of),
            },
        }
    }

    fn queues(&mut self, first: &Number, last: Option<&Number>, drop: bool) -> Queues {
        let mut queue = |number: &Number| {
            u8::try_from(number.value).unwrap_or_else(|_| {
                let message = format!("there is no queue {}", number.text());
                self.error(number.span, message, "queues are 0 to 255");
                0
            })
        };
        let from = queue(first);
        let to = last.map_or(from, queue);
        let most = Queues::MOST;
        if to < from || to - from >= most {
            let span = first.span.to(last.unwrap_or(first).span);
            let message = format!("a message cannot be spread over queues {from} to {to}");
            let fix =
                format!("write the lower number first, and at most {most} queues: `send 4..7`");
            self.error(span, message, fix);
        }
        Queues {
            first: from,
            count: (to.saturating_sub(from) + 1).min(most),
            drop,
        }
    }

    fn branch(&mut self, label: &Name, at: usize, of: &mut Clauses<'_>) -> Next {
        let named = |query: &ast::Query| {
            let has = |c: &ast::Clause| c.label.as_ref().is_some_and(|l| l.text == label.text);
            query.clauses.iter().position(has)
        };
        of.used.push(label.text.clone());
        if let Some(target) = named(of.query) {
            if target <= at {
                let line = self.line(of.query.clauses[target].span);
                let message = format!(
                    "branches go forward, and `{}` is in line {line}, before this",
                    label.text
                );
                let fix = "branches go forward, so that every query ends: move the clause below \
                           this one";
                self.error(label.span, message, fix);
                return Next::Stop;
            }
            return Next::Goto(target);
        }
        if let Some(other) = of.others.iter().find(|q| named(q).is_some()) {
            let line = self.line(other.span);
            let message = format!("`{}` is in another query, in line {line}", label.text);
            let fix = "branches stay within their query, as other queries collect other fields";
            self.error(label.span, message, fix);
            return Next::Stop;
        }
        let labels = of
            .query
            .clauses
            .iter()
            .filter_map(|c| Some(c.label.as_ref()?.text.as_str()));
        let fix = match closest(&label.text, labels) {
            Some(meant) => format!("write `{meant}`"),
            None => format!("write `{}:` before a clause below this one", label.text),
        };
        self.error(
            label.span,
            format!("there is no label `{}`", label.text),
            fix,
        );
        Next::Stop
    }

    /// Warns of clauses that no way leads to.
    pub(super) fn reachable(&mut self, query: &Query) {
        let mut reached = alloc::vec![false; query.clauses.len()];
        if let Some(first) = reached.first_mut() {
            *first = true;
        }
        for (at, clause) in query.clauses.iter().enumerate() {
            if !reached[at] {
                let fix = "remove it, or branch to it with a label";
                self.warn(clause.span, "no record comes to this clause", fix);
                continue;
            }
            let bodies = clause.arms.iter().map(|arm| &arm.then);
            let nexts = bodies.chain(&clause.otherwise).map(|body| body.next);
            let falls = clause.otherwise.is_none().then_some(Next::Continue);
            for next in nexts.chain(falls) {
                let to = match next {
                    Next::Continue => at + 1,
                    Next::Goto(to) => to,
                    Next::Stop => continue,
                };
                if let Some(reached) = reached.get_mut(to) {
                    *reached = true;
                }
            }
        }
    }
}
