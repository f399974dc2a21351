//! What commands do to variables, and loops over their values.

use std::rc::Rc;

use super::call::{Arg, Call, Seen, Shape};
use super::expand::{self, ANY, Field, SURE};
use super::walk::{CHOICES_MAX, Place, Walker};
use crate::ast::{Assignment, Loop, LoopKind, Span, Word};

impl Walker {
    /// `read x` and its like make variables anything.
    pub(super) fn reads(&mut self, words: &[Word]) {
        let mut texts = words.iter().map(|word| word.fixed().unwrap_or_default());
        match texts.next().as_deref() {
            Some("read" | "mapfile" | "readarray" | "getopts" | "unset") => {
                for name in texts.filter(|text| !text.starts_with('-')) {
                    Rc::make_mut(&mut self.variables).forget(&name);
                }
            }
            Some("printf") if texts.next().as_deref() == Some("-v") => {
                if let Some(name) = texts.next() {
                    Rc::make_mut(&mut self.variables).forget(&name);
                }
            }
            _ => {}
        }
    }

    pub(super) fn assign(&mut self, assignments: &[Assignment], place: &Place) {
        for assignment in assignments {
            self.words(&assignment.words, place);
            let Some(value) = &assignment.value else {
                Rc::make_mut(&mut self.variables).forget(&assignment.name);
                continue;
            };
            self.word(value, place);
            let is_certain = self.uncertain == 0 && !assignment.appends;
            let choices = expand::choices(std::slice::from_ref(value), &self.variables);
            let values: Vec<String> = (0..choices.min(CHOICES_MAX))
                .map(|choice| {
                    let text = expand::joined(value, &self.variables, choice).text;
                    let before = assignment.appends.then(|| {
                        let before = self.variables.get(&assignment.name, choice);
                        before.unwrap_or_else(|| ANY.to_string())
                    });
                    before.unwrap_or_default() + &text
                })
                .collect();
            let variables = Rc::make_mut(&mut self.variables);
            for (number, value) in values.into_iter().enumerate() {
                variables.set(&assignment.name, value, is_certain && number == 0);
            }
        }
    }

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
        let before = self.seen.len();
        self.sequence(&each.condition, place);
        let behind_condition = self.seen.len();
        self.maybe(&each.body, place);
        if each.kind == LoopKind::Until && !place.is_bounded {
            let (condition, body) = self.seen[before..].split_at(behind_condition - before);
            if let Some(shape) = waiter(condition, body) {
                self.shape(shape, span);
            }
        }
    }

    /// Follows `cd`.
    pub(super) fn enter(&mut self, args: &[Field]) {
        let to = args.iter().find(|field| !field.text.starts_with('-') || field.text == "-");
        let to = to.map_or("~", |field| field.text.as_str());
        let to = if to == "-" { SURE.to_string() } else { to.to_owned() };
        let is_whole = to.starts_with(['/', '~', ANY, SURE]);
        let directory = self.directory();
        let to = if is_whole || directory == "." { to } else { format!("{directory}/{to}") };
        // In a branch it may not run; the one before stays the first to be looked at.
        let is_certain = self.uncertain == 0;
        let variables = Rc::make_mut(&mut self.variables);
        if !is_certain {
            variables.set("PWD", directory, true);
        }
        variables.set("PWD", to, is_certain);
    }

    /// Returns the directory in which commands run now.
    pub(super) fn directory(&self) -> String {
        self.variables.get("PWD", 0).unwrap_or_else(|| ".".to_owned())
    }
}

/// Tells what a loop that looks and sleeps waits for.
fn waiter(condition: &[Seen], body: &[Seen]) -> Option<Shape> {
    let calls = |seen: &[Seen], wanted: &dyn Fn(&Call) -> bool| {
        seen.iter().any(|seen| matches!(seen, Seen::Call(call) if wanted(call)))
    };
    let sleeps = |call: &Call| call.program == "sleep";
    if !calls(body, &sleeps) && !calls(condition, &sleeps) {
        return None;
    }
    let looks_for_process = |call: &Call| {
        let zero = |arg: &Arg| arg.text == "-0";
        matches!(call.program.as_str(), "pgrep" | "pidof" | "ps" | "jobs")
            || call.program == "kill" && call.args.iter().any(zero)
    };
    if calls(condition, &looks_for_process) {
        return Some(Shape::ProcessWaiter);
    }
    // `while read line; do …; sleep 1; done` ends with its input.
    let reads = |call: &Call| matches!(call.program.as_str(), "read");
    (!calls(condition, &reads)).then_some(Shape::Polling)
}
