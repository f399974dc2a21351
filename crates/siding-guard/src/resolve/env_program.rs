//! Resolves calls of env(1), which sets variables for the command that follows.

use std::rc::Rc;

use super::expand::{Field, UNKNOWN_MARKER};
use super::variables::Variables;
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
                resolve_split_string(walker, &part_of(first, attached), after, context);
                rest = &[];
            }
            EnvWord::SplitString(None) => {
                if let Some((code, after)) = after.split_first() {
                    resolve_split_string(walker, code, after, context);
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

/// Resolves a call with `-S`. env(1) replaces the option by the words of its value.
fn resolve_split_string(walker: &mut Walker, code: &Field, after: &[Field], context: &ExecContext) {
    let env = Field { text: "env".to_owned(), span: code.span, ..Field::default() };
    let words = split_string(&code.text, &walker.variables);
    let words = words.iter().map(|word| part_of(code, word));
    let words: Vec<Field> = [env].into_iter().chain(words).chain(after.iter().cloned()).collect();
    walker.resolve_call(&words, code.span, context);
}

/// Splits the value of `-S` into words, with the quotes and escape sequences of env(1). They differ
/// from those of a shell: `\_` is a blank, and there are no operators.
fn split_string(text: &str, variables: &Variables) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            // A comment.
            ('#', None) if word.is_none() => break,
            (' ' | '\t'..='\r', None) => words.extend(word.take()),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            ('\\', Some('\'')) if !chars.as_str().starts_with(['\\', '\'']) => {
                word.get_or_insert_default().push('\\');
            }
            ('\\', _) => match chars.next() {
                None | Some('c') => break,
                Some('_') if quote.is_none() => words.extend(word.take()),
                Some(escaped) => word.get_or_insert_default().push(unescape(escaped)),
            },
            ('$', None | Some('"')) => {
                // Only the form `${NAME}` is allowed.
                let (name, rest) = chars.as_str().split_once('}').unwrap_or_default();
                chars = rest.chars();
                let value = name.strip_prefix('{').and_then(|name| variables.get(name, 0));
                let value = value.unwrap_or_else(|| UNKNOWN_MARKER.to_string());
                word.get_or_insert_default().push_str(&value);
            }
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Returns the character that a backslash and this character stand for in the value of `-S`.
const fn unescape(escaped: char) -> char {
    match escaped {
        '_' => ' ',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        other => other,
    }
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

    #[test]
    fn the_value_of_split_string_is_split_as_by_env() {
        let mut variables = Variables::default();
        variables.set("T", "a b".to_owned(), true);
        for (text, expected) in [
            (" sh  -c\t'ls -l'\nx", &["sh", "-c", "ls -l", "x"][..]),
            ("", &[]),
            (r#"sh -c "rm -rf '~'" y"#, &["sh", "-c", "rm -rf '~'", "y"]),
            (r#"a''b "" 'c"d'"#, &["ab", "", "c\"d"]),
            (r#"rm\_-rf\t"a\_b\n""#, &["rm", "-rf\ta b\n"]),
            (r"'a\n\'b' \$x \#y\cz", &["a\\n'b", "$x", "#y"]),
            ("x#y #z", &["x#y"]),
            ("${T} '${T}' \"${T}\"", &["a b", "${T}", "a b"]),
            ("${U}x $y", &["\u{E000}x", "\u{E000}"]),
        ] {
            assert_eq!(split_string(text, &variables), expected, "{text}");
        }
    }
}
