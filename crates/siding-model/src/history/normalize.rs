//! The keys under which the history stores commands: texts with the same key are the same command.

use crate::record;

/// Maximum length of a normalized text, in bytes. A longer text is cut, and a checksum of the whole
/// text is appended.
pub const MAX_NORMALIZED_BYTES: usize = 1_000;

/// Commands that take assignments as arguments: `export A=1`, `env A=1 make`.
const ASSIGNMENT_PREFIXES: [&str; 3] = ["export", "env", "sudo"];

/// Returns the key under which the history groups the runs of a command.
///
/// - Consecutive blanks outside of quotes become one blank, or one line break if they contain one.
///   Blanks at both ends are removed.
/// - Assignments before a command keep their names and lose their values: `CI=1 make` and `CI=2
///   make` are the same command, `make` is another. Values, such as a build number, change from run
///   to run and may hold secrets.
/// - Options, arguments, quotes and comments are kept.
/// - A text with `<<` is only trimmed, because blanks are significant inside a here-document.
///
/// The function is idempotent for texts up to [`MAX_NORMALIZED_BYTES`].
#[must_use]
pub fn normalize_command(text: &str) -> String {
    let text = text.trim();
    if text.contains("<<") {
        truncate_with_checksum(text.to_owned())
    } else {
        truncate_with_checksum(collapse_blanks(text))
    }
}

/// Returns a path without double slashes, trailing slashes and `.` components. A `..` is kept,
/// because the component before it may be a symbolic link.
#[must_use]
pub fn normalize_directory(path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let lead = if path.starts_with('/') { "/" } else { "" };
    format!("{lead}{}", parts.join("/"))
}

/// Returns the directory under which the history groups the runs of a command. A directory of an
/// executor has the executor's name before it (`build:/srv/src`), because the same command takes
/// another time there. Directories of this machine are absolute, so none has such a name.
#[must_use]
pub fn history_directory(executor: Option<&str>, directory: &str) -> String {
    match executor {
        Some(name) => normalize_directory(&format!("{name}:{directory}")),
        None => normalize_directory(directory),
    }
}

fn collapse_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut gap = None;
    // Whether the next word may be a program or an assignment before a program.
    let mut begins = true;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\\n") {
            gap.get_or_insert(' ');
            rest = after;
            continue;
        }
        if first.is_whitespace() {
            if first == '\n' {
                gap = Some('\n');
                begins = true;
            } else {
                gap.get_or_insert(' ');
            }
            rest = &rest[first.len_utf8()..];
            continue;
        }
        out.extend(gap.take().filter(|_| !out.is_empty()));
        let is_word_start = out.is_empty() || out.ends_with(is_word_break);
        if begins && is_word_start && !is_word_break(first) {
            if let Some((name, value)) = assignment_lengths(rest) {
                out.push_str(&rest[..name]);
                rest = &rest[name + value..];
                continue;
            }
            let word = &rest[..word_length(rest)];
            begins = ASSIGNMENT_PREFIXES.contains(&word);
        }
        begins |= matches!(first, ';' | '&' | '|' | '(');
        let (unit, after) = rest.split_at(token_length(rest));
        out.push_str(unit);
        rest = after;
    }
    out
}

/// Returns whether this character ends a word.
fn is_word_break(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')')
}

/// Returns the lengths of `NAME=` or `NAME+=` and of the value after it, or `None` when the text
/// does not start with an assignment.
fn assignment_lengths(text: &str) -> Option<(usize, usize)> {
    let name = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    if name == 0 || text.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    let sign = ["=", "+="].into_iter().find(|sign| text[name..].starts_with(sign))?;
    let start = name + sign.len();
    Some((start, word_length(&text[start..])))
}

/// Returns the length of the word at the start of a text. Blanks inside parentheses are part of the
/// word, as in `$(date +%s)` and `(a b)`.
fn word_length(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            c if depth == 0 && is_word_break(c) => break,
            _ => {}
        }
        at += token_length(&text[at..]);
    }
    at
}

/// Returns the length of the token at the start of a text: a quoted text, an escaped character or
/// one character. An unclosed quote extends to the end of the text.
fn token_length(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    match text.as_bytes() {
        [b'\\', ..] => first + text[first..].chars().next().map_or(0, char::len_utf8),
        [b'\'', ..] => text[1..].find('\'').map_or(text.len(), |end| end + 2),
        [quote @ (b'"' | b'`'), ..] => quoted_length(text, 1, *quote),
        [b'$', b'\'', ..] => quoted_length(text, 2, b'\''),
        _ => first,
    }
}

/// Returns the length of a quoted text, with its quotes, in which a backslash escapes the next
/// character. `start` is the length of the opening quote.
fn quoted_length(text: &str, start: usize, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

fn truncate_with_checksum(text: String) -> String {
    if text.len() <= MAX_NORMALIZED_BYTES {
        return text;
    }
    let suffix = format!("…#{:08x}.{}", record::checksum(text.as_bytes()), text.len());
    let end = text.floor_char_boundary(MAX_NORMALIZED_BYTES - suffix.len());
    format!("{}{suffix}", &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blanks_are_collapsed_and_trimmed() {
        for (text, normal) in [
            ("  make   -j2\ttest ", "make -j2 test"),
            ("make \\\n   test", "make test"),
            ("echo 'a  b'  \"c  d\"  e\\  f", "echo 'a  b' \"c  d\" e\\  f"),
            ("echo $'it\\'s  x'   y", "echo $'it\\'s  x' y"),
            ("make\n\n  test\n", "make\ntest"),
            ("echo 'never  closed", "echo 'never  closed"),
            ("cat <<E\n a  b\nE\n", "cat <<E\n a  b\nE"),
            ("", ""),
        ] {
            assert_eq!(normalize_command(text), normal);
        }
        assert_ne!(
            normalize_command("make\ntest"),
            normalize_command("make test"),
            "two commands are not one"
        );
    }

    #[test]
    fn assignments_keep_names_and_lose_values() {
        for (text, normal) in [
            ("CI=1 make", "CI= make"),
            ("TOKEN='a b c' B=\"$(x y)\"  ./deploy", "TOKEN= B= ./deploy"),
            ("T=$(date  +%s) make", "T= make"),
            ("A=(x y) B+=2 make", "A= B+= make"),
            ("export TOKEN=s3cret && make", "export TOKEN= && make"),
            ("TOKEN=s3cret; curl $TOKEN", "TOKEN=; curl $TOKEN"),
            ("make; B=7 test", "make; B= test"),
            ("env A=1 make", "env A= make"),
            ("cd x\nA=1 make", "cd x\nA= make"),
            // `NAME=VALUE` after a command is an argument.
            ("make V=1", "make V=1"),
            ("dd if=/dev/zero of=x", "dd if=/dev/zero of=x"),
            ("echo 'A=1 b'", "echo 'A=1 b'"),
            ("2x=1 y", "2x=1 y"),
        ] {
            assert_eq!(normalize_command(text), normal);
        }
    }

    #[test]
    fn long_texts_are_truncated_with_a_distinguishing_checksum() {
        let long = |end: &str| normalize_command(&format!("echo {}{end}", "ä".repeat(2000)));
        assert!(long("a").len() <= MAX_NORMALIZED_BYTES);
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a "));
    }

    #[test]
    fn equivalent_directories_normalize_to_one_path() {
        for (path, name) in
            [("/a/b/", "/a/b"), ("//a//./b", "/a/b"), ("/", "/"), ("/a/../b", "/a/../b")]
        {
            assert_eq!(normalize_directory(path), name);
            assert_eq!(history_directory(None, path), name);
        }
    }

    #[test]
    fn a_directory_of_an_executor_has_its_name() {
        let key = history_directory(Some("build"), "/srv/src/");
        assert_eq!(key, "build:/srv/src");
        // Queries normalize the key again.
        assert_eq!(normalize_directory(&key), key);
        let root = history_directory(Some("build"), "/");
        assert_eq!(normalize_directory(&root), root);
        assert_ne!(root, history_directory(None, "/"));
    }

    proptest! {
        #[test]
        fn normalization_is_idempotent(text in "[a-zA= ;&|()'\"\\\\\\n\\t$`ä-]{0,60}") {
            let normal = normalize_command(&text);
            prop_assert_eq!(normalize_command(&normal), normal);
        }

        #[test]
        fn the_number_of_blanks_does_not_matter(
            words in prop::collection::vec("[a-z0-9=./-]{1,8}|'[a-z  ]{0,5}'", 1..8),
            blanks in prop::collection::vec("[ \\t]{1,4}", 8),
        ) {
            let spaced: String =
                words.iter().zip(&blanks).flat_map(|(w, b)| [w.as_str(), b.as_str()]).collect();
            prop_assert_eq!(normalize_command(&spaced), normalize_command(&words.join(" ")));
        }
    }
}
