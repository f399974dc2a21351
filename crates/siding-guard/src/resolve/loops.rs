//! Walks loops: sets the possible values of loop variables, and detects loops that wait.

use std::rc::Rc;

use super::expand::{self, Field};
use super::observation::{Arg, Call, Construct, Observation};
use super::walk::{ExecContext, MAX_CHOICES, Walker};
use crate::ast::{Assignment, Loop, LoopKind, Node, Piece, Span, Statement, Word};

/// Programs that only pause, print or do nothing. A loop that runs only such programs makes no
/// progress.
const IDLE_PROGRAMS: &[&str] = &[":", "date", "echo", "printf", "sleep", "true", "usleep"];

impl Walker {
    pub(super) fn walk_loop(&mut self, each: &Loop, span: Span, context: &ExecContext) {
        self.walk_words(&each.words, context);
        if let Some(name) = &each.variable {
            let variables = &self.variables;
            let fields = each.words.iter().flat_map(|word| {
                let count = expand::count_choices(std::slice::from_ref(word), variables);
                (0..count.min(MAX_CHOICES))
                    .flat_map(|choice| expand::expand_fields(word, variables, choice))
            });
            let fields: Vec<Field> = fields.take(64).collect();
            if let Some(field) = fields.iter().find(|field| field.has_unexpanded_braces) {
                self.report_too_deep(field.span);
            }
            let values: Vec<String> = fields.into_iter().map(|field| field.text).collect();
            Rc::make_mut(&mut self.variables).set_alternatives(name, values);
        }
        if each.kind == LoopKind::Menu {
            let name = Field { text: "select".to_owned(), span, ..Field::default() };
            self.record_call("select", &name, &[], context);
        }
        let before = self.observations.len();
        self.walk_sequence(&each.condition, context);
        let behind_condition = self.observations.len();
        self.walk_alternatives(&[&each.body], context);
        if matches!(each.kind, LoopKind::For | LoopKind::Menu)
            || context.has_timeout
            || is_counted(each)
        {
            return;
        }
        let (condition, body) = self.observations[before..].split_at(behind_condition - before);
        if let Some(shape) = classify_wait_loop(each, condition, body) {
            self.report_construct(shape, span);
        }
    }
}

/// Returns the kind of wait if a loop polls for a process or another condition, or never ends;
/// `None` for any other loop. `condition` and `body` are the observations about these parts of the
/// loop.
fn classify_wait_loop(
    loop_node: &Loop,
    condition: &[Observation],
    body: &[Observation],
) -> Option<Construct> {
    if constant_condition(loop_node) == Some(false) {
        return None;
    }
    // A loop such as `while read line; do …; sleep 1; done` ends when its input ends, and `while
    // shift` ends when the arguments end, so neither loop waits.
    let ends = |call: &Call| {
        matches!(call.program.as_str(), "read" | "shift" | "getopts" | "mapfile" | "readarray")
    };
    if any_call(condition, &ends) {
        return None;
    }
    let sleeps = |call: &Call| matches!(call.program.as_str(), "sleep" | "usleep" | "inotifywait");
    let is_waiting = any_call(body, &sleeps) || any_call(condition, &sleeps);
    let is_idle = || all_calls(body, &|call| IDLE_PROGRAMS.contains(&call.program.as_str()));
    let looks_for_process = |call: &Call| {
        let zero = |arg: &Arg| arg.text == "-0";
        matches!(call.program.as_str(), "pgrep" | "pidof" | "ps" | "jobs")
            || call.program == "kill" && call.args.iter().any(zero)
    };
    if any_call(condition, &looks_for_process) && (is_waiting || is_idle()) {
        return Some(Construct::ProcessWaiter);
    }
    let never_ends =
        constant_condition(loop_node) == Some(true) && !may_leave_loop(&loop_node.body);
    let spins = any_call(condition, &|_| true) && is_idle();
    (is_waiting || never_ends || spins).then_some(Construct::Polling)
}

fn any_call(observations: &[Observation], wanted: &dyn Fn(&Call) -> bool) -> bool {
    observations.iter().any(|seen| matches!(seen, Observation::Call(call) if wanted(call)))
}

fn all_calls(observations: &[Observation], wanted: &dyn Fn(&Call) -> bool) -> bool {
    observations.iter().all(|seen| !matches!(seen, Observation::Call(call) if !wanted(call)))
}

/// Returns true for a loop whose condition always holds: `for ((;;))`, `while true`, `until false`,
/// `while :`, `while [ 1 ]`, `while ((1))`, `while sleep 1`. Returns false for a loop that never
/// runs its body, such as `while false`, and `None` for a loop with any other condition.
fn constant_condition(loop_node: &Loop) -> Option<bool> {
    if loop_node.kind == LoopKind::Endless {
        return Some(true);
    }
    let [Statement { node: Node::Simple { words, .. } | Node::Expression(words), .. }] =
        loop_node.condition.as_slice()
    else {
        return None;
    };
    let texts: Vec<String> = words.iter().map(Word::static_text).collect::<Option<_>>()?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let succeeds = match texts.as_slice() {
        ["true" | ":" | "1"] | ["[" | "test", "1", ..] | ["sleep", _] => true,
        ["false" | "0"] => false,
        _ => return None,
    };
    Some(succeeds != (loop_node.kind == LoopKind::Until))
}

/// Returns whether the body contains `break`, `exit` or `return`, or a `continue` of an outer loop.
fn may_leave_loop(body: &[Statement]) -> bool {
    any_statement(body, &|statement| matches!(statement.node, Node::Jump { leaves_loop: true, .. }))
}

/// Returns whether the condition or body of a loop counts or reads the clock, so that the loop
/// probably ends.
fn is_counted(loop_node: &Loop) -> bool {
    let is_clock = |piece: &Piece| match piece {
        Piece::Unknown { is_arithmetic: is_number, .. } => *is_number,
        Piece::Variable { name, .. } => matches!(name.as_str(), "SECONDS" | "EPOCHSECONDS"),
        Piece::CommandSubstitution { body, .. } => {
            let programs = expand::program_names(body);
            programs.iter().any(|program| matches!(program.as_str(), "date" | "expr"))
        }
        Piece::Text { .. } | Piece::ProcessSubstitution { .. } | Piece::Unparsed { .. } => false,
    };
    let in_word = |word: &Word| word.pieces.iter().any(is_clock);
    let in_value = |assignment: &Assignment| assignment.value.as_ref().is_some_and(in_word);
    let in_statement = |statement: &Statement| match &statement.node {
        Node::Simple { assignments, words } | Node::Declaration { assignments, words } => {
            let name = words.first().and_then(Word::static_text);
            assignments.iter().any(in_value)
                || name.is_some_and(|name| name == "let")
                // Arithmetic is evidence of a counter only in tests: `echo $((1+1))` counts
                // nothing.
                || !words.is_empty() && is_test_command(words) && words.iter().any(in_word)
        }
        Node::Expression(words) => words.iter().any(in_word),
        Node::Pipeline(_)
        | Node::Chain(_)
        | Node::Group { .. }
        | Node::Branches { .. }
        | Node::Loop(_)
        | Node::Function { .. }
        | Node::Jump { .. } => false,
    };
    let is_constant = constant_condition(loop_node).is_some();
    any_statement(&loop_node.body, &in_statement)
        || !is_constant && any_statement(&loop_node.condition, &in_statement)
}

fn is_test_command(words: &[Word]) -> bool {
    let name = words.first().and_then(Word::static_text);
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
            | Node::Expression(_)
            | Node::Jump { .. } => {}
        }
    }
    false
}
