//! Resolves calls of env(1), which sets variables for the command that follows.

use std::rc::Rc;

use super::expand::Field;
use super::walk::{ExecContext, Walker};

/// How env(1) understands a word before its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnvWord<'t> {
    /// An option without a value, or with its value in the same word.
    Option,
    /// An option whose value is the next word.
    OptionWithValue,
    /// `-S`, whose value env(1) splits into words. `None` if the value is the next word.
    SplitString(Option<&'t str>),
    /// The name and the value of a variable.
    Assignment(&'t str, &'t str),
    /// The first word of the command.
    Command,
}

/// Resolves a call of env(1) with options or variables. The variables are judged like assignments
/// before the command. Returns false for a call without options and variables, which is resolved as
/// that of an ordinary wrapper.
pub(super) fn resolve_env(walker: &mut Walker, args: &[Field], context: &ExecContext) -> bool {
    // The variables apply only to the command.
    let before = Rc::clone(&walker.variables);
    let mut rest = args;
    while let Some((first, after)) = rest.split_first() {
        match parse_word(&first.text) {
            EnvWord::Option => rest = after,
            EnvWord::OptionWithValue => rest = after.get(1..).unwrap_or_default(),
            EnvWord::Assignment(name, value) => {
                walker.assign_option(name, part_of(first, value), context);
                rest = after;
            }
            EnvWord::SplitString(Some(attached)) => {
                resolve_split_string(walker, part_of(first, attached), after, context);
                rest = &[];
            }
            EnvWord::SplitString(None) => {
                if let Some((code, after)) = after.split_first() {
                    resolve_split_string(walker, code.clone(), after, context);
                }
                rest = &[];
            }
            EnvWord::Command => break,
        }
    }
    match rest {
        [] => {}
        rest if rest.len() == args.len() => return false,
        [text] if text.text.contains(' ') => walker.queue_field(text, context),
        [first, ..] => walker.resolve_call(rest, first.span, context),
    }
    walker.variables = before;
    true
}

/// Resolves the value of `-S`. env(1) splits it into words, and appends the words that follow.
fn resolve_split_string(walker: &mut Walker, code: Field, after: &[Field], context: &ExecContext) {
    if !after.is_empty() {
        let env = Field { text: "env".to_owned(), span: code.span, ..Field::default() };
        let words = code.text.split_whitespace().map(|word| part_of(&code, word));
        let words = [env].into_iter().chain(words).chain(after.iter().cloned());
        return walker.resolve_call(&words.collect::<Vec<_>>(), code.span, context);
    }
    // The parser of shell texts understands the quotes of the value.
    if code.text.trim_start().starts_with('-') {
        let text = format!("env {}", code.text);
        return walker.queue_field(&part_of(&code, &text), context);
    }
    walker.queue_field(&code, context);
}

/// Returns a field with a part of the text of another one.
fn part_of(field: &Field, text: &str) -> Field {
    Field { text: text.to_owned(), offset: None, ..field.clone() }
}

fn parse_word(text: &str) -> EnvWord<'_> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        // getopt_long(3) accepts a unique beginning of a name.
        let is = |option: &str| !name.is_empty() && option.starts_with(name);
        return match value {
            value if is("split-string") => EnvWord::SplitString(value),
            None if is("unset") || is("chdir") || is("argv0") => EnvWord::OptionWithValue,
            _ => EnvWord::Option,
        };
    }
    if let Some(letters) = text.strip_prefix('-') {
        let mut letters = letters.trim_start_matches(['i', '0', 'v']).chars();
        let option = letters.next();
        let attached = Some(letters.as_str()).filter(|attached| !attached.is_empty());
        return match option {
            Some('S') => EnvWord::SplitString(attached),
            Some('u' | 'C' | 'a' | 'P') if attached.is_none() => EnvWord::OptionWithValue,
            _ => EnvWord::Option,
        };
    }
    match text.split_once('=') {
        Some((name, value)) => EnvWord::Assignment(name, value),
        None => EnvWord::Command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_before_the_command_are_understood_as_by_env() {
        for (word, expected) in [
            ("-", EnvWord::Option),
            ("--", EnvWord::Option),
            ("-i", EnvWord::Option),
            ("-u", EnvWord::OptionWithValue),
            ("-iu", EnvWord::OptionWithValue),
            ("-uMenu", EnvWord::Option),
            ("-C", EnvWord::OptionWithValue),
            ("--unset", EnvWord::OptionWithValue),
            ("--unset=A", EnvWord::Option),
            ("--chd", EnvWord::OptionWithValue),
            ("-S", EnvWord::SplitString(None)),
            ("-vS", EnvWord::SplitString(None)),
            ("-iSmake -j2", EnvWord::SplitString(Some("make -j2"))),
            ("--split=make", EnvWord::SplitString(Some("make"))),
            ("A=b=c", EnvWord::Assignment("A", "b=c")),
            ("make", EnvWord::Command),
        ] {
            assert_eq!(parse_word(word), expected, "{word}");
        }
    }
}
