//! The query of an address: names and values in the encoding of HTML forms.

use std::borrow::Cow;

use siding_model::text::one_line;

/// Maximum width of an invalid value in an error, in columns.
const INVALID_VALUE_COLUMNS: usize = 60;

/// The query of a request. If a name has several values, the first one is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query without its `?`. Invalid escapes remain unchanged, and invalid UTF-8 is
    /// replaced.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        )
    }

    /// Returns the value of a name; `None` if it is missing or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Checks that the query has no names except the allowed ones.
    ///
    /// # Errors
    ///
    /// A message for the user, with the allowed names. A misspelled name would change nothing
    /// otherwise.
    pub(crate) fn check_names(&self, allowed: &[&str]) -> Result<(), String> {
        let is_other = |(name, _): &&(String, String)| !allowed.contains(&name.as_str());
        let Some((name, _)) = self.0.iter().find(is_other) else { return Ok(()) };
        let name = one_line(name, INVALID_VALUE_COLUMNS);
        Err(format!(
            "`{name}` is no parameter of this address; {}",
            list_choices("parameters", allowed)
        ))
    }

    /// Returns a number; `None` if it is missing.
    ///
    /// # Errors
    ///
    /// A message for the user if the value is not a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let text = one_line(text, INVALID_VALUE_COLUMNS);
            format!("`{name}={text}` is not a number, such as `{name}=100`")
        })
    }

    /// Returns a size in bytes; `None` if it is missing.
    ///
    /// # Errors
    ///
    /// As for [`Self::bytes`], and for a size below `smallest`.
    pub(crate) fn size(&self, name: &str, smallest: u64) -> Result<Option<u64>, String> {
        match self.bytes(name)? {
            Some(size) if size < smallest => {
                Err(format!("`{name}={size}` is too small; the smallest is {smallest} bytes"))
            }
            size => Ok(size),
        }
    }

    /// Returns a number of bytes; `None` if it is missing.
    ///
    /// # Errors
    ///
    /// A message for the user if the value is not such a number. With a default in place of it, the
    /// user would read another part of an output.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let text = one_line(text, INVALID_VALUE_COLUMNS);
            format!("`{name}={text}` is not a number of bytes, such as `{name}=4096`")
        })
    }

    /// Returns one of the allowed values; `None` if the name is missing.
    ///
    /// # Errors
    ///
    /// A message for the user, with the allowed values, if the value is another one.
    pub(crate) fn choice<'a>(
        &self,
        name: &str,
        allowed: &[&'a str],
    ) -> Result<Option<&'a str>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if let Some(value) = allowed.iter().find(|value| **value == text) {
            return Ok(Some(*value));
        }
        let text = one_line(text, INVALID_VALUE_COLUMNS);
        Err(format!("`{name}={text}` is not allowed; {}", list_choices("values", allowed)))
    }

    /// Returns a boolean; `false` if the name is missing.
    ///
    /// # Errors
    ///
    /// As for [`Self::choice`].
    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        let value = self.choice(name, &["true", "false", "1", "0"])?;
        Ok(matches!(value, Some("true" | "1")))
    }
}

/// Returns the end of a message about an invalid name or value.
fn list_choices(what: &str, allowed: &[&str]) -> String {
    let listed: Vec<String> = allowed.iter().map(|value| format!("`{value}`")).collect();
    format!("the {what} are {}", listed.join(", "))
}

/// Encodes a value for a query.
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Cow::Owned(out)
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, decode_pair(tail)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn decode_pair(text: &[u8]) -> Option<u8> {
    let pair = std::str::from_utf8(text.get(..2)?).ok()?;
    pair.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(pair, 16).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_values_are_decoded() {
        let query = Query::parse("q=a%20b+c&empty=&from=12&q=later&%zz&x=%e2%82%ac%ff%+1");
        assert_eq!(query.get("q"), Some("a b c"));
        assert_eq!((query.get("empty"), query.get("none")), (None, None));
        assert_eq!((query.number("from"), query.number("none")), (Ok(Some(12)), Ok(None)));
        let message = "`q=a b c` is not a number, such as `q=100`".to_owned();
        assert_eq!(query.number("q"), Err(message));
        assert_eq!(query.get("x"), Some("€\u{fffd}% 1"));
    }

    #[test]
    fn a_mistyped_number_of_bytes_is_refused() {
        let read = |text: &str| Query::parse(text).bytes("from");
        assert_eq!(read("from=12&max=x"), Ok(Some(12)));
        assert_eq!((read(""), read("from=")), (Ok(None), Ok(None)));
        for value in ["-1", "1.5", "4KiB", "99999999999999999999"] {
            let message = format!("`from={value}` is not a number of bytes, such as `from=4096`");
            assert_eq!(read(&format!("from={value}")), Err(message));
        }
    }

    #[test]
    fn unknown_names_and_small_sizes_are_refused() {
        let query = Query::parse("max=20&from=1");
        assert_eq!(query.check_names(&["from", "max"]), Ok(()));
        let message = "`max` is no parameter of this address; the parameters are `from`, `before`";
        assert_eq!(query.check_names(&["from", "before"]), Err(message.to_owned()));
        let message = "`max=20` is too small; the smallest is 128 bytes".to_owned();
        assert_eq!(query.size("max", 128), Err(message));
        assert_eq!(query.size("max", 20), Ok(Some(20)));
        assert_eq!(query.size("none", 20), Ok(None));
    }

    #[test]
    fn only_the_allowed_values_of_a_choice_are_accepted() {
        let read = |text: &str| Query::parse(text).choice("sort", &["slow", "flaky"]);
        assert_eq!(
            (read("sort=slow"), read("sort="), read("")),
            (Ok(Some("slow")), Ok(None), Ok(None))
        );
        let message = "`sort=Slow` is not allowed; the values are `slow`, `flaky`";
        assert_eq!(read("sort=Slow"), Err(message.to_owned()));
        let flag = |text: &str| Query::parse(text).flag("running");
        for (text, expected) in [("true", true), ("1", true), ("false", false), ("0", false)] {
            assert_eq!(flag(&format!("running={text}")), Ok(expected));
        }
        assert_eq!(flag(""), Ok(false));
        let message = "`running=no` is not allowed; the values are `true`, `false`, `1`, `0`";
        assert_eq!(flag("running=no"), Err(message.to_owned()));
    }

    proptest! {
        #[test]
        fn an_encoded_value_is_decoded_to_itself(text in "\\PC{0,20}") {
            let query = format!("q={}", encode(&text));
            let decoded = Query::parse(&query);
            prop_assert_eq!(decoded.get("q").unwrap_or_default(), text);
        }

        #[test]
        fn any_query_can_be_parsed(text in "[ -~]{0,40}") {
            let _parsed = Query::parse(&text);
        }
    }
}
