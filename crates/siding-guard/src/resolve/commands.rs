//! Resolves one command: finds the commands that its program runs according to the arguments.

use std::rc::Rc;

use super::expand::{Field, NONEMPTY_MARKER, PID_LOOKUP_MARKER, UNKNOWN_MARKER, basename};
use super::observation::{Call, Construct, Observation};
use super::variables::conventional_program;
use super::walk::{CodeSource, ExecContext, Walker};
use super::{code_arguments, interpreter_code, programs, wrappers};
use crate::ast::{Origin, Span};

/// Shells, whose `-c` argument, script file or standard input is a shell text.
pub(super) const SHELLS: &[&str] = &[
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "rbash", "sh",
    "tcsh", "xonsh", "zsh",
];

/// Interpreters that run code from standard input. A version number may follow the name.
pub(super) const INTERPRETERS: &[&str] = &["lua", "node", "perl", "php", "pypy", "python", "ruby"];

/// Programs whose output cannot be seen in the text, because the output comes from another machine,
/// or is decoded or otherwise transformed.
const OPAQUE_PROGRAMS: &[&str] = &[
    "aria2c", "base32", "base64", "bunzip2", "curl", "fetch", "gpg", "gunzip", "http", "nc",
    "ncat", "openssl", "rev", "socat", "tr", "uudecode", "wget", "xxd", "xz", "zcat",
];

/// Builtins that evaluate subscripts in their arguments, including quoted arguments.
const SUBSCRIPT_EVALUATING_BUILTINS: &[&str] = &[
    "[",
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "test",
    "typeset",
    "unset",
    "wait",
];

/// Maximum number of wrappers that are nested in one command.
const MAX_NESTED_WRAPPERS: usize = 64;

/// Maximum nesting depth of programs that construct their command, such as `xargs`.
const MAX_NESTED_CALLS: usize = 16;

/// Maximum number of suffixes of an unknown program's argument list that are tried as commands.
const MAX_GUESSED_SUFFIXES: usize = 8;

impl Walker {
    /// Resolves one command, whose words are already expanded.
    pub(super) fn resolve_call(&mut self, fields: &[Field], span: Span, context: &ExecContext) {
        // Each level of `xargs xargs xargs …` recurses into this function, so the depth is limited.
        if self.call_depth >= MAX_NESTED_CALLS {
            self.report_too_deep(span);
            return;
        }
        self.call_depth += 1;
        // The variables and the directory that a wrapper sets apply only to its command.
        let before = Rc::clone(&self.variables);
        self.resolve_command(fields, span, context);
        self.variables = before;
        self.call_depth -= 1;
    }

    fn resolve_command(&mut self, fields: &[Field], span: Span, context: &ExecContext) {
        let mut fields = fields;
        let mut context = context.clone();
        let mut span = span;
        // Nested wrappers are unwrapped in a loop, so that they do not use the stack.
        let mut wrappers = 0;
        while let Some((first, args)) = fields.split_first() {
            wrappers += 1;
            if wrappers > MAX_NESTED_WRAPPERS {
                self.report_too_deep(first.span);
                return;
            }
            if !self.count_step(span) {
                return;
            }
            let conventional = first.variable.as_deref().and_then(conventional_program);
            let name = conventional.unwrap_or(&first.text);
            if programs::is_dynamic_name(name) {
                return self.report_dynamic_name(first, &context);
            }
            let program = basename(name);
            if self.queue_written_program(first, &context)
                || program.is_empty()
                || program.starts_with(NONEMPTY_MARKER)
            {
                return;
            }
            if let Some(body) = self.functions.get(program).cloned() {
                let args = args.iter().map(|field| field.text.clone()).collect();
                self.queue_function(body, args, &context);
                return;
            }
            self.load_interpreted_file(program, args, &mut context);
            self.record_call(program, first, args, &context);
            if SHELLS.contains(&program) {
                self.reset_shell_variables();
                self.resolve_shell(args, &context);
                return;
            }
            interpreter_code::queue_spawned_commands(self, program, args, &context);
            if INTERPRETERS.iter().any(|name| interpreter_code::is_version_of(program, name)) {
                self.check_interpreter(args, first.span, &context);
                return;
            }
            if SUBSCRIPT_EVALUATING_BUILTINS.contains(&program) {
                self.queue_field_subscripts(args);
            }
            if code_arguments::resolve_code_arguments(self, program, args, &context)
                || is_command_lookup(program, args)
            {
                return;
            }
            if matches!(program, "cd" | "pushd" | "popd") {
                self.follow_cd(program, args);
            }
            if matches!(program, "timeout" | "gtimeout") {
                context.has_timeout = true;
            }
            let Some(wrapped) = wrappers::wrapped_command(program, args) else {
                self.guess_wrapped_command(program, args, &context);
                return;
            };
            self.assign_for_command(&wrapped.assignments, &context);
            if let [text] = wrapped.words
                && text.text.contains(' ')
            {
                // `xterm -e 'text'`, `gnome-terminal -- 'text'`
                return self.queue_field(text, &context);
            }
            span = wrapped.words.first().map_or(span, |first| first.span);
            fields = wrapped.words;
        }
    }

    /// Reports a command whose program name is known only when the command runs. Does not report a
    /// guess, or a function that runs its own arguments.
    fn report_dynamic_name(&mut self, name: &Field, context: &ExecContext) {
        // `run() { "$@"; }` runs its caller's command.
        let is_argument = name.variable.as_deref().is_some_and(is_positional_parameter);
        let is_of_caller = context.is_function_definition && is_argument;
        if context.unknown_wrapper.is_none() && !is_of_caller {
            self.report_construct(Construct::DynamicName, name.span);
        }
    }

    /// Records the call of a program as an observation.
    pub(super) fn record_call(
        &mut self,
        program: &str,
        name: &Field,
        args: &[Field],
        context: &ExecContext,
    ) {
        self.observations.push(Observation::Call(Call {
            program: program.to_owned(),
            args: Self::to_args(args),
            span: args.iter().fold(name.span, |span, field| span.join(field.span)),
            upstream: context.upstream.clone(),
            downstream: context.downstream.clone(),
            has_redirected_stdin: context.has_redirected_stdin,
            stdin_file: context.stdin_file.clone(),
            stdin_text: context.stdin.as_ref().map(|field| field.text.clone()),
            directory: self.current_directory(),
            has_timeout: context.has_timeout,
            unknown_wrapper: context.unknown_wrapper.clone(),
        }));
    }

    /// Resolves the call of a shell, which runs a text, a file, or the text on its standard input.
    fn resolve_shell(&mut self, args: &[Field], context: &ExecContext) {
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let text = first.text.as_str();
            let letters = text.strip_prefix(['-', '+']);
            match letters {
                Some(_) if text.starts_with("--") => {
                    if text == "--command" {
                        return self.queue_command_string(after, context);
                    }
                    let takes = matches!(text, "--rcfile" | "--init-file" | "--emulate");
                    if let Some(file) =
                        after.first().filter(|file| takes && file.process_substitution.is_some())
                    {
                        self.queue_script_file(file, context);
                    }
                    rest = after.get(usize::from(takes)..).unwrap_or_default();
                }
                Some("") => break,
                Some("Command" | "command") => return self.queue_command_string(after, context),
                Some(letters) if letters.contains('c') && text.starts_with('-') => {
                    // `bash -c -e TEXT`, `sh -o pipefail -c TEXT`
                    let values = &["-o", "-O", "+o", "+O"];
                    return self
                        .queue_command_string(wrappers::skip_options(after, values, 0), context);
                }
                // `-n` only checks the syntax.
                Some("n") if text.starts_with('-') => return,
                Some(letters) if letters.contains('s') => {
                    return self.queue_stdin(args, context);
                }
                Some(letters) => {
                    let takes = letters.ends_with(['o', 'O']);
                    rest = after.get(usize::from(takes)..).unwrap_or_default();
                }
                None => break,
            }
        }
        match rest.first() {
            None => self.queue_stdin(args, context),
            Some(first) if first.text == "-" => self.queue_stdin(args, context),
            Some(first) => self.queue_script_file(first, context),
        }
    }

    /// Queues the content of a file that a shell runs, if the content is known. If the file is a
    /// process substitution, the content is the output of the substitution's commands; an unknown
    /// output is reported.
    pub(super) fn queue_script_file(&mut self, file: &Field, context: &ExecContext) {
        if matches!(file.text.as_str(), "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
            return self.queue_stdin(std::slice::from_ref(file), context);
        }
        match &file.process_substitution {
            Some((_, Some(text)))
                if text.contains(NONEMPTY_MARKER) && text.trim().chars().count() == 1 => {}
            Some((_, Some(text))) => {
                self.queue_text(text.clone(), Origin::DerivedFrom(file.span), context);
            }
            // `source <(cat .env)` is not reported, because it does no more than `source .env`.
            Some((programs, None)) if programs.iter().all(|program| program == "cat") => {}
            Some((_, None)) => self.report_construct(Construct::PipeToShell, file.span),
            None => self.queue_written_file(file, context),
        }
    }

    /// Queues the text after `-c`. The words after the text are the text's positional parameters.
    fn queue_command_string(&mut self, args: &[Field], context: &ExecContext) {
        let Some((text, args)) = args.split_first() else { return };
        let before = Rc::clone(&self.variables);
        let variables = Rc::make_mut(&mut self.variables);
        if let Some(zero) = args.first() {
            variables.set("0", zero.text.clone(), true);
        }
        let args = args.iter().skip(1).map(|field| field.text.clone()).collect();
        variables.replace_arguments(Some(args));
        self.queue_field(text, context);
        self.variables = before;
    }

    /// Queues a field as a shell text.
    pub(super) fn queue_field(&mut self, field: &Field, context: &ExecContext) {
        if field.text.trim_matches([NONEMPTY_MARKER, ' ']).is_empty() {
            return;
        }
        let origin = field.offset.map_or(Origin::DerivedFrom(field.span), Origin::Verbatim);
        self.queue_text(field.text.clone(), origin, context);
    }

    /// Queues the text that a shell reads from standard input. If standard input is a pipe with
    /// unknown content, reports the pipe.
    pub(super) fn queue_stdin(&mut self, args: &[Field], context: &ExecContext) {
        match &context.stdin {
            Some(field) => {
                let field = field.clone();
                // A command in the text whose input is not redirected reads the lines that follow
                // the command.
                let inner = ExecContext {
                    stdin: None,
                    upstream: vec![],
                    has_redirected_stdin: false,
                    ..context.clone()
                };
                let origin = field.offset.map_or(Origin::DerivedFrom(field.span), Origin::Verbatim);
                self.queue_text_from(field.text, origin, &inner, CodeSource::Stdin);
            }
            None if context.upstream.is_empty() => {}
            None => {
                let span = args.first().map(|field| field.span);
                self.report_construct(
                    Construct::PipeToShell,
                    span.unwrap_or_else(|| self.last_call_span()),
                );
            }
        }
    }

    fn last_call_span(&self) -> Span {
        self.observations
            .iter()
            .rev()
            .find_map(|seen| match seen {
                Observation::Call(call) => Some(call.span),
                Observation::Assignment { .. }
                | Observation::FileRead { .. }
                | Observation::FileWrite { .. }
                | Observation::Construct { .. } => None,
            })
            .unwrap_or_default()
    }

    /// Reports an interpreter that runs code that the text does not show: the output of a program
    /// such as `curl` in a pipe, or an unknown substitution, as in `python3 -c "$(curl …)"`. Does
    /// not report `curl … | python3 -m json.tool`, which reads the output as data.
    fn check_interpreter(&mut self, args: &[Field], span: Span, context: &ExecContext) {
        let reads = args.iter().all(|field| matches!(field.text.as_str(), "-" | "-u"));
        let is_opaque = |program: &String| OPAQUE_PROGRAMS.contains(&program.as_str());
        if reads && context.stdin.is_none() && context.upstream.iter().any(is_opaque) {
            self.report_construct(Construct::PipeToShell, span);
        }
        for (at, field) in args.iter().enumerate() {
            let is_code =
                at > 0 && matches!(args[at - 1].text.as_str(), "-c" | "-e" | "-r" | "--eval");
            // `python3 -c "$(curl …)"`
            if is_code
                && field.text.chars().eq([UNKNOWN_MARKER])
                && context.unknown_wrapper.is_none()
            {
                self.report_construct(Construct::DynamicName, field.span);
            }
            if let Some((_, None)) = field.process_substitution {
                self.report_construct(Construct::PipeToShell, field.span);
            }
        }
    }

    /// Resolves the arguments of an unknown program as if the program were a wrapper that runs
    /// them. The calls that are found are guesses, and are therefore recorded with the unknown
    /// program's name.
    fn guess_wrapped_command(&mut self, program: &str, args: &[Field], context: &ExecContext) {
        if context.unknown_wrapper.is_some() || programs::is_known(program) {
            return;
        }
        let guessing = ExecContext { unknown_wrapper: Some(program.to_owned()), ..context.clone() };
        for at in 0..args.len().min(MAX_GUESSED_SUFFIXES) {
            let text = &args[at].text;
            let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                && !text.contains([
                    '=',
                    ' ',
                    '\n',
                    UNKNOWN_MARKER,
                    NONEMPTY_MARKER,
                    PID_LOOKUP_MARKER,
                ]);
            if is_name {
                self.resolve_call(&args[at..], args[at].span, &guessing);
            }
        }
    }

    /// Returns a command with one more argument, which is appended as `xargs` does.
    pub(super) fn append_argument(fields: &[Field], text: String) -> Vec<Field> {
        let span = fields.last().map(|last| last.span).unwrap_or_default();
        let mut fields = fields.to_vec();
        fields.push(Field { text, span, ..Field::default() });
        fields
    }
}

/// Returns whether a call is `command -v NAME`, which only looks up a program.
fn is_command_lookup(program: &str, args: &[Field]) -> bool {
    let looks_up =
        |option: &str| option.strip_prefix('-').is_some_and(|letters| letters.contains(['v', 'V']));
    program == "command" && args.first().is_some_and(|first| looks_up(&first.text))
}

/// Returns whether a variable is a positional parameter, which is an argument of a function or
/// script.
fn is_positional_parameter(variable: &str) -> bool {
    matches!(variable, "@" | "*") || variable.bytes().all(|byte| byte.is_ascii_digit())
}
