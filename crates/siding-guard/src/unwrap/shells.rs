//! Commands: what a program does with its words.

use super::call::{Call, Seen, Shape};
use super::expand::{ANY, Field, SURE, base};
use super::walk::{Place, Walker, is_dynamic_name};
use super::{code, programs, wrappers};
use crate::ast::Span;
use crate::parse::Origin;

/// Shells.
pub(super) const SHELLS: &[&str] =
    &["ash", "bash", "dash", "fish", "ksh", "mksh", "pwsh", "rbash", "sh", "zsh"];

/// Programs that run what they read; a number of a version may follow.
pub(super) const INTERPRETERS: &[&str] = &["node", "perl", "php", "python", "ruby"];

/// Programs whose output comes from elsewhere, or hides what it is.
const OPAQUE: &[&str] = &[
    "aria2c", "base32", "base64", "bunzip2", "curl", "fetch", "gpg", "gunzip", "http", "nc",
    "ncat", "openssl", "rev", "socat", "tr", "uudecode", "wget", "xxd", "xz", "zcat",
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
            if is_dynamic_name(&first.text) {
                if place.guessed_from.is_none() {
                    self.shape(Shape::DynamicName, first.span);
                }
                return;
            }
            let program = base(&first.text);
            if program.is_empty() || program.starts_with(SURE) {
                return;
            }
            if let Some(body) = self.functions.get(program).cloned() {
                let args = args.iter().map(|field| field.text.clone()).collect();
                self.queue_body(body, args, &place);
                return;
            }
            self.seen.push(Seen::Call(Call {
                program: program.to_owned(),
                args: Self::kept(args),
                span: args.iter().fold(first.span, |span, field| span.to(field.span)),
                upstream: place.upstream.clone(),
                stdin: place.stdin.as_ref().map(|field| field.text.clone()),
                directory: self.directory(),
                is_bounded: place.is_bounded,
                guessed_from: place.guessed_from.clone(),
            }));
            if SHELLS.contains(&program) {
                self.shell(args, &place);
                return;
            }
            if INTERPRETERS.iter().any(|name| program.starts_with(name)) {
                self.interpreter(args, first.span, &place);
                return;
            }
            if code::texts(self, program, args, &place) {
                return;
            }
            if program == "cd" || program == "pushd" {
                self.enter(args);
            }
            if matches!(program, "timeout" | "gtimeout") {
                place.is_bounded = true;
            }
            let Some(inner) = wrappers::inner(program, args) else {
                self.guess(program, args, &place);
                return;
            };
            span = inner.first().map_or(span, |first| first.span);
            fields = inner;
        }
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
                    rest = after.get(usize::from(takes)..).unwrap_or_default();
                }
                Some("") => break,
                Some("Command" | "command") => return self.script(after, place),
                Some(letters) if letters.contains('c') && text.starts_with('-') => {
                    // `bash -c -e TEXT`, `sh -o pipefail -c TEXT`
                    let values = &["-o", "-O", "+o", "+O"];
                    return self.script(wrappers::behind(after, values, 0), place);
                }
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
            Some(first) if matches!(first.text.as_str(), "-" | "/dev/stdin" | "/dev/fd/0") => {
                self.read(args, place);
            }
            Some(first) => self.file(first, place),
        }
    }

    /// A file that a shell runs; a process substitution is what is written into it.
    pub(super) fn file(&mut self, file: &Field, place: &Place) {
        match &file.process {
            Some((_, Some(text))) if text.contains(SURE) && text.trim().chars().count() == 1 => {}
            Some((_, Some(text))) => {
                self.queue_text(text.clone(), Origin::Within(file.span), place);
            }
            Some((_, None)) => self.shape(Shape::PipeToShell, file.span),
            None => {}
        }
    }

    /// The text behind `-c`, with its arguments.
    fn script(&mut self, args: &[Field], place: &Place) {
        let Some((text, args)) = args.split_first() else { return };
        let args = args.iter().skip(1).map(|field| field.text.clone()).collect();
        let before = std::rc::Rc::clone(&self.variables);
        std::rc::Rc::make_mut(&mut self.variables).with_arguments(Some(args));
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
    fn read(&mut self, args: &[Field], place: &Place) {
        match &place.stdin {
            Some(field) => {
                let field = field.clone();
                let inner = Place { stdin: None, upstream: vec![], ..place.clone() };
                self.text_of(&field, &inner);
            }
            None if place.upstream.is_empty() => {}
            // `cat FILE | bash` runs a file, as `bash FILE` does.
            None if place.upstream.iter().all(|program| program == "cat") => {}
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
                Seen::Write { .. } | Seen::Shape { .. } => None,
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
        for field in args {
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
                && !text.contains(['=', ' ', '\n', ANY, SURE]);
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
