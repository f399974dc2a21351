//! Changes one key in the text of a settings file, and leaves all other bytes unchanged.

use std::ops::Range;

use siding_model::settings::{InvalidSetting, Key, Layer, Origin, RawValue, Settings};
use toml_edit::Table;

use crate::install::json::TextError;
use crate::install::toml;
use crate::stdout;

/// Maximum columns of a comment about a setting.
const COMMENT_COLUMNS: usize = 98;

/// Checks a value that is given as one text, and formats it as TOML.
pub(super) fn format_value(key: Key, text: &str) -> Result<String, InvalidSetting> {
    let mut layer = Layer::default();
    let origin = Origin::Call { flag: key.name().to_owned() };
    layer.set(key, &RawValue::Text(text.to_owned()), origin.into())?;
    Ok(match Settings::merge([layer]).value(key) {
        // The text is kept as it was given: the displayed form of an address lacks its secret.
        RawValue::Text(_) => quote(text.trim()),
        value @ (RawValue::Integer(_)
        | RawValue::Boolean(_)
        | RawValue::List(_)
        | RawValue::Table(_)
        | RawValue::Other(_)) => render(&value),
    })
}

/// Returns the text with a key set to `value`, which must be formatted as TOML.
///
/// # Errors
///
/// The text is not TOML, or the key is a table.
pub(super) fn with_value(text: &str, key: Key, value: &str) -> Result<String, TextError> {
    let document = toml::parse(text)?;
    match find_entry(text, document.as_table(), key)? {
        Some(Entry { value: Range { start, end }, .. }) => {
            Ok(format!("{}{value}{}", &text[..start], &text[end..]))
        }
        None => Ok(with_line(text, document.as_table(), &format!("{key} = {value}"))),
    }
}

/// Returns the text without a key and without the rest of the key's line; `None` if the text does
/// not set the key. Comments on other lines stay.
///
/// # Errors
///
/// The text is not TOML, or the key is a table.
pub(super) fn without_key(text: &str, key: Key) -> Result<Option<String>, TextError> {
    let document = toml::parse(text)?;
    let Some(entry) = find_entry(text, document.as_table(), key)? else { return Ok(None) };
    let start = text[..entry.start].rfind('\n').map_or(0, |newline| newline + 1);
    Ok(Some(format!("{}{}", &text[..start], &text[line_end(text, entry.value.end)..])))
}

/// Returns the text with a comment about a key that the text does not set: what the setting means,
/// and its present value or its form. Returns a text that sets the key, or that is not TOML,
/// unchanged.
pub(super) fn with_comment(text: &str, key: Key, present: &RawValue) -> String {
    let Ok(document) = toml::parse(text) else { return text.to_owned() };
    if document.as_table().contains_key(key.name()) {
        return text.to_owned();
    }
    let about = stdout::wrap_indented(key.about(), 0, COMMENT_COLUMNS);
    let mut lines: Vec<String> = about.lines().map(|line| format!("# {line}")).collect();
    lines.extend(commented_example(key, present));
    with_line(text, document.as_table(), &lines.join(newline(text)))
}

/// Returns the comment lines that set a key to its present value. For a key with a table for each
/// machine, they show the form of one table.
fn commented_example(key: Key, present: &RawValue) -> Vec<String> {
    match present {
        RawValue::Table(_) => {
            vec![format!("# [{key}.NAME]"), "# host = \"USER@MACHINE\"".to_owned()]
        }
        RawValue::Text(_)
        | RawValue::Integer(_)
        | RawValue::Boolean(_)
        | RawValue::List(_)
        | RawValue::Other(_) => vec![format!("# {key} = {}", render(present))],
    }
}

/// The position of a key and of its value in a text.
struct Entry {
    /// Offset of the key.
    start: usize,
    value: Range<usize>,
}

fn find_entry(text: &str, table: &Table, key: Key) -> Result<Option<Entry>, TextError> {
    let Some((name, item)) = table.get_key_value(key.name()) else { return Ok(None) };
    let start = name.span().map_or(0, |span| span.start);
    match item.as_value().and_then(toml_edit::Value::span) {
        Some(value) => Ok(Some(Entry { start, value })),
        None => {
            let what = format!("`{key}` is a table, which only `siding config edit` can change");
            Err(TextError::at_offset(text, start, what))
        }
    }
}

/// Adds a line after the last key at the top level, before the first table.
fn with_line(text: &str, table: &Table, line: &str) -> String {
    let values = table.iter().filter_map(|(_, item)| item.as_value()?.span());
    let at = match values.map(|span| span.end).max() {
        Some(end) => line_end(text, end),
        None if table.is_empty() => text.len(),
        None => 0,
    };
    let (before, after) = text.split_at(at);
    let newline = newline(text);
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { newline };
    format!("{before}{end}{line}{newline}{after}")
}

/// Returns the offset after the line that contains an offset.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Returns the line end that the text uses.
fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Formats a value as TOML. A rule is represented by its name.
fn render(value: &RawValue) -> String {
    match value {
        RawValue::Text(text) => quote(text),
        RawValue::Integer(_) | RawValue::Boolean(_) => value.to_string(),
        RawValue::List(items) => {
            let items: Vec<String> = items.iter().map(|item| quote(&item.to_string())).collect();
            format!("[{}]", items.join(", "))
        }
        RawValue::Table(_) | RawValue::Other(_) => quote(&value.to_string()),
    }
}

fn quote(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_gets_the_form_of_a_settings_file() {
        for (key, text, value) in [
            (Key::KillGrace, " 5s ", "\"5s\""),
            (Key::MaxMemory, "4GiB", "\"4GiB\""),
            (Key::MaxMemory, "4096", "\"4096\""),
            (Key::RetentionTasks, "500", "500"),
            (Key::AutoBackground, "1", "true"),
            (Key::SparePrograms, "editors, gimp", "[\"editors\", \"gimp\"]"),
            (Key::ReapForeign, "claude-sandbox", "[\"claude-sandbox\"]"),
            (Key::NotifyWebhook, "https://h/secret", "\"https://h/secret\""),
        ] {
            let formatted = format_value(key, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(formatted, value, "{key}");
            let new = with_value("", key, &formatted).expect("TOML");
            assert_eq!(new, format!("{key} = {value}\n"));
        }
        let error = format_value(Key::AssistantMode, "maybe").expect_err("no mode").to_string();
        assert_eq!(
            error,
            "`assistant_mode`: `maybe` is not allowed here; write `auto`, `on` or `off`"
        );
    }

    #[test]
    fn only_the_value_changes_and_comments_stay() {
        for (old, set, unset) in [
            ("", "settle = 1\n", None),
            ("# mine", "# mine\nsettle = 1\n", None),
            ("shell = 'sh' # why\n", "shell = 'sh' # why\nsettle = 1\n", None),
            (
                "# a\r\n\tsettle  =  '3s'  # b\r\nshell = 'sh'\r\n",
                "# a\r\n\tsettle  =  1  # b\r\nshell = 'sh'\r\n",
                Some("# a\r\nshell = 'sh'\r\n"),
            ),
            (
                "spare_programs = [\n  'a', # b\n]\n\n[[reap_foreign]]\nname = 'x'\n",
                "spare_programs = [\n  'a', # b\n]\nsettle = 1\n\n[[reap_foreign]]\nname = 'x'\n",
                None,
            ),
            ("[locked]\nshell = true\n", "settle = 1\n[locked]\nshell = true\n", None),
            ("settle = '1s'", "settle = 1", Some("")),
        ] {
            assert_eq!(with_value(old, Key::Settle, "1").expect("TOML"), set);
            assert_eq!(without_key(old, Key::Settle).expect("TOML").as_deref(), unset, "{old}");
        }
        let fault = with_value("a = 1\nb\n", Key::Settle, "1").expect_err("not TOML");
        assert_eq!(fault.line, 2);
        let tables = "[[reap_foreign]]\nname = 'x'\n";
        let fault = without_key(tables, Key::ReapForeign).expect_err("a table");
        assert!(fault.what.contains("siding config edit"), "{}", fault.what);
    }

    #[test]
    fn a_comment_names_the_meaning_and_the_value_of_an_unset_key() {
        let present = RawValue::Text("10s".to_owned());
        let text = with_comment("shell = 'sh'\n", Key::KillGrace, &present);
        let about = Key::KillGrace.about();
        assert_eq!(text, format!("shell = 'sh'\n# {about}\n# kill_grace = \"10s\"\n"));
        assert_eq!(with_comment(&text, Key::Shell, &present), text);
        assert_eq!(with_comment("oops", Key::Shell, &present), "oops");
        let none = Settings::default().value(Key::Executor);
        let text = with_comment("shell = 'sh'\n[locked]\nshell = true\n", Key::Executor, &none);
        let example = "# [executor.NAME]\n# host = \"USER@MACHINE\"\n[locked]\n";
        assert!(text.contains(example), "{text}");
        let used = text.replace("# [executor.NAME]", "[executor.build]").replace("# host", "host");
        assert!(toml::parse(&used).is_ok(), "{used}");
    }
}
