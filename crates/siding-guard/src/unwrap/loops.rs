//! Loops: over values, and those that wait.

use std::rc::Rc;

use super::call::{Arg, Call, Seen, Shape};
use super::expand::{self, Field};
use super::walk::{CHOICES_MAX, Place, Walker};
use crate::ast::{Assignment, Loop, LoopKind, Node, Piece, Span, Statement, Word};

/// Programs with which a loop spends its time.
const IDLE: &[&str] = &[":", "date", "echo", "printf", "sleep", "true", "usleep"];

impl Walker {
    pub(super) fn each(&mut self, each: &Loop, span: Span, place: &Place) {
        self.words(&each.words, place);
        if let Some(name) = &each.variable {
            let variables = &self.variables;
            let fields = each.words.iter().flat_map(|word| {
                let count = expand::choices(std::slice::from_ref(word), variables);
                (0..count.min(CHOICES_MAX))
                    .flat_map(|choice| expand::fields(word, variables, choice))
            });
            let values: Vec<String> = fields.take(64).map(|field| field.text).collect();
            Rc::make_mut(&mut self.variables).set_one_of(name, values);
        }
        if each.kind == LoopKind::Menu {
            let name = Field { text: "select".to_owned(), span, ..Field::default() };
            self.see("select", &name, &[], place);
        }
        let before = self.seen.len();
        self.sequence(&each.condition, place);
        let behind_condition = self.seen.len();
        self.maybe(&[&each.body], place);
        if matches!(each.kind, LoopKind::For | LoopKind::Menu) || place.is_bounded || counts(each) {
            return;
        }
        let (condition, body) = self.seen[before..].split_at(behind_condition - before);
        if let Some(shape) = waiter(each, condition, body) {
            self.shape(shape, span);
        }
    }
}

/// Tells what a loop without a count waits for.
fn waiter(each: &Loop, condition: &[Seen], body: &[Seen]) -> Option<Shape> {
    // `while read line; do …; sleep 1; done` ends with its input, `while shift` with its words.
    let ends = |call: &Call| {
        matches!(call.program.as_str(), "read" | "shift" | "getopts" | "mapfile" | "readarray")
    };
    if has(condition, &ends) {
        return None;
    }
    let sleeps = |call: &Call| matches!(call.program.as_str(), "sleep" | "usleep" | "inotifywait");
    let is_waiting = has(body, &sleeps) || has(condition, &sleeps);
    let is_idle = || all(body, &|call| IDLE.contains(&call.program.as_str()));
    let looks_for_process = |call: &Call| {
        let zero = |arg: &Arg| arg.text == "-0";
        matches!(call.program.as_str(), "pgrep" | "pidof" | "ps" | "jobs")
            || call.program == "kill" && call.args.iter().any(zero)
    };
    if has(condition, &looks_for_process) && (is_waiting || is_idle()) {
        return Some(Shape::ProcessWaiter);
    }
    let never_ends = is_always_true(each) && !leaves(&each.body);
    let spins = has(condition, &|_| true) && is_idle();
    (is_waiting || never_ends || spins).then_some(Shape::Polling)
}

fn has(seen: &[Seen], wanted: &dyn Fn(&Call) -> bool) -> bool {
    seen.iter().any(|seen| matches!(seen, Seen::Call(call) if wanted(call)))
}

fn all(seen: &[Seen], wanted: &dyn Fn(&Call) -> bool) -> bool {
    seen.iter().all(|seen| !matches!(seen, Seen::Call(call) if !wanted(call)))
}

/// `for ((;;))`, `while true`, `until false`, `while :`, `while [ 1 ]`, `while ((1))`.
fn is_always_true(each: &Loop) -> bool {
    if each.kind == LoopKind::Endless {
        return true;
    }
    let [Statement { node: Node::Simple { words, .. } | Node::Words(words), .. }] =
        each.condition.as_slice()
    else {
        return false;
    };
    let texts: Option<Vec<String>> = words.iter().map(Word::fixed).collect();
    let texts = texts.unwrap_or_default();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    matches!(
        texts.as_slice(),
        ["true" | ":" | "1" | "false"] | ["[" | "test", "1", ..] | ["sleep", _]
    )
}

/// Whether `break`, `exit` or `return` stands somewhere in it.
fn leaves(body: &[Statement]) -> bool {
    any_statement(body, &|statement| matches!(statement.node, Node::Leave(_)))
}

/// Whether a loop counts, or looks at the clock: then it has an end.
fn counts(each: &Loop) -> bool {
    let is_clock = |piece: &Piece| match piece {
        Piece::Unknown { is_number, .. } => *is_number,
        Piece::Variable { name, .. } => matches!(name.as_str(), "SECONDS" | "EPOCHSECONDS"),
        Piece::Output { body, .. } => {
            let programs = expand::programs(body);
            programs.iter().any(|program| matches!(program.as_str(), "date" | "expr"))
        }
        Piece::Text { .. } | Piece::Process { .. } | Piece::Later { .. } => false,
    };
    let in_word = |word: &Word| word.pieces.iter().any(is_clock);
    let in_value = |assignment: &Assignment| assignment.value.as_ref().is_some_and(in_word);
    let in_statement = |statement: &Statement| match &statement.node {
        Node::Simple { assignments, words } | Node::Declaration { assignments, words } => {
            let name = words.first().and_then(Word::fixed);
            assignments.iter().any(in_value)
                || name.is_some_and(|name| name == "let")
                // `echo $((1+1))` counts nothing.
                || !words.is_empty() && is_test(words) && words.iter().any(in_word)
        }
        Node::Words(words) => words.iter().any(in_word),
        Node::Pipeline(_)
        | Node::Chain(_)
        | Node::Group { .. }
        | Node::Branches { .. }
        | Node::Loop(_)
        | Node::Function { .. }
        | Node::Leave(_) => false,
    };
    let is_constant = is_always_true(each);
    any_statement(&each.body, &in_statement)
        || !is_constant && any_statement(&each.condition, &in_statement)
}

fn is_test(words: &[Word]) -> bool {
    let name = words.first().and_then(Word::fixed);
    name.is_some_and(|name| matches!(name.as_str(), "[" | "test" | ":"))
}

fn any_statement(body: &[Statement], wanted: &dyn Fn(&Statement) -> bool) -> bool {
    let mut open: Vec<&Statement> = body.iter().collect();
    while let Some(statement) = open.pop() {
        if wanted(statement) {
            return true;
        }
        match &statement.node {
            Node::Pipeline(inner) | Node::Chain(inner) | Node::Group { body: inner, .. } => {
                open.extend(inner);
            }
            Node::Branches { always, maybe, .. } => {
                open.extend(always);
                open.extend(maybe.iter().flatten());
            }
            Node::Loop(each) => {
                open.extend(&each.condition);
                open.extend(&each.body);
            }
            Node::Simple { .. }
            | Node::Declaration { .. }
            | Node::Function { .. }
            | Node::Words(_)
            | Node::Leave(_) => {}
        }
    }
    false
}
