//! Goes through everything that a text runs.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::call::{Arg, Seen, Shape};
use super::expand::{self, Field};
use super::output;
use super::variables::Variables;
use crate::ast::{GroupKind, Node, Piece, Span, Statement, Word};
use crate::parse::{Fault, Origin, parse};

/// How deep texts in texts and functions in functions are followed.
const DEPTH_MAX: usize = 12;
/// Commands that are looked at in all: a text of 64 KiB has at most 32,768.
const STEPS_MAX: usize = 50_000;
/// Bytes that are read in all, texts in texts included.
const BYTES_MAX: usize = 512 << 10;
/// Values of variables that one command is looked at with.
pub(super) const CHOICES_MAX: usize = 16;

/// Returns what a text runs, and whether all of it was understood.
pub(crate) fn walk(text: &str) -> (Vec<Seen>, bool) {
    // `${x@P}` runs what is substituted in the value of any variable.
    let mut walker = Walker { expands_values: text.contains("@P}"), ..Walker::default() };
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
    /// Programs that read what it writes.
    pub(super) downstream: Vec<String>,
    /// What stands on its standard input, if the text says so.
    pub(super) stdin: Option<Field>,
    /// Its standard input is a pipe or a file.
    pub(super) has_input: bool,
    /// The file that is its standard input.
    pub(super) input: Option<String>,
    /// A time limit is on it.
    pub(super) is_bounded: bool,
    /// The unknown program that perhaps runs it.
    pub(super) guessed_from: Option<String>,
    /// It is the body of a function, without a call: its arguments are anybody's.
    pub(super) is_definition: bool,
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
    Text { text: String, origin: Origin, carrier: Carrier },
    Body(Rc<Statement>),
}

/// How a text gets to the shell that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// As a word, or it is the judged text itself.
    Word,
    /// By `eval`: the commands in it read what the shell reads.
    Eval,
    /// By standard input: what a command in it reads there does not run.
    Input,
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
    /// Which of the directories that it may run in is looked at.
    pub(super) place_choice: usize,
    /// Where a `cd` of the command that is looked at leads.
    pub(super) entered: Vec<String>,
    steps: usize,
    /// Calls of [`Walker::call`] in one another.
    pub(super) calls_open: usize,
    bytes: usize,
    /// Values of variables are expanded once more somewhere.
    pub(super) expands_values: bool,
    sent_away: Vec<Span>,
}

impl Walker {
    /// Leaves a text for later.
    pub(super) fn queue_text(&mut self, text: String, origin: Origin, place: &Place) {
        self.queue_carried(text, origin, place, Carrier::Word);
    }

    /// The same for a text that does not come as a word.
    pub(super) fn queue_carried(
        &mut self,
        text: String,
        origin: Origin,
        place: &Place,
        carrier: Carrier,
    ) {
        self.bytes += text.len();
        if self.bytes > BYTES_MAX {
            self.too_deep(origin.place(0, text.len()));
            return;
        }
        self.queue(Code::Text { text, origin, carrier }, place);
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
                Code::Text { origin, text, .. } => origin.place(0, text.len()),
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
        self.seen.push(Seen::Shape { shape, span, detail: None });
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
        self.place_choice = 0;
        match work.code {
            Code::Text { text, origin, carrier } => {
                let parsed = parse(&text, origin);
                // A guess whether something is a text at all may fail.
                if work.place.guessed_from.is_none() {
                    self.faults.extend(parsed.faults);
                }
                self.carried(&parsed.statements, &work.place, carrier);
            }
            Code::Body(body) => self.statement(&body, &work.place),
        }
    }

    fn finish(mut self) -> (Vec<Seen>, bool) {
        if !self.seen.iter().any(is_awaiting) {
            for span in std::mem::take(&mut self.sent_away) {
                self.shape(Shape::SentAway, span);
            }
        }
        self.empty_pipes();
        let is_understood = self.faults.is_empty();
        self.seen.extend(self.faults.into_iter().map(|fault| Seen::Shape {
            shape: Shape::Unparsable,
            span: fault.span,
            detail: Some(fault.what),
        }));
        (self.seen, is_understood)
    }

    pub(super) fn sequence(&mut self, statements: &[Statement], place: &Place) {
        for statement in statements {
            let before = is_enter(statement).then(|| Rc::clone(&self.variables));
            self.statement(statement, place);
            if let Some(before) = before {
                self.may_have_stayed(&before);
            }
        }
    }

    /// Goes through the further parts of a chain: where one fails, the next does not run.
    fn chained(&mut self, parts: &[Statement], place: &Place) {
        let before = Rc::clone(&self.variables);
        for part in parts {
            self.statement(part, place);
        }
        let after = std::mem::replace(&mut self.variables, before);
        if !Rc::ptr_eq(&self.variables, &after) {
            Rc::make_mut(&mut self.variables).join(&after);
        }
    }

    /// Goes through what runs in a shell of its own.
    fn elsewhere(&mut self, go: impl FnOnce(&mut Self)) {
        let before = Rc::clone(&self.variables);
        go(self);
        self.variables = before;
    }

    /// Goes through parts of which each may run: what they leave behind becomes possible.
    pub(super) fn maybe(&mut self, parts: &[&[Statement]], place: &Place) {
        let before = Rc::clone(&self.variables);
        let mut after = Rc::clone(&before);
        for part in parts {
            self.variables = Rc::clone(&before);
            self.sequence(part, place);
            if !Rc::ptr_eq(&self.variables, &before) {
                Rc::make_mut(&mut after).join(&self.variables);
            }
        }
        self.variables = after;
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
                self.evaluated_words(words);
                self.words(words, place);
                self.assign(assignments, place);
            }
            Node::Pipeline(stages) => self.pipeline(stages, place),
            Node::Chain(parts) => {
                if let Some((first, rest)) = parts.split_first() {
                    self.statement(first, place);
                    self.chained(rest, place);
                }
            }
            Node::Group { body, kind: GroupKind::Here } => self.sequence(body, place),
            Node::Group { body, kind: GroupKind::Subshell | GroupKind::Beside } => {
                self.elsewhere(|walker| walker.sequence(body, place));
            }
            Node::Branches { words, always, maybe } => {
                self.words(words, place);
                self.sequence(always, place);
                let parts: Vec<&[Statement]> = maybe.iter().map(Vec::as_slice).collect();
                self.maybe(&parts, place);
            }
            Node::Loop(each) => self.each(each, statement.span, place),
            Node::Function { name, body } => self.function(name.as_deref(), body, statement.span),
            Node::Words(words) => {
                self.evaluated_words(words);
                self.words(words, place);
            }
            Node::Leave(words) => self.words(words, place),
        }
        if matches!(statement.node, Node::Simple { .. } | Node::Pipeline(_)) {
            self.writes(statement, place);
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
        let place = Place { is_definition: true, has_input: true, ..Place::default() };
        self.queue(Code::Body(Rc::clone(body)), &place);
    }

    fn pipeline(&mut self, stages: &[Statement], place: &Place) {
        let mut upstream = place.upstream.clone();
        let mut written = place.stdin.as_ref().map(|field| field.text.clone());
        for (number, stage) in stages.iter().enumerate() {
            let mut here = Place { upstream: upstream.clone(), ..place.clone() };
            here.downstream.extend(expand::programs(&stages[number + 1..]));
            if number > 0 {
                let at = None;
                here.has_input = true;
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

    pub(super) fn words(&mut self, words: &[Word], place: &Place) {
        for word in words {
            self.word(word, place);
        }
    }

    /// Goes through the commands in a word.
    pub(super) fn word(&mut self, word: &Word, place: &Place) {
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
                Piece::Unknown { words, .. } => self.words(words, place),
            }
        }
    }

    /// Returns the arguments of a call as they are kept.
    pub(super) fn kept(fields: &[Field]) -> Vec<Arg> {
        fields.iter().map(|field| Arg { text: field.text.clone(), span: field.span }).collect()
    }
}

/// Whether somebody waits for, or ends, what was sent away: `wait`, `fg`, `kill $!`, `kill %1`.
fn is_awaiting(seen: &Seen) -> bool {
    let Seen::Call(call) = seen else { return false };
    let is_own = |arg: &Arg| arg.text.starts_with('%') || arg.text.starts_with(expand::SURE);
    match call.program.as_str() {
        "wait" | "fg" => true,
        "kill" => call.args.iter().any(is_own),
        _ => false,
    }
}

/// Whether it is nothing but a `cd`.
fn is_enter(statement: &Statement) -> bool {
    let Node::Simple { words, .. } = &statement.node else { return false };
    words.first().and_then(Word::fixed).is_some_and(|name| matches!(name.as_str(), "cd" | "pushd"))
}
