//! Places in a script's texts that are filled with what was found before.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the named groups of `expect` have matched so far.
pub(super) type Found = BTreeMap<String, String>;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    /// `${name}`.
    Name(&'t str),
}

/// Cuts a text into its pieces. `$${` stands for `${`.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, behind) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            pieces.extend([Piece::Text(before), Piece::Text("${")]);
            rest = behind;
            continue;
        }
        let Some((name, behind)) = behind.split_once('}') else { break };
        pieces.extend([Piece::Text(before), Piece::Name(name)]);
        rest = behind;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Returns the names that a text refers to.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Name(name) => Some(name),
    })
}

/// Fills a text.
///
/// # Errors
///
/// The first name for which nothing was found.
pub(super) fn fill(text: &str, found: &Found) -> Result<String, String> {
    pieces(text)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => Ok(text),
            Piece::Name(name) => found.get(name).map(String::as_str).ok_or_else(|| name.to_owned()),
        })
        .collect()
}

/// Fills every text in a value, but no key.
///
/// # Errors
///
/// The first name for which nothing was found.
pub(super) fn fill_value(value: &Value, found: &Found) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, found)?),
        Value::Array(items) => Value::Array(
            items.iter().map(|item| fill_value(item, found)).collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => {
            let filled =
                fields.iter().map(|(key, value)| Ok((key.clone(), fill_value(value, found)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found() -> Found {
        [("id".to_owned(), "t-1".to_owned()), ("n".to_owned(), "${id}".to_owned())].into()
    }

    #[test]
    fn names_are_filled_in_and_nothing_else() {
        for (text, filled) in [
            ("", ""),
            ("${id}", "t-1"),
            ("a ${id} b ${id}.", "a t-1 b t-1."),
            // What was found is never looked at again.
            ("${n}", "${id}"),
            ("$id $(id) {id} $", "$id $(id) {id} $"),
            ("echo $${HOME} ${id}", "echo ${HOME} t-1"),
            ("an open ${id", "an open ${id"),
        ] {
            assert_eq!(fill(text, &found()).as_deref(), Ok(filled), "{text}");
        }
        assert_eq!(fill("${id} ${what}", &found()), Err("what".to_owned()));
    }

    #[test]
    fn texts_are_filled_wherever_they_are() {
        let value = json!({ "${id}": ["${id}", { "a": "is ${id}" }, 1, null, true] });
        let filled = json!({ "${id}": ["t-1", { "a": "is t-1" }, 1, null, true] });
        assert_eq!(fill_value(&value, &found()), Ok(filled));
        assert_eq!(fill_value(&json!([["${x}"]]), &found()), Err("x".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_can_be_written(text in "[${}a]{0,12}") {
            let written = text.replace("${", "$${");
            // A dollar before what is written would be taken for its own.
            prop_assume!(!text.contains("$${"));
            prop_assert_eq!(fill(&written, &Found::new()), Ok(text));
        }
    }
}
