//! Tracks assignments to variables, and finds the commands that run because of these assignments.

use std::rc::Rc;

use super::decode;
use super::expand::{self, FIELD_SEPARATOR, Field, PID_LOOKUP_MARKER, UNKNOWN_MARKER};
use super::observation::{Arg, Observation};
use super::variables::is_variable_name;
use super::walk::{ExecContext, MAX_CHOICES, Walker};
use crate::ast::{Assignment, Span, Word};

impl Walker {
    /// Tracks the values that builtins such as `read`, `printf -v` and `set --` assign to
    /// variables.
    pub(super) fn follow_setting_builtins(&mut self, words: &[Word], context: &ExecContext) {
        const SETTING_BUILTINS: &[&str] =
            &["getopts", "mapfile", "printf", "read", "readarray", "set", "unset"];
        let name = words.first().and_then(Word::static_text);
        if !name.is_some_and(|name| SETTING_BUILTINS.contains(&name.as_str())) {
            return;
        }
        let fields: Vec<Field> =
            words.iter().flat_map(|word| expand::expand_fields(word, &self.variables, 0)).collect();
        let Some((first, args)) = fields.split_first() else { return };
        let names =
            args.iter().map(|field| field.text.as_str()).filter(|text| is_variable_name(text));
        let variables = Rc::make_mut(&mut self.variables);
        match first.text.as_str() {
            "read" => {
                let names: Vec<&str> = names.collect();
                let read = context.stdin.as_ref().map(|field| field.text.as_str());
                let lines = read_values(read, names.len());
                for name in names {
                    variables.set_alternatives(name, lines.clone());
                }
            }
            "mapfile" | "readarray" => {
                let read = context.stdin.as_ref().map(|field| field.text.as_str());
                let lines = read_values(read, 1).join(&FIELD_SEPARATOR.to_string());
                for name in names {
                    let value =
                        if lines.is_empty() { UNKNOWN_MARKER.to_string() } else { lines.clone() };
                    variables.set_unknown(name);
                    variables.set(&format!("{name}[@]"), value, true);
                }
            }
            "getopts" | "unset" => {
                for name in names {
                    variables.set_unknown(name);
                }
            }
            "printf" if args.first().is_some_and(|arg| arg.text == "-v") => {
                if let Some(name) = args.get(1).filter(|name| is_variable_name(&name.text)) {
                    let values: Vec<&str> = args[2..].iter().map(|arg| arg.text.as_str()).collect();
                    let written = decode::format_printf(&values)
                        .unwrap_or_else(|| UNKNOWN_MARKER.to_string());
                    variables.set(&name.text, written, true);
                }
            }
            "set" => {
                let at = args.iter().position(|arg| arg.text == "--").map(|at| at + 1);
                let is_plain = args.first().is_some_and(|arg| !arg.text.starts_with(['-', '+']));
                if let Some(at) = at.or(is_plain.then_some(0)) {
                    let all = args[at..].iter().map(|arg| arg.text.clone()).collect();
                    variables.replace_arguments(Some(all));
                }
                let letters = |arg: &Field| {
                    let letters = arg.text.strip_prefix('-').unwrap_or_default();
                    letters.contains('e') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
                        || arg.text == "errexit"
                };
                if args.iter().any(letters) {
                    variables.set(ERREXIT_KEY, String::new(), true);
                }
            }
            _ => {}
        }
    }

    pub(super) fn assign(&mut self, assignments: &[Assignment], context: &ExecContext) {
        for assignment in assignments {
            self.walk_words(&assignment.words, context);
            if let Some(elements) = &assignment.elements {
                self.walk_words(elements, context);
                let commands = is_command_variable(&assignment.name).then_some(elements);
                for element in commands.into_iter().flatten() {
                    let text = expand::expand_unsplit(element, &self.variables, 0).text;
                    self.queue_value_as_command(&text, element.span, context);
                }
                self.assign_array(&assignment.name, elements, assignment.is_append);
                continue;
            }
            let Some(value) = &assignment.value else {
                Rc::make_mut(&mut self.variables).set_unknown(&assignment.name);
                continue;
            };
            self.walk_word(value, context);
            let is_certain = !assignment.is_append;
            let choices = expand::count_choices(std::slice::from_ref(value), &self.variables);
            let values: Vec<Field> = (0..choices.min(MAX_CHOICES))
                .map(|choice| {
                    let mut field = expand::expand_unsplit(value, &self.variables, choice);
                    if assignment.is_append {
                        let before = self.variables.get(&assignment.name, choice);
                        let before = before.unwrap_or_else(|| UNKNOWN_MARKER.to_string());
                        field.text.insert_str(0, &before);
                    }
                    field
                })
                .collect();
            for value in &values {
                self.record_assignment(&assignment.name, value, context);
            }
            let variables = Rc::make_mut(&mut self.variables);
            for (number, value) in values.into_iter().enumerate() {
                variables.set(&assignment.name, value.text, is_certain && number == 0);
            }
        }
    }

    /// Sets a variable to the value in an option of a program, such as `--env NAME=VALUE`.
    pub(super) fn assign_option(&mut self, name: &str, value: Field, context: &ExecContext) {
        self.record_assignment(name, &value, context);
        // Other keys of the table, such as `ERREXIT_KEY`, are not names of variables.
        if is_variable_name(name) && !RESET_VARIABLES.contains(&name) {
            Rc::make_mut(&mut self.variables).set(name, value.text, true);
        }
    }

    /// Sets the variables that a wrapper sets for its command: `sudo NAME=VALUE make`.
    pub(super) fn assign_for_command(&mut self, assignments: &[&Field], context: &ExecContext) {
        for assignment in assignments {
            if let Some((name, value)) = assignment.text.split_once('=') {
                self.assign_option(name, assignment.part(value), context);
            }
        }
    }

    /// Removes the variables that a new shell does not inherit.
    pub(super) fn reset_shell_variables(&mut self) {
        for name in RESET_VARIABLES {
            if self.variables.is_set(name) {
                Rc::make_mut(&mut self.variables).unset(name);
            }
        }
    }

    /// Records an assignment, and queues the commands that run because of the value.
    fn record_assignment(&mut self, name: &str, value: &Field, context: &ExecContext) {
        let text = format!("{name}={}", value.text);
        self.observations.push(Observation::Assignment { text: Arg { text, span: value.span } });
        self.queue_value_subscripts(name, &value.text, value.span);
        if STARTUP_FILE_VARIABLES.contains(&name) {
            self.queue_script_file(value, context);
        }
        self.queue_environment_value(name, value, context);
    }

    /// Queues the commands that programs run because of a variable in their environment: the value
    /// of a variable such as `GIT_PAGER`, or the body of a function that bash imports.
    fn queue_environment_value(&mut self, name: &str, value: &Field, context: &ExecContext) {
        let is_function = name.starts_with("BASH_FUNC_") && name.ends_with("%%");
        if let Some(body) = value.text.strip_prefix("()").filter(|_| is_function) {
            let body = Field { text: body.to_owned(), offset: None, ..value.clone() };
            self.queue_field(&body, context);
        } else if is_command_variable(name) {
            self.queue_value_as_command(&value.text, value.span, context);
        }
    }

    fn assign_array(&mut self, name: &str, elements: &[Word], appends: bool) {
        let fields =
            elements.iter().flat_map(|element| expand::expand_fields(element, &self.variables, 0));
        let new: Vec<String> = fields.map(|field| field.text).collect();
        let all = format!("{name}[@]");
        let before = appends.then(|| self.variables.get(&all, 0));
        let variables = Rc::make_mut(&mut self.variables);
        variables.set_unknown(name);
        let Some(before) = before.unwrap_or_else(|| Some(String::new())) else {
            variables.set_unknown(&all);
            return;
        };
        let before =
            before.split(FIELD_SEPARATOR).filter(|text| !text.is_empty()).map(str::to_owned);
        let elements: Vec<String> = before.chain(new).collect();
        for (at, element) in elements.iter().take(MAX_ARRAY_ELEMENTS).enumerate() {
            variables.set(&format!("{name}[{at}]"), element.clone(), true);
        }
        variables.set(&format!("{name}[*]"), elements.join(" "), true);
        variables.set(&all, elements.join(&FIELD_SEPARATOR.to_string()), true);
        if let Some(first) = elements.into_iter().next() {
            variables.set(name, first, true);
        }
    }

    /// Queues a value that programs run as a command, for example the value of a variable:
    /// `GIT_PAGER='…' git log`. A value without blanks and operators is only a program's name and
    /// is not queued.
    pub(super) fn queue_value_as_command(&mut self, text: &str, span: Span, context: &ExecContext) {
        if text.contains([' ', ';', '|', '&', '$', '`']) {
            let field = Field { text: text.to_owned(), span, ..Field::default() };
            let inner = ExecContext { stdin: None, upstream: vec![], ..context.clone() };
            self.queue_field(&field, &inner);
        }
    }
}

/// The key in the table of variables that records `set -e`. It contains a blank, so no shell
/// variable has this name.
pub(super) const ERREXIT_KEY: &str = "set -e";

/// Variables whose value is the path of a file that a shell runs at its start.
const STARTUP_FILE_VARIABLES: &[&str] = &["BASH_ENV", "ENV"];

/// Variables that a shell does not inherit: it sets them to the separators and the directory that
/// are in effect at its start.
const RESET_VARIABLES: &[&str] = &["IFS", "PWD"];

/// Maximum number of array elements that are tracked individually, for each array.
const MAX_ARRAY_ELEMENTS: usize = 8;

/// Variables whose value other programs run as a command.
const COMMAND_VARIABLES: &[&str] = &[
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

/// Returns whether programs run the value of this variable as a command.
fn is_command_variable(variable: &str) -> bool {
    COMMAND_VARIABLES.contains(&variable)
}

/// Returns the possible values of each variable that `read` or `mapfile` sets; empty if the values
/// are unknown. `stdin` is the content of the standard input, as far as the command's text
/// determines it.
fn read_values(stdin: Option<&str>, names: usize) -> Vec<String> {
    match stdin {
        Some(text) if names == 1 => text.lines().map(|line| line.trim().to_owned()).collect(),
        // The same marker stands for every process id, so each variable gets this marker.
        Some(text) if text.trim().chars().all(|c| c == PID_LOOKUP_MARKER) => {
            vec![PID_LOOKUP_MARKER.to_string()]
        }
        Some(_) | None => vec![],
    }
}
