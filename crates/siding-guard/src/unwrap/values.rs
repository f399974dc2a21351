//! What commands do to variables.

use std::rc::Rc;

use super::call::{Arg, Seen};
use super::encoded;
use super::expand::{self, ANY, FOUND, Field, NEXT};
use super::walk::{CHOICES_MAX, Place, Walker};
use crate::ast::{Assignment, Span, Word};

impl Walker {
    /// Follows builtins that set variables: `read`, `printf -v`, `set --`.
    pub(super) fn sets(&mut self, words: &[Word], place: &Place) {
        const SETTING: &[&str] =
            &["getopts", "mapfile", "printf", "read", "readarray", "set", "unset"];
        let name = words.first().and_then(Word::fixed);
        if !name.is_some_and(|name| SETTING.contains(&name.as_str())) {
            return;
        }
        let fields: Vec<Field> =
            words.iter().flat_map(|word| expand::fields(word, &self.variables, 0)).collect();
        let Some((first, args)) = fields.split_first() else { return };
        let names = args.iter().map(|field| field.text.as_str()).filter(|text| is_name(text));
        let variables = Rc::make_mut(&mut self.variables);
        match first.text.as_str() {
            "read" => {
                let names: Vec<&str> = names.collect();
                let read = place.stdin.as_ref().map(|field| field.text.as_str());
                let lines = lines_for(read, names.len());
                for name in names {
                    variables.set_one_of(name, lines.clone());
                }
            }
            "mapfile" | "readarray" => {
                let read = place.stdin.as_ref().map(|field| field.text.as_str());
                let lines = lines_for(read, 1).join(&NEXT.to_string());
                for name in names {
                    let value = if lines.is_empty() { ANY.to_string() } else { lines.clone() };
                    variables.forget(name);
                    variables.set(&format!("{name}[@]"), value, true);
                }
            }
            "getopts" | "unset" => {
                for name in names {
                    variables.forget(name);
                }
            }
            "printf" if args.first().is_some_and(|arg| arg.text == "-v") => {
                if let Some(name) = args.get(1).filter(|name| is_name(&name.text)) {
                    let values: Vec<&str> = args[2..].iter().map(|arg| arg.text.as_str()).collect();
                    let written = encoded::printf(&values).unwrap_or_else(|| ANY.to_string());
                    variables.set(&name.text, written, true);
                }
            }
            "set" => {
                let at = args.iter().position(|arg| arg.text == "--").map(|at| at + 1);
                let is_plain = args.first().is_some_and(|arg| !arg.text.starts_with(['-', '+']));
                if let Some(at) = at.or(is_plain.then_some(0)) {
                    let all = args[at..].iter().map(|arg| arg.text.clone()).collect();
                    variables.with_arguments(Some(all));
                }
                let letters = |arg: &Field| {
                    let letters = arg.text.strip_prefix('-').unwrap_or_default();
                    letters.contains('e') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
                        || arg.text == "errexit"
                };
                if args.iter().any(letters) {
                    variables.set(ERREXIT, String::new(), true);
                }
            }
            _ => {}
        }
    }

    pub(super) fn assign(&mut self, assignments: &[Assignment], place: &Place) {
        for assignment in assignments {
            self.words(&assignment.words, place);
            if let Some(elements) = &assignment.elements {
                self.words(elements, place);
                if is_command(&assignment.name) {
                    for element in elements {
                        let text = expand::joined(element, &self.variables, 0).text;
                        self.value_is_command(&text, element.span, place);
                    }
                }
                self.assign_array(&assignment.name, elements, assignment.appends);
                continue;
            }
            let Some(value) = &assignment.value else {
                Rc::make_mut(&mut self.variables).forget(&assignment.name);
                continue;
            };
            self.word(value, place);
            if START_FILES.contains(&assignment.name.as_str()) {
                let file = expand::joined(value, &self.variables, 0);
                self.file(&file, place);
            }
            let is_certain = !assignment.appends;
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
            for value_text in &values {
                let text = format!("{}={value_text}", assignment.name);
                self.seen.push(Seen::Set { text: Arg { text, span: value.span } });
                self.evaluated_value(&assignment.name, value_text, value.span);
            }
            if is_command(&assignment.name) {
                for text in &values {
                    self.value_is_command(text, value.span, place);
                }
            }
            let variables = Rc::make_mut(&mut self.variables);
            for (number, value) in values.into_iter().enumerate() {
                variables.set(&assignment.name, value, is_certain && number == 0);
            }
        }
    }

    fn assign_array(&mut self, name: &str, elements: &[Word], appends: bool) {
        let fields =
            elements.iter().flat_map(|element| expand::fields(element, &self.variables, 0));
        let new: Vec<String> = fields.map(|field| field.text).collect();
        let all = format!("{name}[@]");
        let before = appends.then(|| self.variables.get(&all, 0));
        let variables = Rc::make_mut(&mut self.variables);
        variables.forget(name);
        let Some(before) = before.unwrap_or_else(|| Some(String::new())) else {
            variables.forget(&all);
            return;
        };
        let before = before.split(NEXT).filter(|text| !text.is_empty()).map(str::to_owned);
        let elements: Vec<String> = before.chain(new).collect();
        for (at, element) in elements.iter().take(ELEMENTS_MAX).enumerate() {
            variables.set(&format!("{name}[{at}]"), element.clone(), true);
        }
        variables.set(&format!("{name}[*]"), elements.join(" "), true);
        variables.set(&all, elements.join(&NEXT.to_string()), true);
        if let Some(first) = elements.into_iter().next() {
            variables.set(name, first, true);
        }
    }

    /// The value of a variable that somebody runs: `GIT_PAGER='…' git log`.
    pub(super) fn value_is_command(&mut self, text: &str, span: Span, place: &Place) {
        if text.contains([' ', ';', '|', '&', '$', '`']) {
            let field = Field { text: text.to_owned(), span, ..Field::default() };
            let inner = Place { stdin: None, upstream: vec![], ..place.clone() };
            self.text_of(&field, &inner);
        }
    }
}

/// Kept among the variables as long as `set -e` is on; no variable can have this name.
pub(super) const ERREXIT: &str = "set -e";

/// Variables that name a file which a shell runs when it starts.
const START_FILES: &[&str] = &["BASH_ENV", "ENV"];

/// Elements of an array that are followed one by one.
const ELEMENTS_MAX: usize = 8;

/// Variables whose value somebody runs.
const COMMANDS: &[&str] = &[
    "BROWSER",
    "EDITOR",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "RSYNC_RSH",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "VISUAL",
];

/// Whether somebody runs what stands in this variable.
pub(super) fn is_command(variable: &str) -> bool {
    COMMANDS.contains(&variable)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns what `read` may put into each of so many variables.
fn lines_for(read: Option<&str>, names: usize) -> Vec<String> {
    match read {
        Some(text) if names == 1 => text.lines().map(|line| line.trim().to_owned()).collect(),
        // Which of the words it is nobody needs to know of numbers of processes.
        Some(text) if text.trim().chars().all(|c| c == FOUND) => vec![FOUND.to_string()],
        Some(_) | None => vec![],
    }
}
