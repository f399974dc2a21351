//! Commands: what a program does with its words.

use std::rc::Rc;

use super::call::{Call, Seen, Shape};
use super::expand::{ANY, FOUND, Field, SURE, base};
use super::variables::usual_program;
use super::walk::{Carrier, Place, Walker};
use super::{code, literals, programs, wrappers};
use crate::ast::Span;
use crate::parse::Origin;

/// Shells.
pub(super) const SHELLS: &[&str] = &[
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "rbash", "sh",
    "tcsh", "xonsh", "zsh",
];

/// Programs that run what they read; a number of a version may follow.
pub(super) const INTERPRETERS: &[&str] = &["lua", "node", "perl", "php", "pypy", "python", "ruby"];

/// Programs whose output comes from elsewhere, or hides what it is.
const OPAQUE: &[&str] = &[
    "aria2c", "base32", "base64", "bunzip2", "curl", "fetch", "gpg", "gunzip", "http", "nc",
    "ncat", "openssl", "rev", "socat", "tr", "uudecode", "wget", "xxd", "xz", "zcat",
];

/// Builtins that work out subscripts in their words, also in quoted ones.
const EVALUATING: &[&str] = &[
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

/// Wrappers around one another that are followed.
const WRAPPERS_MAX: usize = 64;

/// The same for programs that put their command together, such as `xargs`.
const CALLS_MAX: usize = 16;

/// Suffixes of the words of an unknown program that are tried as commands.
const GUESSES_MAX: usize = 8;

impl Walker {
    /// Takes one command, its words as the program gets them.
    pub(super) fn call(&mut self, fields: &[Field], span: Span, place: &Place) {
        // `xargs xargs xargs …` comes back here for each.
        if self.calls_open >= CALLS_MAX {
            self.too_deep(span);
            return;
        }
        self.calls_open += 1;
        self.command(fields, span, place);
        self.calls_open -= 1;
    }

    fn command(&mut self, fields: &[Field], span: Span, place: &Place) {
        let mut fields = fields;
        let mut place = place.clone();
        let mut span = span;
        // Wrappers around wrappers: a loop, so that the stack does not grow with them.
        let mut wrappers = 0;
        while let Some((first, args)) = fields.split_first() {
            wrappers += 1;
            if wrappers > WRAPPERS_MAX {
                self.too_deep(first.span);
                return;
            }
            if !self.step(span) {
                return;
            }
            let usual = first.variable.as_deref().and_then(usual_program);
            let name = usual.unwrap_or(&first.text);
            if programs::is_dynamic(name) {
                // `run() { "$@"; }` runs what its caller says.
                let is_argument = first.variable.as_deref().is_some_and(is_argument);
                if place.guessed_from.is_none() && !(place.is_definition && is_argument) {
                    self.shape(Shape::DynamicName, first.span);
                }
                return;
            }
            let program = base(name);
            if self.runs_written(first, &place) || program.is_empty() || program.starts_with(SURE) {
                return;
            }
            if let Some(body) = self.functions.get(program).cloned() {
                let args = args.iter().map(|field| field.text.clone()).collect();
                self.queue_body(body, args, &place);
                return;
            }
            self.reads_written(program, args, &mut place);
            self.see(program, first, args, &place);
            if SHELLS.contains(&program) {
                self.shell(args, &place);
                return;
            }
            literals::commands(self, program, args, &place);
            if INTERPRETERS.iter().any(|name| literals::is_version_of(program, name)) {
                self.interpreter(args, first.span, &place);
                return;
            }
            if EVALUATING.contains(&program) {
                self.evaluated_fields(args);
            }
            if code::texts(self, program, args, &place) || is_lookup(program, args) {
                return;
            }
            if matches!(program, "cd" | "pushd" | "popd") {
                self.enter(program, args);
            }
            if matches!(program, "timeout" | "gtimeout") {
                place.is_bounded = true;
            }
            let Some(inner) = wrappers::inner(program, args) else {
                self.guess(program, args, &place);
                return;
            };
            if let [text] = inner
                && text.text.contains(' ')
            {
                // `adb shell 'text'`, `xterm -e 'text'`
                return self.text_of(text, &place);
            }
            span = inner.first().map_or(span, |first| first.span);
            fields = inner;
        }
    }

    /// Keeps a call as rules look at it.
    pub(super) fn see(&mut self, program: &str, name: &Field, args: &[Field], place: &Place) {
        self.seen.push(Seen::Call(Call {
            program: program.to_owned(),
            args: Self::kept(args),
            span: args.iter().fold(name.span, |span, field| span.to(field.span)),
            upstream: place.upstream.clone(),
            downstream: place.downstream.clone(),
            has_input: place.has_input,
            input: place.input.clone(),
            stdin: place.stdin.as_ref().map(|field| field.text.clone()),
            directory: self.directory(),
            is_bounded: place.is_bounded,
            guessed_from: place.guessed_from.clone(),
        }));
    }

    /// What a shell runs: a text, a file, or what it reads.
    fn shell(&mut self, args: &[Field], place: &Place) {
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let text = first.text.as_str();
            let letters = text.strip_prefix(['-', '+']);
            match letters {
                Some(_) if text.starts_with("--") => {
                    if text == "--command" {
                        return self.script(after, place);
                    }
                    let takes = matches!(text, "--rcfile" | "--init-file" | "--emulate");
                    if let Some(file) = after.first().filter(|file| takes && file.process.is_some())
                    {
                        self.file(file, place);
                    }
                    rest = after.get(usize::from(takes)..).unwrap_or_default();
                }
                Some("") => break,
                Some("Command" | "command") => return self.script(after, place),
                Some(letters) if letters.contains('c') && text.starts_with('-') => {
                    // `bash -c -e TEXT`, `sh -o pipefail -c TEXT`
                    let values = &["-o", "-O", "+o", "+O"];
                    return self.script(wrappers::behind(after, values, 0), place);
                }
                // It only looks whether the text is well formed.
                Some("n") if text.starts_with('-') => return,
                Some(letters) if letters.contains('s') => {
                    return self.read(args, place);
                }
                Some(letters) => {
                    let takes = letters.ends_with(['o', 'O']);
                    rest = after.get(usize::from(takes)..).unwrap_or_default();
                }
                None => break,
            }
        }
        match rest.first() {
            None => self.read(args, place),
            Some(first) if first.text == "-" => self.read(args, place),
            Some(first) => self.file(first, place),
        }
    }

    /// A file that a shell runs; a process substitution is what is written into it.
    pub(super) fn file(&mut self, file: &Field, place: &Place) {
        if matches!(file.text.as_str(), "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
            return self.read(std::slice::from_ref(file), place);
        }
        match &file.process {
            Some((_, Some(text))) if text.contains(SURE) && text.trim().chars().count() == 1 => {}
            Some((_, Some(text))) => {
                self.queue_text(text.clone(), Origin::Within(file.span), place);
            }
            // `source <(cat .env)` is `source .env`.
            Some((programs, None)) if programs.iter().all(|program| program == "cat") => {}
            Some((_, None)) => self.shape(Shape::PipeToShell, file.span),
            None => self.written_file(file, place),
        }
    }

    /// The text behind `-c`, with its arguments.
    fn script(&mut self, args: &[Field], place: &Place) {
        let Some((text, args)) = args.split_first() else { return };
        let before = Rc::clone(&self.variables);
        let variables = Rc::make_mut(&mut self.variables);
        if let Some(zero) = args.first() {
            variables.set("0", zero.text.clone(), true);
        }
        let args = args.iter().skip(1).map(|field| field.text.clone()).collect();
        variables.with_arguments(Some(args));
        self.text_of(text, place);
        self.variables = before;
    }

    /// A field that is a text for a shell.
    pub(super) fn text_of(&mut self, field: &Field, place: &Place) {
        if field.text.trim_matches([SURE, ' ']).is_empty() {
            return;
        }
        let origin = field.at.map_or(Origin::Within(field.span), Origin::At);
        self.queue_text(field.text.clone(), origin, place);
    }

    /// What a shell does with its standard input.
    pub(super) fn read(&mut self, args: &[Field], place: &Place) {
        match &place.stdin {
            Some(field) => {
                let field = field.clone();
                // A command in it that has no other input reads the lines behind it.
                let inner =
                    Place { stdin: None, upstream: vec![], has_input: false, ..place.clone() };
                let origin = field.at.map_or(Origin::Within(field.span), Origin::At);
                self.queue_carried(field.text, origin, &inner, Carrier::Input);
            }
            None if place.upstream.is_empty() => {}
            None => {
                let span = args.first().map(|field| field.span);
                self.shape(Shape::PipeToShell, span.unwrap_or_else(|| self.last_span()));
            }
        }
    }

    fn last_span(&self) -> Span {
        self.seen
            .iter()
            .rev()
            .find_map(|seen| match seen {
                Seen::Call(call) => Some(call.span),
                Seen::Set { .. } | Seen::Read { .. } | Seen::Write { .. } | Seen::Shape { .. } => {
                    None
                }
            })
            .unwrap_or_default()
    }

    /// `curl … | python3` runs what comes; `curl … | python3 -m json.tool` does not.
    fn interpreter(&mut self, args: &[Field], span: Span, place: &Place) {
        let reads = args.iter().all(|field| matches!(field.text.as_str(), "-" | "-u"));
        let is_opaque = |program: &String| OPAQUE.contains(&program.as_str());
        if reads && place.stdin.is_none() && place.upstream.iter().any(is_opaque) {
            self.shape(Shape::PipeToShell, span);
        }
        for (at, field) in args.iter().enumerate() {
            let is_code =
                at > 0 && matches!(args[at - 1].text.as_str(), "-c" | "-e" | "-r" | "--eval");
            // `python3 -c "$(curl …)"`
            if is_code && field.text.chars().eq([ANY]) && place.guessed_from.is_none() {
                self.shape(Shape::DynamicName, field.span);
            }
            if let Some((_, None)) = field.process {
                self.shape(Shape::PipeToShell, field.span);
            }
        }
    }

    /// Tries whether the words behind an unknown program are a command that matters.
    fn guess(&mut self, program: &str, args: &[Field], place: &Place) {
        if place.guessed_from.is_some() || programs::is_known(program) {
            return;
        }
        let guessing = Place { guessed_from: Some(program.to_owned()), ..place.clone() };
        for at in 0..args.len().min(GUESSES_MAX) {
            let text = &args[at].text;
            let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                && !text.contains(['=', ' ', '\n', ANY, SURE, FOUND]);
            if is_name {
                self.call(&args[at..], args[at].span, &guessing);
            }
        }
    }

    /// Adds an argument that only comes when it runs, as `xargs` does.
    pub(super) fn with_argument(fields: &[Field], text: String) -> Vec<Field> {
        let span = fields.last().map(|last| last.span).unwrap_or_default();
        let mut fields = fields.to_vec();
        fields.push(Field { text, span, ..Field::default() });
        fields
    }
}

/// `command -v NAME` tells where a program is, and runs nothing.
fn is_lookup(program: &str, args: &[Field]) -> bool {
    let looks_up =
        |option: &str| option.strip_prefix('-').is_some_and(|letters| letters.contains(['v', 'V']));
    program == "command" && args.first().is_some_and(|first| looks_up(&first.text))
}

/// Whether a variable is an argument of a function or a script.
fn is_argument(variable: &str) -> bool {
    matches!(variable, "@" | "*") || variable.bytes().all(|byte| byte.is_ascii_digit())
}
