//! Resolves calls of env(1), which sets the variables and the directory of the command that follows.

use std::rc::Rc;

use super::cwd::join_directory;
use super::expand::{Field, UNKNOWN_MARKER};
use super::variables::{DIRECTORY_KEY, Variables, is_variable_name};
use super::walk::{ExecContext, Walker};

/// How env(1) understands a word before its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnvWord<'t> {
    /// An option without a value, or whose value is optional.
    Option,
    /// An option with its value, which is `None` if it is the next word.
    OptionWithValue(ValueOption, Option<&'t str>),
    /// `-S`, whose value env(1) splits into words. `None` if the value is the next word.
    SplitString(Option<&'t str>),
    /// The name and the value of a variable.
    Assignment(&'t str, &'t str),
    /// The first word of the command.
    Command,
}

/// An option of env(1) with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueOption {
    /// `-u`: removes a variable.
    Unset,
    /// `-C`: changes the directory.
    Chdir,
    /// An option that changes neither the variables nor the directory.
    Other,
}

/// Resolves a call of env(1) with options or variables. The variables are judged like assignments
/// before the command. Returns false for a call without options and variables, which the caller
/// resolves as an ordinary wrapper.
pub(super) fn resolve_env(walker: &mut Walker, args: &[Field], context: &ExecContext) -> bool {
    // env(1) changes the directory once, to that of the last `-C`.
    let caller_directory = walker.current_directory();
    let mut rest = args;
    while let Some((first, after)) = rest.split_first() {
        if clears_environment(&first.text) {
            Rc::make_mut(&mut walker.variables).clear_environment();
        }
        match parse_word(&first.text) {
            EnvWord::Option => rest = after,
            EnvWord::OptionWithValue(option, attached) => {
                let next = after.first().filter(|_| attached.is_none());
                rest = &after[usize::from(next.is_some())..];
                if let Some(value) = attached.or(next.map(|field| field.text.as_str())) {
                    apply_option(walker, option, value, &caller_directory);
                }
            }
            EnvWord::Assignment(name, value) => {
                walker.assign_option(name, first.part(value), context);
                rest = after;
            }
            EnvWord::SplitString(Some(attached)) => {
                resolve_split_string(walker, &first.part(attached), after, context);
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
    true
}

/// Applies an option to the variables and the directory of the command.
fn apply_option(walker: &mut Walker, option: ValueOption, value: &str, caller_directory: &str) {
    let variables = Rc::make_mut(&mut walker.variables);
    match option {
        ValueOption::Unset if is_variable_name(value) => variables.unset(value),
        ValueOption::Chdir => {
            variables.set(DIRECTORY_KEY, join_directory(caller_directory, value), true);
        }
        ValueOption::Unset | ValueOption::Other => {}
    }
}

/// Resolves a call with `-S`. env(1) replaces the option by the words of its value.
fn resolve_split_string(walker: &mut Walker, code: &Field, after: &[Field], context: &ExecContext) {
    let env = Field { text: "env".to_owned(), span: code.span, ..Field::default() };
    let words = split_string(&code.text, &walker.variables);
    let words = words.iter().map(|word| code.part(word));
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

/// Returns whether a word is an option `-i`, which removes all variables. The option may be one of
/// several letters in a word, and `-` alone has the same meaning.
fn clears_environment(word: &str) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        return !long.is_empty() && "ignore-environment".starts_with(long);
    }
    let letters = word.strip_prefix('-').map(|letters| letters.trim_start_matches(['0', 'v']));
    word == "-" || letters.is_some_and(|letters| letters.starts_with('i'))
}

fn parse_word(text: &str) -> EnvWord<'_> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        // getopt_long(3) accepts a unique beginning of a name.
        let is = |option: &str| !name.is_empty() && option.starts_with(name);
        return if is("split-string") {
            EnvWord::SplitString(value)
        } else if is("unset") {
            EnvWord::OptionWithValue(ValueOption::Unset, value)
        } else if is("chdir") {
            EnvWord::OptionWithValue(ValueOption::Chdir, value)
        } else if is("argv0") {
            EnvWord::OptionWithValue(ValueOption::Other, value)
        } else {
            EnvWord::Option
        };
    }
    if let Some(letters) = text.strip_prefix('-') {
        let mut letters = letters.trim_start_matches(['i', '0', 'v']).chars();
        let option = letters.next();
        let attached = Some(letters.as_str()).filter(|attached| !attached.is_empty());
        return match option {
            Some('S') => EnvWord::SplitString(attached),
            Some('u') => EnvWord::OptionWithValue(ValueOption::Unset, attached),
            Some('C') => EnvWord::OptionWithValue(ValueOption::Chdir, attached),
            Some('a' | 'P') => EnvWord::OptionWithValue(ValueOption::Other, attached),
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
        let unset = |value| EnvWord::OptionWithValue(ValueOption::Unset, value);
        let chdir = |value| EnvWord::OptionWithValue(ValueOption::Chdir, value);
        for (word, expected) in [
            ("-", EnvWord::Option),
            ("--", EnvWord::Option),
            ("-i", EnvWord::Option),
            ("-u", unset(None)),
            ("-iu", unset(None)),
            ("-uMenu", unset(Some("Menu"))),
            ("-C", chdir(None)),
            ("-vC/", chdir(Some("/"))),
            ("-aC", EnvWord::OptionWithValue(ValueOption::Other, Some("C"))),
            ("--unset", unset(None)),
            ("--unset=A", unset(Some("A"))),
            ("--chd", chdir(None)),
            ("--chdir=/", chdir(Some("/"))),
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
    fn the_option_that_clears_the_environment_is_recognized() {
        for word in ["-", "-i", "-iu", "-v0i", "-iC/", "--ignore-environment", "--ignore"] {
            assert!(clears_environment(word), "{word}");
        }
        for word in ["--", "-u", "-ui", "-Ci", "-Si", "--unset=i", "i", "i=1"] {
            assert!(!clears_environment(word), "{word}");
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
