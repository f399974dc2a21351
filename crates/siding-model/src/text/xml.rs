//! Escaping of text for XML.

use super::make_visible;

/// Escapes a text for the content of an XML element, or for an attribute in double quotes.
/// Characters that XML does not allow are shown in a visible form.
#[must_use]
pub fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in make_visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
