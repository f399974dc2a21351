//! The JSON object in the body of a request. Errors name the field, its value and the allowed ones.

use serde_json::{Map, Value};
use siding_model::text::one_line;

/// Maximum width of an invalid name or value in an error, in columns.
const INVALID_JSON_COLUMNS: usize = 60;

/// The fields of a body.
#[derive(Debug)]
pub(crate) struct BodyFields(Map<String, Value>);

impl BodyFields {
    /// Parses a body that may have the fields `allowed`.
    ///
    /// # Errors
    ///
    /// A message for the user if the body is not a JSON object or has another field.
    pub(crate) fn parse(body: &[u8], allowed: &[&str]) -> Result<Self, String> {
        let fields = match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(other) => return Err(format!("the body is {}; send an object", quote_json(&other))),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                return Err(format!(
                    "the body is not JSON, from line {line}, column {column}; send an object"
                ));
            }
        };
        let unknown = fields.keys().find(|name| !allowed.contains(&name.as_str()));
        let Some(unknown) = unknown else { return Ok(Self(fields)) };
        let unknown = one_line(unknown, INVALID_JSON_COLUMNS);
        let allowed: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
        let known = match allowed.as_slice() {
            [] => "this request has no fields; send `{}`".to_owned(),
            allowed => format!("the fields of this request are {}", allowed.join(", ")),
        };
        Err(format!("`{unknown}` is not a field; {known}"))
    }

    /// Returns a text; `None` if the field is missing.
    ///
    /// # Errors
    ///
    /// A message for the user if the value is not a string.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(wrong_value(name, other, "a string")),
        }
    }

    /// Returns a boolean; `false` if the field is missing.
    ///
    /// # Errors
    ///
    /// A message for the user if the value is neither `true` nor `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.0.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wrong_value(name, other, "`true` or `false`")),
        }
    }

    /// Returns a list of texts; `None` if the field is missing.
    ///
    /// # Errors
    ///
    /// A message for the user if the value is not a list of strings.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<&str>>, String> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let texts: Option<Vec<&str>> =
            value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        texts.map(Some).ok_or_else(|| wrong_value(name, value, "a list of strings"))
    }
}

fn wrong_value(name: &str, value: &Value, expected: &str) -> String {
    format!("`{name}` is {}; it must be {expected}", quote_json(value))
}

fn quote_json(value: &Value) -> String {
    format!("`{}`", one_line(&value.to_string(), INVALID_JSON_COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_an_object_with_known_fields() {
        let parse = |body: &str, allowed: &[&str]| {
            BodyFields::parse(body.as_bytes(), allowed).err().unwrap_or_default()
        };
        assert_eq!(parse("{}", &[]), "");
        assert_eq!(parse(r#"{"by": 1}"#, &["by"]), "");
        let cases: [(&str, &[&str], &str); 5] = [
            ("", &["by"], "the body is not JSON, from line 1, column 0; send an object"),
            ("{by}", &["by"], "the body is not JSON, from line 1, column 2; send an object"),
            ("[1]", &["by"], "the body is `[1]`; send an object"),
            (
                r#"{"for": 1}"#,
                &["text", "eof"],
                "`for` is not a field; the fields of this request are `text`, `eof`",
            ),
            (r#"{"a\n": 1}"#, &[], r"`a\n` is not a field; this request has no fields; send `{}`"),
        ];
        for (body, allowed, message) in cases {
            assert_eq!(parse(body, allowed), message);
        }
    }

    #[test]
    fn a_field_of_another_type_is_named_with_its_value() {
        let body = br#"{"text": 7, "eof": "yes", "ids": ["a", 1], "none": []}"#;
        let fields = BodyFields::parse(body, &["text", "eof", "ids", "none"]).expect("fields");
        assert_eq!(fields.text("text"), Err("`text` is `7`; it must be a string".to_owned()));
        assert_eq!(fields.text("eof"), Ok(Some("yes")));
        assert_eq!(
            fields.flag("eof"),
            Err("`eof` is `\"yes\"`; it must be `true` or `false`".to_owned())
        );
        assert_eq!(
            fields.texts("ids"),
            Err("`ids` is `[\"a\",1]`; it must be a list of strings".to_owned())
        );
        assert_eq!(fields.texts("none"), Ok(Some(Vec::new())));
        assert_eq!((fields.text("x"), fields.flag("x")), (Ok(None), Ok(false)));
        assert_eq!(fields.texts("x"), Ok(None));
    }
}
