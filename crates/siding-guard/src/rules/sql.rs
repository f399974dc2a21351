//! Removes the strings that an SQL text only compares with values.

use std::borrow::Cow;

/// Operators that only compare their right operand.
const COMPARISON_OPERATORS: &[&str] =
    &["like", "ilike", "rlike", "regexp", "glob", "=", "<>", "!=", "~", "~*"];

/// Tokens that make the start or end of a string uncertain: escapes, comments, other quotes.
const QUOTE_ALTERING_MARKERS: &[&str] = &["\\", "\"", "`", "$", "#", "--", "/*"];

/// Keywords of statements that run a string as SQL.
const DYNAMIC_SQL_KEYWORDS: &[&str] = &["dblink", "eval", "exec", "prepare"];

/// Returns SQL without quotes, and without the strings after comparison operators, as in `like
/// '%drop table%'`.
///
/// If it is uncertain whether a string is only compared, the string is retained, because a needless
/// question is better than a missed statement. A text whose strings cannot be determined reliably,
/// or which may run a string as SQL, is returned unchanged. A string with `;` is retained.
pub(super) fn strip_compared_strings(text: &str) -> Cow<'_, str> {
    let folded = text.to_ascii_lowercase();
    let is_uncertain =
        QUOTE_ALTERING_MARKERS.iter().chain(DYNAMIC_SQL_KEYWORDS).any(|mark| folded.contains(mark))
            || text.matches('\'').count() % 2 == 1;
    if is_uncertain || !text.contains('\'') {
        return Cow::Borrowed(text);
    }
    let mut kept = String::new();
    // The parts are alternately outside and inside quotes. A doubled quote produces an empty part
    // that counts as outside.
    for (at, part) in text.split('\'').enumerate() {
        let is_compared = kept.trim_end().to_ascii_lowercase();
        let is_compared =
            COMPARISON_OPERATORS.iter().any(|operator| is_compared.ends_with(operator));
        let is_string = at % 2 == 1;
        if !is_string || !is_compared || part.contains(';') {
            kept.push_str(part);
        }
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compared_strings_are_stripped() {
        for (text, expected) in [
            ("select 1 where a like '%drop table%' limit 5", "select 1 where a like  limit 5"),
            ("select 1 where a ILIKE 'drop table' or b = 'x'", "select 1 where a ILIKE  or b = "),
            ("drop table x", "drop table x"),
            ("select f('drop table x')", "select f(drop table x)"),
        ] {
            assert_eq!(strip_compared_strings(text), expected, "{text}");
        }
        for text in [
            "set @x = 'drop table y'; prepare s from @x; execute s",
            "select 1 where a = 'it\\'s'; drop table x; --'",
            "select 1 where a = 'it; drop table x",
            "-- it = 's\ndrop table x\n-- it's",
            "select \"it = 's\"; drop table x; select \"it's\"",
        ] {
            assert_eq!(strip_compared_strings(text), text);
        }
    }
}
