//! Resolves calls of siding itself, whose commands may run a command line, or type one into a
//! shell.

use siding_model::terminal::{KeyCode, KeyInput, parse_key};

use super::code_arguments::queue_option_values;
use super::expand::Field;
use super::observation::Construct;
use super::walk::{ExecContext, Walker};

/// A command of siding whose last words are a command line. A test of siding-cli compares the
/// options with those that siding's parser accepts.
struct SidingCommand {
    name: &'static str,
    /// The options with a value, which is the next word or follows `=`.
    value_options: &'static [&'static str],
    /// The options without a value.
    flags: &'static [&'static str],
}

const SIDING_COMMANDS: &[SidingCommand] = &[
    SidingCommand {
        name: "run",
        value_options: &[
            "--account",
            "--budget",
            "--cpus",
            "--cwd",
            "--engine-arg",
            "--env",
            "--fetch",
            "--gpus",
            "--grace",
            "--max-connection-age",
            "--max-cpu-spin",
            "--max-fds",
            "--max-memory",
            "--max-output-rate",
            "--max-processes",
            "--max-sent",
            "--memory",
            "--min-available",
            "--name",
            "--net",
            "--nodes",
            "--on",
            "--on-leader-exit",
            "--on-limit",
            "--on-timeout",
            "--session",
            "--settle",
            "--shell",
            "--signal",
            "--size",
            "--stall-after",
            "--stdin",
            "--sync-path",
            "--time",
            "--timeout",
            "--wait-for",
        ],
        flags: &[
            "-b",
            "-d",
            "-h",
            "--allow-duplicate",
            "--auto-background",
            "--background",
            "--env-clear",
            "--env-plain",
            "--help",
            "--json",
            "--keep",
            "--no-pty",
            "--pty",
            "--sync",
        ],
    },
    SidingCommand {
        name: "monitor",
        value_options: &[
            "--cwd",
            "--env",
            "--match",
            "--name",
            "--net",
            "--session",
            "--shell",
            "--size",
            "--stall-after",
            "--timeout",
        ],
        flags: &["-h", "--allow-duplicate", "--help", "--json", "--persistent", "--pty"],
    },
    SidingCommand {
        name: "monitor-mcp",
        value_options: &[
            "--arguments",
            "--bearer-env",
            "--cwd",
            "--every",
            "--match",
            "--name",
            "--new-task-id",
            "--resource",
            "--restarts",
            "--session",
            "--timeout",
            "--tool",
            "--url",
        ],
        flags: &["-h", "--allow-duplicate", "--help", "--json", "--persistent"],
    },
];

/// A command of siding that types text into a program, which may be a shell. The first word that is
/// not an option names the task.
struct TypingCommand {
    name: &'static str,
    /// The options with a value, which is the next word or follows `=`.
    value_options: &'static [&'static str],
}

const TYPING_COMMANDS: &[TypingCommand] = &[
    TypingCommand { name: "input", value_options: &["--file"] },
    TypingCommand { name: "keys", value_options: &["--if-screen", "--timeout", "--wait-for"] },
];

/// Resolves `siding run 'text'`, `siding run -- program words`, and other commands of siding that
/// run a command.
pub(super) fn resolve_siding(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    let Some((first, rest)) = args.split_first() else { return };
    if first.text == "statusline" {
        return queue_option_values(walker, rest, &["--before"], context);
    }
    if let Some(command) = TYPING_COMMANDS.iter().find(|command| command.name == first.text) {
        return queue_typed_text(walker, command, rest, context);
    }
    let Some(command) = SIDING_COMMANDS.iter().find(|command| command.name == first.text) else {
        return;
    };
    let (options, words) = command.split_options(rest);
    let unknown = options.iter().find(|option| option.kind == WordKind::UnknownOption);
    if let Some(option) = unknown
        && context.unknown_wrapper.is_none()
    {
        walker.report_construct(Construct::UnknownOption, option.word.span);
    }
    let has_limit = |option: &SidingOption| option.word.text.starts_with("--timeout");
    let is_bounded = context.has_timeout || options.iter().any(has_limit);
    let context = &ExecContext { has_timeout: is_bounded, ..context.clone() };
    for (name, value) in options.iter().filter_map(SidingOption::assignment) {
        walker.assign_option(name, value, context);
    }
    match words {
        [] => {}
        [text] => walker.queue_field(text, context),
        words => walker.resolve_call(words, words[0].span, context),
    }
}

/// Queues the text that a command types. A shell may or may not read the text, so the guard judges
/// it like the arguments of an unknown program.
fn queue_typed_text(
    walker: &mut Walker,
    command: &TypingCommand,
    args: &[Field],
    context: &ExecContext,
) {
    let words = command.positional_words(args);
    let Some(typed @ [first, ..]) = words.get(1..) else { return };
    let span = typed.iter().fold(first.span, |span, word| span.join(word.span));
    let text = if command.name == "keys" {
        typed.iter().map(|word| typed_text(&word.text)).collect()
    } else {
        typed.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    };
    let unknown_wrapper = Some(format!("siding {}", command.name));
    let context = ExecContext { unknown_wrapper, ..context.clone() };
    walker.queue_field(&Field { text, span, ..Field::default() }, &context);
}

/// Returns the text that a word of `siding keys` types. A key with Ctrl, such as C-c or C-u, begins
/// a line; any other key without a character is left out, so that it cannot hide the words around
/// it.
fn typed_text(word: &str) -> String {
    let press = match parse_key(word) {
        Ok(KeyInput::Key(press)) => press,
        Ok(KeyInput::Mouse(_)) => return String::new(),
        Ok(KeyInput::Text(_)) | Err(_) => return word.to_owned(),
    };
    let is_enter = matches!(press.code, KeyCode::Enter | KeyCode::KeypadEnter);
    if press.modifiers.control || is_enter {
        return "\n".to_owned();
    }
    if let KeyCode::Char(c) = press.code { c.to_string() } else { String::new() }
}

impl TypingCommand {
    /// Returns the words that are neither options nor their values.
    fn positional_words<'f>(&self, args: &'f [Field]) -> Vec<&'f Field> {
        let mut words = Vec::new();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            if word.text == "--" {
                words.extend(rest);
                break;
            }
            if self.value_options.contains(&word.text.as_str()) {
                rest.next();
            } else if !word.text.starts_with('-') || word.text == "-" {
                words.push(word);
            }
        }
        words
    }
}

/// A word before the command line.
struct SidingOption<'f> {
    word: &'f Field,
    kind: WordKind,
    /// The value of the option, if it is the next word.
    value: Option<&'f Field>,
}

impl<'f> SidingOption<'f> {
    /// Returns the variable that `--env` sets, and its value.
    fn assignment(&self) -> Option<(&'f str, Field)> {
        let (field, text) = match self.word.text.strip_prefix("--env")? {
            "" => (self.value?, self.value?.text.as_str()),
            attached => (self.word, attached.strip_prefix('=')?),
        };
        let (name, value) = text.split_once('=')?;
        Some((name, field.part(value)))
    }
}

/// The kind of a word before the command line, as siding's parser sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordKind {
    /// An option without a value, or with its value in the same word.
    Option,
    /// An option whose value is the next word.
    OptionWithValue,
    UnknownOption,
    /// `--`, which precedes the command line.
    Separator,
    /// The first word of the command line.
    Command,
}

impl SidingCommand {
    /// Splits the words after the command's name into the options and the command line, as siding's
    /// parser does. An unknown option is assumed to have no value.
    fn split_options<'f>(&self, args: &'f [Field]) -> (Vec<SidingOption<'f>>, &'f [Field]) {
        let mut options = vec![];
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let kind = self.word_kind(&first.text);
            let value = match kind {
                WordKind::Command => break,
                WordKind::Separator => return (options, after),
                WordKind::Option | WordKind::UnknownOption => None,
                WordKind::OptionWithValue => after.first(),
            };
            rest = &after[usize::from(value.is_some())..];
            options.push(SidingOption { word: first, kind, value });
        }
        (options, rest)
    }

    fn word_kind(&self, word: &str) -> WordKind {
        if word == "--" {
            return WordKind::Separator;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return WordKind::Command;
        };
        if self.value_options.contains(&word) {
            return WordKind::OptionWithValue;
        }
        let is_complete =
            word.split_once('=').is_some_and(|(name, _)| self.value_options.contains(&name));
        let is_flag = |letter: char| {
            self.flags
                .iter()
                .any(|flag| flag.strip_prefix('-').is_some_and(|short| short.chars().eq([letter])))
        };
        if is_complete || self.flags.contains(&word) || letters.chars().all(is_flag) {
            WordKind::Option
        } else {
            WordKind::UnknownOption
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_before_the_command_line_are_understood_as_by_the_parser() {
        let [run, ..] = SIDING_COMMANDS else { panic!("there are commands") };
        for (word, kind) in [
            ("--", WordKind::Separator),
            ("-", WordKind::Command),
            ("A=1", WordKind::Command),
            ("make", WordKind::Command),
            ("--net", WordKind::OptionWithValue),
            ("--net=none", WordKind::Option),
            ("--keep", WordKind::Option),
            ("-bd", WordKind::Option),
            ("-bx", WordKind::UnknownOption),
            ("-5", WordKind::UnknownOption),
            ("--ne", WordKind::UnknownOption),
            ("--keep=1", WordKind::UnknownOption),
        ] {
            assert_eq!(run.word_kind(word), kind, "{word}");
        }
    }
}
