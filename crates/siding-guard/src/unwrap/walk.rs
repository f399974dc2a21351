//! Goes through everything that a text runs.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::call::{Arg, Seen, Shape};
use super::expand::{self, ANY, Field, SURE};
use super::output;
use super::variables::Variables;
use crate::ast::{
    Assignment, GroupKind, Loop, LoopKind, Node, Piece, Redirect, Span, Statement, Word,
};
use crate::parse::{Fault, Origin, parse};

/// How deep texts in texts and functions in functions are followed.
const DEPTH_MAX: usize = 12;
/// Commands that are looked at in all: a text of 64 KiB has at most 32,768.
const STEPS_MAX: usize = 50_000;
/// Bytes that are read in all, texts in texts included.
const BYTES_MAX: usize = 512 << 10;
/// Values of variables that one command is looked at with.
const CHOICES_MAX: usize = 16;

/// Returns what a text runs, and what was not understood of it.
pub(crate) fn walk(text: &str) -> (Vec<Seen>, Vec<Fault>) {
    let mut walker = Walker::default();
    walker.queue_text(text.to_owned(), Origin::At(0), &Place::default());
    while let Some(work) = walker.queue.pop_front() {
        walker.work(work);
    }
    walker.finish()
}

/// What stands around a command.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Programs that write into its standard input.
    pub(super) upstream: Vec<String>,
    /// What stands on its standard input, if the text says so.
    pub(super) stdin: Option<Field>,
    /// A time limit is on it.
    pub(super) is_bounded: bool,
    /// The unknown program that perhaps runs it.
    pub(super) guessed_from: Option<String>,
}

/// Something that is still to be gone through. Texts in texts wait here instead of being gone
/// through at once, so that the stack does not grow with them.
struct Work {
    code: Code,
    place: Place,
    variables: Rc<Variables>,
    functions: Functions,
    depth: usize,
}

enum Code {
    Text { text: String, origin: Origin },
    Body(Rc<Statement>),
}

type Functions = Rc<HashMap<String, Rc<Statement>>>;

/// The state of going through.
#[derive(Default)]
pub(super) struct Walker {
    pub(super) seen: Vec<Seen>,
    faults: Vec<Fault>,
    queue: VecDeque<Work>,
    pub(super) variables: Rc<Variables>,
    pub(super) functions: Functions,
    depth: usize,
    /// Branches, loops and subshells around the command: it may not run, or not here.
    uncertain: usize,
    steps: usize,
    bytes: usize,
    sent_away: Vec<Span>,
}

impl Walker {
    /// Leaves a text for later.
    pub(super) fn queue_text(&mut self, text: String, origin: Origin, place: &Place) {
        self.bytes += text.len();
        if self.bytes > BYTES_MAX {
            self.too_deep(origin.place(0, text.len()));
            return;
        }
        self.queue(Code::Text { text, origin }, place);
    }

    /// Leaves a function for later, called with these arguments.
    pub(super) fn queue_body(&mut self, body: Rc<Statement>, args: Vec<String>, place: &Place) {
        let before = Rc::clone(&self.variables);
        Rc::make_mut(&mut self.variables).with_arguments(Some(args));
        self.queue(Code::Body(body), place);
        self.variables = before;
    }

    fn queue(&mut self, code: Code, place: &Place) {
        if self.depth > DEPTH_MAX || self.steps > STEPS_MAX {
            let span = match &code {
                Code::Text { origin, text } => origin.place(0, text.len()),
                Code::Body(body) => body.span,
            };
            self.too_deep(span);
            return;
        }
        self.queue.push_back(Work {
            code,
            place: place.clone(),
            variables: Rc::clone(&self.variables),
            functions: Rc::clone(&self.functions),
            depth: self.depth + 1,
        });
    }

    pub(super) fn shape(&mut self, shape: Shape, span: Span) {
        self.seen.push(Seen::Shape { shape, span });
    }

    pub(super) fn too_deep(&mut self, span: Span) {
        let is_new =
            !self.seen.iter().any(|seen| matches!(seen, Seen::Shape { shape: Shape::TooDeep, .. }));
        if is_new {
            self.shape(Shape::TooDeep, span);
        }
    }

    /// Counts a command; `false` when there were too many.
    pub(super) fn step(&mut self, span: Span) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.too_deep(span);
        }
        self.steps <= STEPS_MAX
    }

    fn work(&mut self, work: Work) {
        self.variables = work.variables;
        self.functions = work.functions;
        self.depth = work.depth;
        self.uncertain = 0;
        match work.code {
            Code::Text { text, origin } => {
                let parsed = parse(&text, origin);
                // A guess whether something is a text at all may fail.
                if work.place.guessed_from.is_none() {
                    self.faults.extend(parsed.faults);
                }
                self.sequence(&parsed.statements, &work.place);
            }
            Code::Body(body) => self.statement(&body, &work.place),
        }
    }

    fn finish(mut self) -> (Vec<Seen>, Vec<Fault>) {
        let waits = self.seen.iter().any(|seen| {
            matches!(seen, Seen::Call(call) if matches!(call.program.as_str(), "wait" | "fg"))
        });
        if !waits {
            for span in std::mem::take(&mut self.sent_away) {
                self.shape(Shape::SentAway, span);
            }
        }
        for fault in &self.faults {
            self.seen.push(Seen::Shape { shape: Shape::Unparsable, span: fault.span });
        }
        (self.seen, self.faults)
    }

    fn sequence(&mut self, statements: &[Statement], place: &Place) {
        for statement in statements {
            self.statement(statement, place);
        }
    }

    /// Goes through what runs in a shell of its own.
    fn elsewhere(&mut self, go: impl FnOnce(&mut Self)) {
        let before = Rc::clone(&self.variables);
        go(self);
        self.variables = before;
    }

    /// Goes through what may run.
    fn maybe(&mut self, statements: &[Statement], place: &Place) {
        self.uncertain += 1;
        self.sequence(statements, place);
        self.uncertain -= 1;
    }

    fn statement(&mut self, statement: &Statement, place: &Place) {
        if !self.step(statement.span) {
            return;
        }
        if statement.is_sent_away {
            self.sent_away.push(statement.span);
        }
        let mut own = None;
        for redirect in &statement.redirects {
            self.redirect(redirect, place, &mut own);
        }
        let place = own.as_ref().unwrap_or(place);
        match &statement.node {
            Node::Simple { assignments, words } => {
                self.simple(assignments, words, statement.span, place);
            }
            Node::Declaration { assignments, words } => {
                self.words(words, place);
                self.assign(assignments, place);
            }
            Node::Pipeline(stages) => self.pipeline(stages, place),
            Node::Chain(parts) => {
                if let Some((first, rest)) = parts.split_first() {
                    self.statement(first, place);
                    // `a=x && rm $a`: what an assignment alone sets is set.
                    self.sequence(rest, place);
                }
            }
            Node::Group { body, kind: GroupKind::Here } => self.sequence(body, place),
            Node::Group { body, kind: GroupKind::Subshell | GroupKind::Beside } => {
                self.elsewhere(|walker| walker.sequence(body, place));
            }
            Node::Branches { words, always, maybe } => {
                self.words(words, place);
                self.sequence(always, place);
                for branch in maybe {
                    self.maybe(branch, place);
                }
            }
            Node::Loop(each) => self.each(each, statement.span, place),
            Node::Function { name, body } => self.function(name.as_deref(), body, statement.span),
            Node::Words(words) => self.words(words, place),
        }
    }

    fn function(&mut self, name: Option<&str>, body: &Rc<Statement>, span: Span) {
        let Some(name) = name else {
            self.queue(Code::Body(Rc::clone(body)), &Place::default());
            return;
        };
        let mut own_calls = 0;
        output::each_simple(body, &mut |words| {
            let is_own = |word: &Word| word.fixed().is_some_and(|text| text == name);
            own_calls += usize::from(words.first().is_some_and(is_own));
        });
        if own_calls >= 2 {
            self.shape(Shape::ForkBomb, span);
        }
        Rc::make_mut(&mut self.functions).insert(name.to_owned(), Rc::clone(body));
        // Once without arguments, since somebody else may call it.
        self.queue(Code::Body(Rc::clone(body)), &Place::default());
    }

    fn pipeline(&mut self, stages: &[Statement], place: &Place) {
        let mut upstream = place.upstream.clone();
        let mut written = place.stdin.as_ref().map(|field| field.text.clone());
        for (number, stage) in stages.iter().enumerate() {
            let mut here = Place { upstream: upstream.clone(), ..place.clone() };
            if number > 0 {
                let at = None;
                here.stdin = written.clone().map(|text| Field {
                    text,
                    span: stages[0].span.to(stage.span),
                    at,
                    ..Field::default()
                });
            }
            self.elsewhere(|walker| walker.statement(stage, &here));
            written = output::of_statement(stage, written, &self.variables);
            upstream.extend(expand::programs(std::slice::from_ref(stage)));
        }
    }

    fn each(&mut self, each: &Loop, span: Span, place: &Place) {
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

    fn redirect(&mut self, redirect: &Redirect, place: &Place, own: &mut Option<Place>) {
        let (Redirect::Writes { to: word, .. }
        | Redirect::Reads(word)
        | Redirect::Given(word)
        | Redirect::Other(word)) = redirect;
        self.word(word, place);
        match redirect {
            Redirect::Writes { to, appends } => {
                for field in expand::fields(to, &self.variables, 0) {
                    let to = Arg { text: field.text, span: field.span };
                    let directory = self.directory();
                    self.seen.push(Seen::Write { to, appends: *appends, directory });
                }
            }
            Redirect::Given(word) => {
                let field = expand::joined(word, &self.variables, 0);
                let own = own.get_or_insert_with(|| place.clone());
                own.stdin = Some(field);
                own.upstream.clear();
            }
            Redirect::Reads(word) => {
                let field = expand::joined(word, &self.variables, 0);
                let own = own.get_or_insert_with(|| place.clone());
                // `bash < <(curl …)` reads what curl writes.
                let (programs, text) = field.process.clone().unwrap_or_default();
                own.upstream = programs;
                own.stdin = text.map(|text| Field { text, at: None, ..field });
            }
            Redirect::Other(_) => {}
        }
    }

    fn simple(&mut self, assignments: &[Assignment], words: &[Word], span: Span, place: &Place) {
        self.words(words, place);
        if words.is_empty() {
            self.assign(assignments, place);
            return;
        }
        let choices = expand::choices(words, &self.variables).min(CHOICES_MAX);
        let ways: Vec<Vec<Field>> = (0..choices)
            .map(|choice| {
                words
                    .iter()
                    .flat_map(|word| expand::fields(word, &self.variables, choice))
                    .collect()
            })
            .collect();
        // They hold for the command alone; a text that it runs sees them.
        let before = Rc::clone(&self.variables);
        self.assign(assignments, place);
        for fields in ways {
            self.call(&fields, span, place);
        }
        if !assignments.is_empty() {
            self.variables = before;
        }
        self.reads(words);
    }

    /// `read x` and its like make variables anything.
    fn reads(&mut self, words: &[Word]) {
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

    fn assign(&mut self, assignments: &[Assignment], place: &Place) {
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

    fn words(&mut self, words: &[Word], place: &Place) {
        for word in words {
            self.word(word, place);
        }
    }

    /// Goes through the commands in a word.
    fn word(&mut self, word: &Word, place: &Place) {
        for piece in &word.pieces {
            match piece {
                Piece::Text { .. } | Piece::Variable { default: None, .. } => {}
                Piece::Variable { default: Some(word), .. } => self.word(word, place),
                Piece::Output { body, .. } | Piece::Process { body } => {
                    let inside = Place { stdin: None, upstream: vec![], ..place.clone() };
                    self.elsewhere(|walker| walker.sequence(body, &inside));
                }
                Piece::Later { text, origin } => {
                    self.queue_text(text.clone(), *origin, &Place::default());
                }
                Piece::Unknown { words } => self.words(words, place),
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

    /// Returns the arguments of a call as they are kept.
    pub(super) fn kept(fields: &[Field]) -> Vec<Arg> {
        fields.iter().map(|field| Arg { text: field.text.clone(), span: field.span }).collect()
    }
}

/// Tells what a loop that looks and sleeps waits for.
fn waiter(condition: &[Seen], body: &[Seen]) -> Option<Shape> {
    let calls = |seen: &[Seen], wanted: &dyn Fn(&super::Call) -> bool| {
        seen.iter().any(|seen| matches!(seen, Seen::Call(call) if wanted(call)))
    };
    let sleeps = |call: &super::Call| call.program == "sleep";
    if !calls(body, &sleeps) && !calls(condition, &sleeps) {
        return None;
    }
    let looks_for_process = |call: &super::Call| {
        let zero = |arg: &Arg| arg.text == "-0";
        matches!(call.program.as_str(), "pgrep" | "pidof" | "ps" | "jobs")
            || call.program == "kill" && call.args.iter().any(zero)
    };
    if calls(condition, &looks_for_process) {
        return Some(Shape::ProcessWaiter);
    }
    // `while read line; do …; sleep 1; done` ends with its input.
    let reads = |call: &super::Call| matches!(call.program.as_str(), "read");
    (!calls(condition, &reads)).then_some(Shape::Polling)
}

/// Whether the name of a program is only known when it runs.
pub(super) fn is_dynamic_name(name: &str) -> bool {
    let base = expand::base(name);
    base.contains(ANY) && !base.starts_with(SURE)
}
