//! Reads Rust source as tokens, so that comments and the contents of strings are not mistaken for
//! code.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// Parses a file into tokens. Fails if the file is not Rust.
pub(super) fn read(path: &Path) -> Result<TokenStream> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read `{}`", path.display()))?;
    text.parse().map_err(|error| anyhow!("{} is not Rust: {error}", path.display()))
}

/// Returns every identifier, including keywords, in the order of the source.
pub(super) fn identifiers(stream: &TokenStream) -> Vec<Ident> {
    let mut found = Vec::new();
    for token in stream.clone() {
        match token {
            TokenTree::Ident(identifier) => found.push(identifier),
            TokenTree::Group(group) => found.extend(identifiers(&group.stream())),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    found
}

/// Returns the stream without the items under `#[cfg(test)]`, at any depth.
pub(super) fn without_unit_tests(stream: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(length) = unit_test_length(&tokens[at..]) {
            at += length;
            continue;
        }
        kept.push(match &tokens[at] {
            TokenTree::Group(group) => TokenTree::Group(proc_macro2::Group::new(
                group.delimiter(),
                without_unit_tests(group.stream()),
            )),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => tokens[at].clone(),
        });
        at += 1;
    }
    kept.into_iter().collect()
}

/// Returns the number of tokens of a `#[cfg(test)]` item at the start, or `None` if there is no
/// such item.
fn unit_test_length(tokens: &[TokenTree]) -> Option<usize> {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = tokens else { return None };
    if hash.as_char() != '#' || attribute.stream().to_string() != "cfg (test)" {
        return None;
    }
    let ends_the_item = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    };
    let is_import = tokens.iter().take(6).any(|token| is_word(token, "use"));
    let end = tokens.iter().skip(2).position(|token| {
        // The braces of `use a::{b, c};` are not the body of an item.
        ends_the_item(token) && !(is_import && matches!(token, TokenTree::Group(_)))
    });
    Some(end.map_or(tokens.len(), |end| end + 3))
}

/// Returns whether a token is the identifier or keyword `text`.
pub(super) fn is_word(token: &TokenTree, text: &str) -> bool {
    matches!(token, TokenTree::Ident(word) if word == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        let stream: TokenStream = source.parse().expect("it is Rust");
        identifiers(&without_unit_tests(stream)).iter().map(Ident::to_string).collect()
    }

    #[test]
    fn comments_and_strings_are_no_identifiers() {
        assert_eq!(words("// a\nfn b() { \"c\"; r#\"d\"#; 'e'; /* f */ g }"), ["fn", "b", "g"]);
    }

    #[test]
    fn items_of_unit_tests_are_left_out() {
        assert_eq!(words("#[cfg(test)] mod tests { use a; } fn b() {}"), ["fn", "b"]);
        assert_eq!(words("#[cfg(test)] use a::{b, c}; fn d() {}"), ["fn", "d"]);
        assert_eq!(words("#[cfg(test)] mod tests; fn d() {}"), ["fn", "d"]);
        assert_eq!(words("impl A { #[cfg(test)] fn b() {} fn c() {} }"), ["impl", "A", "fn", "c"]);
    }
}
