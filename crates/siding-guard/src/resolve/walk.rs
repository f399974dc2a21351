//! Walks through all commands that a text runs, and collects observations about the text.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::expand::{self, Field};
use super::observation::{Arg, Construct, Observation};
use super::output;
use super::variables::Variables;
use crate::ast::{GroupKind, Node, Origin, Piece, Span, Statement, Word};
use crate::parse::{ParseError, parse};

/// Maximum nesting depth of texts and function calls.
const MAX_NESTING_DEPTH: usize = 12;
/// Maximum number of commands that are resolved. A single text of 64 KiB has at most 32,768
/// commands.
const MAX_STEPS: usize = 50_000;
/// Maximum number of bytes that are parsed in total, including nested texts.
const MAX_TOTAL_BYTES: usize = 512 << 10;
/// Maximum number of choices of variable values and directories with which one command is resolved.
pub(super) const MAX_CHOICES: usize = 16;

/// Returns the observations about a text that runs with these additional variables in its
/// environment, and whether the whole text could be parsed. The spans are those of
/// [`text_with_environment`].
pub(crate) fn walk(text: &str, environment: &[(String, String)]) -> (Vec<Observation>, bool) {
    // `${x@P}` runs the substitutions in the value of `x`, which may be any variable.
    let mut walker = Walker { expands_values: text.contains("@P}"), ..Walker::default() };
    let context = ExecContext::default();
    let mut start = 0;
    for (name, value) in environment {
        let line = environment_line(name, value);
        let span = Span { start, end: start + line.len() - 1 };
        let field = Field { text: value.clone(), span, ..Field::default() };
        walker.assign_option(name, field, &context);
        start += line.len();
    }
    walker.queue_text(text.to_owned(), Origin::Verbatim(start), &context);
    while let Some(item) = walker.queue.pop_front() {
        walker.run_item(item);
    }
    walker.finish()
}

/// Returns the text that the spans of [`walk`] refer to: a line for each variable, then the text.
pub(crate) fn text_with_environment(text: &str, environment: &[(String, String)]) -> String {
    let lines = environment.iter().map(|(name, value)| environment_line(name, value));
    lines.chain([text.to_owned()]).collect()
}

fn environment_line(name: &str, value: &str) -> String {
    format!("{name}={value}\n")
}

/// The execution context of a command, which follows from the command's place in the text.
#[derive(Debug, Clone, Default)]
pub(super) struct ExecContext {
    /// Names of the programs before the command in its pipeline.
    pub(super) upstream: Vec<String>,
    /// Names of the programs that read the output of the command.
    pub(super) downstream: Vec<String>,
    /// The content of the standard input, if the text determines it.
    pub(super) stdin: Option<Field>,
    /// Whether standard input is a pipe or a file. Also true in the body of a function that is
    /// walked without a call, where this is unknown.
    pub(super) has_redirected_stdin: bool,
    /// Path of the file that the redirection `<` makes the standard input; `None` without such a
    /// redirection, and for `< <(…)`.
    pub(super) stdin_file: Option<String>,
    /// Whether a wrapper such as `timeout` limits the run time of the command.
    pub(super) has_timeout: bool,
    /// The unknown program in whose arguments the command was found, or the text `code of NAME` if
    /// the command was found in code for the interpreter NAME. In both cases, the guard only
    /// guesses that the command runs.
    pub(super) unknown_wrapper: Option<String>,
    /// Whether the command is in the body of a function that is walked without a call, so that the
    /// positional parameters are unknown.
    pub(super) is_function_definition: bool,
}

/// A text or function body that has not been walked yet. Nested texts are queued, because a
/// recursive walk of deeply nested texts could overflow the stack.
struct WorkItem {
    code: WorkCode,
    context: ExecContext,
    variables: Rc<Variables>,
    functions: FunctionTable,
    depth: usize,
}

enum WorkCode {
    Text { text: String, origin: Origin, source: CodeSource },
    Body(Rc<Statement>),
}

/// How a shell receives a text. This determines which commands read the shell's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeSource {
    /// As an argument, for example of `bash -c`. This variant is also used for the judged text
    /// itself.
    Word,
    /// As the argument of `eval`, whose commands share the standard input of the shell.
    Eval,
    /// On standard input. The shell does not run a line that one of the commands reads.
    Stdin,
}

type FunctionTable = Rc<HashMap<String, Rc<Statement>>>;

#[derive(Default)]
pub(super) struct Walker {
    pub(super) observations: Vec<Observation>,
    errors: Vec<ParseError>,
    queue: VecDeque<WorkItem>,
    pub(super) variables: Rc<Variables>,
    pub(super) functions: FunctionTable,
    depth: usize,
    /// Index of the working directory that is assumed for the current command, among the possible
    /// directories.
    pub(super) directory_choice: usize,
    /// The directories that a `cd` in the current command may select.
    pub(super) cd_targets: Vec<String>,
    step_count: usize,
    /// The depth of nested calls of [`Walker::resolve_call`].
    pub(super) call_depth: usize,
    total_bytes: usize,
    /// Whether the text contains `${x@P}`, which expands the value of a variable a second time.
    pub(super) expands_values: bool,
    background_spans: Vec<Span>,
}

impl Walker {
    /// Queues a text that a shell receives as an argument.
    pub(super) fn queue_text(&mut self, text: String, origin: Origin, context: &ExecContext) {
        self.queue_text_from(text, origin, context, CodeSource::Word);
    }

    /// Queues a text that a shell receives from `source`.
    pub(super) fn queue_text_from(
        &mut self,
        text: String,
        origin: Origin,
        context: &ExecContext,
        source: CodeSource,
    ) {
        self.total_bytes += text.len();
        if self.total_bytes > MAX_TOTAL_BYTES {
            self.report_too_deep(origin.span(0, text.len()));
            return;
        }
        self.enqueue(WorkCode::Text { text, origin, source }, context);
    }

    /// Queues the body of a function for a call with these arguments.
    pub(super) fn queue_function(
        &mut self,
        body: Rc<Statement>,
        args: Vec<String>,
        context: &ExecContext,
    ) {
        let before = Rc::clone(&self.variables);
        Rc::make_mut(&mut self.variables).replace_arguments(Some(args));
        self.enqueue(WorkCode::Body(body), context);
        self.variables = before;
    }

    fn enqueue(&mut self, code: WorkCode, context: &ExecContext) {
        if self.depth > MAX_NESTING_DEPTH || self.step_count > MAX_STEPS {
            let span = match &code {
                WorkCode::Text { origin, text, .. } => origin.span(0, text.len()),
                WorkCode::Body(body) => body.span,
            };
            self.report_too_deep(span);
            return;
        }
        self.queue.push_back(WorkItem {
            code,
            context: context.clone(),
            variables: Rc::clone(&self.variables),
            functions: Rc::clone(&self.functions),
            depth: self.depth + 1,
        });
    }

    pub(super) fn report_construct(&mut self, shape: Construct, span: Span) {
        self.observations.push(Observation::Construct { construct: shape, span, detail: None });
    }

    pub(super) fn report_too_deep(&mut self, span: Span) {
        let is_new = !self.observations.iter().any(|seen| {
            matches!(seen, Observation::Construct { construct: Construct::TooDeep, .. })
        });
        if is_new {
            self.report_construct(Construct::TooDeep, span);
        }
    }

    /// Counts a resolved command. Returns false if [`MAX_STEPS`] is exceeded.
    pub(super) fn count_step(&mut self, span: Span) -> bool {
        self.step_count += 1;
        if self.step_count > MAX_STEPS {
            self.report_too_deep(span);
        }
        self.step_count <= MAX_STEPS
    }

    fn run_item(&mut self, work: WorkItem) {
        self.variables = work.variables;
        self.functions = work.functions;
        self.depth = work.depth;
        self.directory_choice = 0;
        match work.code {
            WorkCode::Text { text, origin, source: carrier } => {
                let parsed = parse(&text, origin);
                // A parse error in an argument of an unknown program is not reported, because the
                // argument may not be a shell text.
                if work.context.unknown_wrapper.is_none() {
                    self.errors.extend(parsed.errors);
                }
                self.walk_checking_stdin(&parsed.statements, &work.context, carrier);
            }
            WorkCode::Body(body) => self.walk_statement(&body, &work.context),
        }
    }

    fn finish(mut self) -> (Vec<Observation>, bool) {
        if !self.observations.iter().any(awaits_background) {
            for span in std::mem::take(&mut self.background_spans) {
                self.report_construct(Construct::SentAway, span);
            }
        }
        self.report_unwritten_fifos();
        let is_understood = self.errors.is_empty();
        self.observations.extend(self.errors.into_iter().map(|error| Observation::Construct {
            construct: Construct::Unparsable,
            span: error.span,
            detail: Some(error.message),
        }));
        (self.observations, is_understood)
    }

    pub(super) fn walk_sequence(&mut self, statements: &[Statement], context: &ExecContext) {
        for statement in statements {
            let before = is_cd(statement).then(|| Rc::clone(&self.variables));
            self.walk_statement(statement, context);
            if let Some(before) = before {
                self.allow_failed_cd(&before);
            }
        }
    }

    /// Walks the parts of a chain after the first. Whether a part runs depends on the result of the
    /// previous part, so the variable values of both cases become possible.
    fn walk_chain_rest(&mut self, parts: &[Statement], context: &ExecContext) {
        let before = Rc::clone(&self.variables);
        for part in parts {
            self.walk_statement(part, context);
        }
        let after = std::mem::replace(&mut self.variables, before);
        if !Rc::ptr_eq(&self.variables, &after) {
            Rc::make_mut(&mut self.variables).merge(&after);
        }
    }

    /// Walks commands that run in a subshell, and then restores the variables, because a subshell
    /// does not change those of the shell.
    fn in_subshell(&mut self, body: impl FnOnce(&mut Self)) {
        let before = Rc::clone(&self.variables);
        body(self);
        self.variables = before;
    }

    /// Walks alternatives, each of which may run. The variable values of all alternatives become
    /// possible.
    pub(super) fn walk_alternatives(&mut self, parts: &[&[Statement]], context: &ExecContext) {
        let before = Rc::clone(&self.variables);
        let mut after = Rc::clone(&before);
        for part in parts {
            self.variables = Rc::clone(&before);
            self.walk_sequence(part, context);
            if !Rc::ptr_eq(&self.variables, &before) {
                Rc::make_mut(&mut after).merge(&self.variables);
            }
        }
        self.variables = after;
    }

    fn walk_statement(&mut self, statement: &Statement, context: &ExecContext) {
        if !self.count_step(statement.span) {
            return;
        }
        if statement.is_background {
            self.background_spans.push(statement.span);
        }
        let mut redirected = None;
        for redirect in &statement.redirects {
            self.walk_redirect(redirect, context, &mut redirected);
        }
        let context = redirected.as_ref().unwrap_or(context);
        match &statement.node {
            Node::Simple { assignments, words } => {
                self.walk_simple(assignments, words, statement.span, context);
            }
            Node::Declaration { assignments, words } => {
                self.queue_word_subscripts(words);
                self.walk_words(words, context);
                self.assign(assignments, context);
            }
            Node::Pipeline(stages) => self.walk_pipeline(stages, context),
            Node::Chain(parts) => {
                if let Some((first, rest)) = parts.split_first() {
                    self.walk_statement(first, context);
                    self.walk_chain_rest(rest, context);
                }
            }
            Node::Group { body, kind: GroupKind::CurrentShell } => {
                self.walk_sequence(body, context)
            }
            Node::Group { body, kind: GroupKind::Subshell | GroupKind::Coprocess } => {
                self.in_subshell(|walker| walker.walk_sequence(body, context));
            }
            Node::Branches { words, always, maybe } => {
                self.walk_words(words, context);
                self.walk_sequence(always, context);
                let parts: Vec<&[Statement]> = maybe.iter().map(Vec::as_slice).collect();
                self.walk_alternatives(&parts, context);
            }
            Node::Loop(each) => self.walk_loop(each, statement.span, context),
            Node::Function { name, body } => {
                self.define_function(name.as_deref(), body, statement.span)
            }
            Node::Expression(words) => {
                self.queue_word_subscripts(words);
                self.walk_words(words, context);
            }
            Node::Jump { words, .. } => self.walk_words(words, context),
        }
        if matches!(statement.node, Node::Simple { .. } | Node::Pipeline(_)) {
            self.record_writes(statement, context);
        }
    }

    fn define_function(&mut self, name: Option<&str>, body: &Rc<Statement>, span: Span) {
        let Some(name) = name else {
            self.enqueue(WorkCode::Body(Rc::clone(body)), &ExecContext::default());
            return;
        };
        let mut own_calls = 0;
        output::for_each_simple(body, &mut |words| {
            let is_own = |word: &Word| word.static_text().is_some_and(|text| text == name);
            own_calls += usize::from(words.first().is_some_and(is_own));
        });
        if own_calls >= 2 {
            self.report_construct(Construct::ForkBomb, span);
        }
        Rc::make_mut(&mut self.functions).insert(name.to_owned(), Rc::clone(body));
        // The body is walked once without a call, because a command outside of the text may call
        // the function.
        let context = ExecContext {
            is_function_definition: true,
            has_redirected_stdin: true,
            ..ExecContext::default()
        };
        self.enqueue(WorkCode::Body(Rc::clone(body)), &context);
    }

    fn walk_pipeline(&mut self, stages: &[Statement], context: &ExecContext) {
        let mut upstream = context.upstream.clone();
        let mut stdin = context.stdin.as_ref().map(|field| field.text.clone());
        for (number, stage) in stages.iter().enumerate() {
            let mut here = ExecContext { upstream: upstream.clone(), ..context.clone() };
            here.downstream.extend(expand::program_names(&stages[number + 1..]));
            if number > 0 {
                let at = None;
                here.has_redirected_stdin = true;
                here.stdin = stdin.clone().map(|text| Field {
                    text,
                    span: stages[0].span.join(stage.span),
                    offset: at,
                    ..Field::default()
                });
            }
            self.in_subshell(|walker| walker.walk_statement(stage, &here));
            stdin = output::statement_output(stage, stdin, &self.variables);
            upstream.extend(expand::program_names(std::slice::from_ref(stage)));
        }
    }

    pub(super) fn walk_words(&mut self, words: &[Word], context: &ExecContext) {
        for word in words {
            self.walk_word(word, context);
        }
    }

    /// Walks the commands in the substitutions of a word.
    pub(super) fn walk_word(&mut self, word: &Word, context: &ExecContext) {
        for piece in &word.pieces {
            match piece {
                Piece::Text { .. } | Piece::Variable { default: None, .. } => {}
                Piece::Variable { default: Some(word), .. } => self.walk_word(word, context),
                Piece::CommandSubstitution { body, .. } | Piece::ProcessSubstitution { body } => {
                    let inside = ExecContext { stdin: None, upstream: vec![], ..context.clone() };
                    self.in_subshell(|walker| walker.walk_sequence(body, &inside));
                }
                Piece::Unparsed { text, origin } => {
                    self.queue_text(text.clone(), *origin, &ExecContext::default());
                }
                Piece::Unknown { words, .. } => self.walk_words(words, context),
            }
        }
    }

    /// Converts the fields of a call to the arguments in an [`Observation`].
    pub(super) fn to_args(fields: &[Field]) -> Vec<Arg> {
        fields.iter().map(|field| Arg { text: field.text.clone(), span: field.span }).collect()
    }
}

/// Returns whether a command waits for a background command or stops it: `wait`, `fg`, `kill $!`,
/// `kill %1`.
fn awaits_background(observation: &Observation) -> bool {
    let Observation::Call(call) = observation else { return false };
    let is_own =
        |arg: &Arg| arg.text.starts_with('%') || arg.text.starts_with(expand::NONEMPTY_MARKER);
    match call.program.as_str() {
        "wait" | "fg" => true,
        "kill" => call.args.iter().any(is_own),
        _ => false,
    }
}

/// Returns whether the statement consists only of a `cd` or `pushd`.
fn is_cd(statement: &Statement) -> bool {
    let Node::Simple { words, .. } = &statement.node else { return false };
    words
        .first()
        .and_then(Word::static_text)
        .is_some_and(|name| matches!(name.as_str(), "cd" | "pushd"))
}
