//! Parses one TOML settings file into one layer.

use std::path::Path;

use siding_model::settings::{InvalidSetting, Layer, Origin, RawValue, SettingSource, ValueError};
use siding_model::text::one_line;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::SettingsError;

/// Key of the system file that lists the keys that no other source may change.
const LOCKED_KEY: &str = "locked";

/// The text of a file, for converting offsets to line numbers, and the origin of its values.
struct TomlSource<'t> {
    text: &'t str,
    origin: Origin,
}

/// Returns the values of a file, and its mistakes in line order.
///
/// A file with a syntax error sets nothing, because the text after the error has no certain
/// meaning.
pub(super) fn parse_layer(
    path: &Path,
    bytes: &[u8],
    origin: Origin,
) -> (Layer, Vec<SettingsError>) {
    let mut layer = Layer::default();
    let mistakes = match parse(path, bytes) {
        Ok((text, table)) => {
            let source = TomlSource { text, origin };
            let mut entries: Vec<_> = table.into_inner().into_iter().collect();
            entries.sort_by_key(|(key, _)| key.span().start);
            let results = entries.iter().flat_map(|(key, value)| {
                let place = source.locate(key.span().start);
                match key.get_ref().as_ref() {
                    LOCKED_KEY => source.read_locked_keys(&mut layer, value, &place),
                    name => {
                        let set = layer.set_by_name(name, &raw_value(value.get_ref()), place);
                        vec![set.map_err(|mistake| source.locate_mistake(mistake, value))]
                    }
                }
            });
            results.filter_map(Result::err).map(SettingsError::from).collect()
        }
        Err(error) => vec![error],
    };
    (layer, mistakes)
}

fn parse<'t>(
    path: &Path,
    bytes: &'t [u8],
) -> Result<(&'t str, Spanned<DeTable<'t>>), SettingsError> {
    let text = str::from_utf8(bytes).map_err(|error| SettingsError::NotText {
        path: path.to_owned(),
        line: line_of(bytes, error.valid_up_to()),
    })?;
    let table = DeTable::parse(text).map_err(|error| {
        let at = text.floor_char_boundary(error.span().map_or(0, |span| span.start));
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        SettingsError::Syntax {
            path: path.to_owned(),
            line: line_of(bytes, at),
            column: text[line_start..at].chars().count() + 1,
            message: one_line(error.message(), 200),
        }
    })?;
    Ok((text, table))
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    let before = &bytes[..offset.min(bytes.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

impl TomlSource<'_> {
    fn locate(&self, offset: usize) -> SettingSource {
        SettingSource {
            origin: self.origin.clone(),
            line: Some(line_of(self.text.as_bytes(), offset)),
        }
    }

    /// Returns a mistake in the table of an executor, with the line of the affected key.
    /// Tables of several executors can be anywhere in a file, and `value` starts with the first of
    /// them. Returns any other mistake unchanged.
    fn locate_mistake(
        &self,
        mut mistake: InvalidSetting,
        value: &Spanned<DeValue<'_>>,
    ) -> InvalidSetting {
        if let InvalidSetting::Value { place, why: ValueError::Executor(bad), .. } = &mut mistake {
            let (name, key) = bad.key_path();
            if let Some((offset, executor)) = find_entry(value, name) {
                let key = key.and_then(|key| find_entry(executor, key));
                *place = self.locate(key.map_or(offset, |(offset, _)| offset));
            }
        }
        mistake
    }

    /// Parses `locked`: an array of names, or a table of `name = true`.
    fn read_locked_keys(
        &self,
        layer: &mut Layer,
        value: &Spanned<DeValue<'_>>,
        place: &SettingSource,
    ) -> Vec<Result<(), InvalidSetting>> {
        let misshapen = |offset| Err(InvalidSetting::BadLockList { place: self.locate(offset) });
        // Only the system file may lock keys. In any other file, `locked` is reported as one
        // mistake, even if its value is malformed or empty.
        if !matches!(self.origin, Origin::System { .. }) {
            return vec![Err(InvalidSetting::LockNotAllowed { place: place.clone() })];
        }
        if let Some(names) = value.get_ref().as_array() {
            let lock = |name: &Spanned<DeValue<'_>>| match name.get_ref().as_str() {
                Some(text) => layer.lock(text, self.locate(name.span().start)),
                None => misshapen(name.span().start),
            };
            return names.iter().map(lock).collect();
        }
        if let Some(table) = value.get_ref().as_table() {
            let lock = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let name: &Spanned<std::borrow::Cow<'_, str>> = name;
                let offset = name.span().start;
                match value.get_ref().as_bool() {
                    Some(true) => layer.lock(name.get_ref(), self.locate(offset)),
                    Some(false) => Ok(()),
                    None => misshapen(offset),
                }
            };
            return table.iter().map(lock).collect();
        }
        vec![Err(InvalidSetting::BadLockList { place: place.clone() })]
    }
}

/// Returns the offset of a key in a table, and the key's value; `None` if `value` is not a table,
/// or if the table does not contain the key.
fn find_entry<'v, 't>(
    table: &'v Spanned<DeValue<'t>>,
    name: &str,
) -> Option<(usize, &'v Spanned<DeValue<'t>>)> {
    let mut entries = table.get_ref().as_table()?.iter();
    let (key, value) = entries.find(|(key, _)| **key.get_ref() == *name)?;
    Some((key.span().start, value))
}

fn raw_value(value: &DeValue<'_>) -> RawValue {
    match value {
        DeValue::String(text) => RawValue::Text(text.clone().into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(RawValue::Other("a number of more than 64 bits"), RawValue::Integer),
        DeValue::Boolean(truth) => RawValue::Boolean(*truth),
        DeValue::Float(_) => RawValue::Other("a number with a fraction"),
        DeValue::Datetime(_) => RawValue::Other("a date or time"),
        DeValue::Array(items) => {
            RawValue::List(items.iter().map(|item| raw_value(item.get_ref())).collect())
        }
        DeValue::Table(table) => RawValue::Table(
            table
                .iter()
                .map(|(key, value)| {
                    (key.get_ref().clone().into_owned(), raw_value(value.get_ref()))
                })
                .collect(),
        ),
    }
}
