//! Placeholders in the texts of a script.

use std::collections::BTreeMap;

use serde_json::Value;

/// The texts that the named groups of the `expect` patterns have matched so far, by group name.
pub(super) type Captures = BTreeMap<String, String>;

#[derive(Debug, PartialEq, Eq)]
enum Segment<'t> {
    Text(&'t str),
    /// A placeholder, `${name}`.
    Name(&'t str),
}

/// Splits a text into segments. `$${` stands for a literal `${`.
fn split_segments(text: &str) -> Vec<Segment<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, behind) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            pieces.extend([Segment::Text(before), Segment::Text("${")]);
            rest = behind;
            continue;
        }
        let Some((name, behind)) = behind.split_once('}') else { break };
        pieces.extend([Segment::Text(before), Segment::Name(name)]);
        rest = behind;
    }
    pieces.push(Segment::Text(rest));
    pieces
}

/// Returns the names of the placeholders in a text.
pub(super) fn placeholder_names(text: &str) -> impl Iterator<Item = &str> {
    split_segments(text).into_iter().filter_map(|piece| match piece {
        Segment::Text(_) => None,
        Segment::Name(name) => Some(name),
    })
}

/// Replaces the placeholders in a text.
///
/// # Errors
///
/// The name of the first placeholder for which no text was captured.
pub(super) fn fill(text: &str, found: &Captures) -> Result<String, String> {
    split_segments(text)
        .into_iter()
        .map(|piece| match piece {
            Segment::Text(text) => Ok(text),
            Segment::Name(name) => {
                found.get(name).map(String::as_str).ok_or_else(|| name.to_owned())
            }
        })
        .collect()
}

/// Replaces the placeholders in all strings of a value, except in keys.
///
/// # Errors
///
/// The name of the first placeholder for which no text was captured.
pub(super) fn fill_value(value: &Value, found: &Captures) -> Result<Value, String> {
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

    fn sample_captures() -> Captures {
        [("id".to_owned(), "t-1".to_owned()), ("n".to_owned(), "${id}".to_owned())].into()
    }

    #[test]
    fn placeholders_are_replaced_and_nothing_else() {
        for (text, filled) in [
            ("", ""),
            ("${id}", "t-1"),
            ("a ${id} b ${id}.", "a t-1 b t-1."),
            // Replacements are not expanded again.
            ("${n}", "${id}"),
            ("$id $(id) {id} $", "$id $(id) {id} $"),
            ("echo $${HOME} ${id}", "echo ${HOME} t-1"),
            ("an open ${id", "an open ${id"),
        ] {
            assert_eq!(fill(text, &sample_captures()).as_deref(), Ok(filled), "{text}");
        }
        assert_eq!(fill("${id} ${what}", &sample_captures()), Err("what".to_owned()));
    }

    #[test]
    fn every_string_in_a_value_is_filled() {
        let value = json!({ "${id}": ["${id}", { "a": "is ${id}" }, 1, null, true] });
        let filled = json!({ "${id}": ["t-1", { "a": "is t-1" }, 1, null, true] });
        assert_eq!(fill_value(&value, &sample_captures()), Ok(filled));
        assert_eq!(fill_value(&json!([["${x}"]]), &sample_captures()), Err("x".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_can_be_escaped(text in "[${}a]{0,12}") {
            let written = text.replace("${", "$${");
            // A `$` before a literal `${` would be read as a part of the escape.
            prop_assume!(!text.contains("$${"));
            prop_assert_eq!(fill(&written, &Captures::new()), Ok(text));
        }
    }
}
