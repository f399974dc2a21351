//! Cuts Rust source into words and marks, so that a check is not fooled by comments and strings.
//!
//! Knows just enough of the language for that: it does not parse.

/// One word or mark of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'s> {
    /// The word, or the single character of a mark. Literals are left out altogether.
    pub(super) text: &'s str,
    /// Its line, counted from 1.
    pub(super) line: usize,
}

/// Returns the tokens of a source file without comments, strings, characters and lifetimes.
pub(super) fn tokenize(source: &str) -> Vec<Token<'_>> {
    let mut cursor = Cursor { rest: source, line: 1 };
    let mut tokens = Vec::new();
    while let Some(first) = cursor.rest.chars().next() {
        let rest = cursor.rest;
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_bytes(rest)
        } else if let Some(length) = literal_bytes(rest) {
            length
        } else {
            let length = word_bytes(rest);
            if !first.is_whitespace() {
                tokens.push(Token { text: &rest[..length], line: cursor.line });
            }
            length
        };
        cursor.advance(length);
    }
    tokens
}

struct Cursor<'s> {
    rest: &'s str,
    line: usize,
}

impl Cursor<'_> {
    fn advance(&mut self, length: usize) {
        let (passed, rest) = self.rest.split_at(length);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }
}

/// Returns the length of the word at the start, or of the one character there.
fn word_bytes(text: &str) -> usize {
    let is_word_char = |character: char| character.is_alphanumeric() || character == '_';
    // A raw identifier is never a keyword: `r#unsafe` stays one token that equals no keyword.
    let prefix = if text.starts_with("r#") { 2 } else { 0 };
    let length = text[prefix..]
        .find(|character| !is_word_char(character))
        .map_or(text.len(), |end| prefix + end);
    if length > prefix { length } else { text.chars().next().map_or(0, char::len_utf8) }
}

/// Returns the length of the block comment at the start; these nest.
fn block_comment_bytes(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of the string, character or lifetime at the start, or `None` if there is
/// none.
fn literal_bytes(text: &str) -> Option<usize> {
    let prefixes = ["br", "cr", "b", "c", "r", ""];
    let prefix = prefixes.into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            rest.starts_with('"')
                || (*prefix == "b" || prefix.is_empty()) && rest.starts_with('\'')
                || prefix.ends_with('r') && rest.trim_start_matches('#').starts_with('"')
        })
    })?;
    let body = &text[prefix.len()..];
    let length = if prefix.ends_with('r') {
        raw_string_bytes(body)
    } else if body.starts_with('"') {
        quoted_bytes(body, '"')
    } else {
        char_or_lifetime_bytes(body)
    };
    Some(prefix.len() + length)
}

fn raw_string_bytes(text: &str) -> usize {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = hashes + 1;
    text[body..].find(&end).map_or(text.len(), |at| body + at + end.len())
}

fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn char_or_lifetime_bytes(text: &str) -> usize {
    let mut after = text.chars().skip(1);
    match (after.next(), after.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted_bytes(text, '\''),
        // `'a` without a closing quote: the quote and the name.
        _ => 1 + word_bytes(&text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        tokenize(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_yield_no_tokens() {
        assert_eq!(words("a // unsafe\nb /* x /* unsafe */ y */ c"), ["a", "b", "c"]);
        assert_eq!(words("/// unsafe\nfn f() {}"), ["fn", "f", "(", ")", "{", "}"]);
    }

    #[test]
    fn strings_yield_no_tokens() {
        assert_eq!(words(r#"a("unsafe \" unsafe", b)"#), ["a", "(", ",", "b", ")"]);
        assert_eq!(words("a r#\"un\"safe\"# b"), ["a", "b"]);
        assert_eq!(words("a br\"\\\" b"), ["a", "b"]);
        assert_eq!(words("a c\"x\" b\"y\" b"), ["a", "b"]);
    }

    #[test]
    fn characters_and_lifetimes_are_distinguished() {
        assert_eq!(words(r"f('\'', b'x', '\\', '/') g"), ["f", "(", ",", ",", ",", ")", "g"]);
        assert_eq!(words("&'a str 'x' 'static"), ["&", "str"]);
        assert_eq!(words("'\"' a \"b\""), ["a"]);
    }

    #[test]
    fn tokens_carry_their_line() {
        let source = "one\n\"two\nlines\"\nunsafe { r#unsafe }";
        let found: Vec<_> =
            tokenize(source).into_iter().map(|token| (token.text, token.line)).collect();
        assert_eq!(found, [("one", 1), ("unsafe", 4), ("{", 4), ("r#unsafe", 4), ("}", 4)]);
    }

    #[test]
    fn tokenizing_broken_source_terminates() {
        for broken in ["\"", "'", "r#\"", "/*", "b'", "'\\", "r#", "ä/*ö", "r##"] {
            let _best_effort = tokenize(broken);
        }
    }
}
