//! The agent program's own settings file, of which four keys mean something here.
//!
//! The file is not ours: whatever is wrong with it is a warning, and everything else in it is
//! left alone.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use siding_model::settings::{Invalid, Key, Layer, Origin, RawValue, Warning};
use siding_model::span;

use super::error::SettingsError;
use super::file::{self, Hidden};

/// The host's names, written `{"bash": {"NAME": …}}` or `{"bash.NAME": …}`, and ours.
const KEYS: [(&str, &str, Key); 4] = [
    ("backgroundMaxElapsedSeconds", "bash.backgroundMaxElapsedSeconds", Key::MaxElapsed),
    ("backgroundMaxElapsedHardCap", "bash.backgroundMaxElapsedHardCap", Key::MaxElapsedHardCap),
    ("backgroundKillSignal", "bash.backgroundKillSignal", Key::KillSignal),
    ("backgroundKillGraceSeconds", "bash.backgroundKillGraceSeconds", Key::KillGrace),
];

/// Returns what the host's file sets, or `None` when there is no file.
pub(super) fn layer(path: &Path) -> Option<(Layer, Vec<Warning>)> {
    let unusable = |why| {
        let path = path.to_owned();
        Some((Layer::default(), vec![Warning::HostUnusable { path, why }]))
    };
    let content = match file::read(path, Hidden::Absent) {
        Ok(content) => content?,
        Err(SettingsError::Io { source, .. }) => {
            return unusable(format!("could not be read: {source}"));
        }
        Err(SettingsError::TooLarge { .. }) => {
            return unusable(format!("larger than {}", file::FILE_MAX));
        }
        Err(_) => return unusable("not a regular file".to_owned()),
    };
    match serde_json::from_slice::<Map<String, Value>>(&content.bytes) {
        Ok(root) => Some(values(path, &root)),
        Err(error) => unusable(format!("not a JSON object: {error}")),
    }
}

fn values(path: &Path, root: &Map<String, Value>) -> (Layer, Vec<Warning>) {
    let nested = root.get("bash").and_then(Value::as_object);
    let (mut layer, mut warnings) = (Layer::default(), Vec::new());
    for (short, name, key) in KEYS {
        let value = nested.and_then(|bash| bash.get(short)).or_else(|| root.get(name));
        let Some(value) = value.filter(|value| !value.is_null()) else {
            continue;
        };
        let origin = Origin::Host { path: path.to_owned() };
        if let Err(Invalid::Value { why, .. }) = layer.set(key, &raw(key, value), origin.into()) {
            let path = path.to_owned();
            warnings.push(Warning::HostValue { path, name, why });
        }
    }
    (layer, warnings)
}

/// Returns the value as ours: the host counts in seconds, we write the unit.
fn raw(key: Key, value: &Value) -> RawValue {
    let is_signal = key == Key::KillSignal;
    match value {
        Value::String(text) => RawValue::Text(text.clone()),
        Value::Bool(truth) => RawValue::Boolean(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) if is_signal => RawValue::Integer(whole),
            (Some(whole), _) => RawValue::Text(format!("{whole}s")),
            (None, Some(seconds)) if !is_signal => Duration::try_from_secs_f64(seconds)
                .map_or(RawValue::Other("a number out of range"), |duration| {
                    RawValue::Text(span::exact(duration))
                }),
            (None, _) => RawValue::Other("a number with a fraction"),
        },
        Value::Null => RawValue::Other("null"),
        Value::Array(_) => RawValue::Other("an array"),
        Value::Object(_) => RawValue::Other("an object"),
    }
}
