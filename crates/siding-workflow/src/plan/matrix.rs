//! Expands a matrix into one step for each combination of its values.

use super::MAX_STEPS;
use super::file::FileMistake;
use super::raw::RawMatrix;

/// Maximum number of values of a key. The number of steps is limited separately.
const MAX_VALUES: usize = 100;
/// Maximum length of a value in bytes. The value becomes part of the step's id.
const MAX_VALUE_BYTES: usize = 100;
/// Maximum number of keys of a matrix.
const MAX_KEYS: usize = 8;
/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 32;
/// Prefix of the environment variables that hold the values.
const VARIABLE_PREFIX: &str = "MATRIX_";

/// One value for each key of a matrix, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Combination(Vec<(String, String)>);

impl Combination {
    /// Returns `base` with the values appended, as in `test[os=a,py=3]`.
    pub(super) fn step_id(&self, base: &str) -> String {
        if self.0.is_empty() {
            return base.to_owned();
        }
        let values: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{base}[{}]", values.join(","))
    }

    /// Returns the environment variables with these values, such as `MATRIX_OS` for the key `os`.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(key, value)| (variable_name(key), value.clone()))
    }

    /// Replaces each `{{KEY}}` in a text with the value of the key. The text of a step without a
    /// matrix is returned unchanged.
    ///
    /// # Errors
    ///
    /// A message about a key that the matrix does not have, or about a missing `}}`.
    pub(super) fn substitute(&self, field: &str, text: &str) -> Result<String, String> {
        if self.0.is_empty() {
            return Ok(text.to_owned());
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (key, after) = after
                .split_once("}}")
                .ok_or_else(|| format!("`{field}`: `{{{{` is not closed by `}}}}`"))?;
            let value = self.0.iter().find(|(known, _)| known == key.trim());
            let (_, value) = value.ok_or_else(|| {
                let keys: Vec<&str> = self.0.iter().map(|(key, _)| key.as_str()).collect();
                format!(
                    "`{field}`: the matrix has no key `{}`; its keys are {}",
                    key.trim(),
                    keys.join(", ")
                )
            })?;
            filled.push_str(before);
            filled.push_str(value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Rejects a command that contains a placeholder for a key of the matrix. A value inserted into
    /// the text of a command would be interpreted by the shell.
    ///
    /// # Errors
    ///
    /// A message that names the variable to use instead.
    pub(super) fn reject_placeholders(&self, command: &str) -> Result<(), String> {
        let is_used = |(key, _): &&(String, String)| {
            command.match_indices(key).any(|(at, _)| {
                // `substitute` accepts spaces around a key too.
                command[..at].trim_end().ends_with("{{")
                    && command[at + key.len()..].trim_start().starts_with("}}")
            })
        };
        match self.0.iter().find(is_used) {
            Some((key, _)) => Err(format!(
                "`run`: write \"${}\" for `{{{{{key}}}}}`: values are passed as variables, so that \
                 they cannot change the command",
                variable_name(key)
            )),
            None => Ok(()),
        }
    }
}

fn variable_name(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.to_ascii_uppercase())
}

/// Returns all combinations; of the sorted keys, the last varies fastest. Without keys, returns a
/// single combination without values.
///
/// # Errors
///
/// A mistake in the matrix, or more than `most` combinations.
pub(super) fn expand(matrix: &RawMatrix, most: usize) -> Result<Vec<Combination>, FileMistake> {
    if let Some(last) = matrix.values().max_by_key(|values| values.span().start)
        && matrix.len() > MAX_KEYS
    {
        let what = format!("`matrix` has {} keys; at most {MAX_KEYS}", matrix.len());
        return Err(FileMistake::at_value(last)(what));
    }
    let mut combinations = vec![Combination::default()];
    let mut variables: Vec<String> = Vec::new();
    for (key, values) in matrix {
        let wrong = FileMistake::at_value(values);
        check_key(key).map_err(&wrong)?;
        if variables.contains(&variable_name(key)) {
            return Err(wrong(format!(
                "`matrix`: two keys give the same variable `{}`; rename one",
                variable_name(key)
            )));
        }
        variables.push(variable_name(key));
        let values = parse_values(key, values.get_ref()).map_err(&wrong)?;
        if combinations.len().saturating_mul(values.len()) > most {
            return Err(wrong(format!(
                "`matrix` makes more than {most} steps; a workflow has at most {MAX_STEPS} in all"
            )));
        }
        let with = |before: &Combination| {
            let before = before.0.clone();
            values
                .iter()
                .map(move |value| {
                    let mut all = before.clone();
                    all.push((key.clone(), value.clone()));
                    Combination(all)
                })
                .collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    Ok(combinations)
}

fn check_key(key: &str) -> Result<(), String> {
    let is_word = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let begins = key.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_word && begins && key.len() <= MAX_KEY_BYTES {
        return Ok(());
    }
    Err(format!(
        "`matrix`: `{key}` is not a valid key; write a letter and up to {} letters, digits and `_`",
        MAX_KEY_BYTES - 1
    ))
}

fn parse_values(key: &str, values: &[toml::Value]) -> Result<Vec<String>, String> {
    if values.is_empty() || values.len() > MAX_VALUES {
        return Err(format!("`matrix.{key}` has {} values; write 1 to {MAX_VALUES}", values.len()));
    }
    let mut read: Vec<String> = Vec::new();
    for value in values {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(truth) => truth.to_string(),
            // A floating-point number would be printed in its shortest form: 3.10 as 3.1.
            toml::Value::Float(_) | toml::Value::Datetime(_) => {
                return Err(format!("`matrix.{key}`: write `{value}` in quotes"));
            }
            toml::Value::Array(_) | toml::Value::Table(_) => {
                return Err(format!(
                    "`matrix.{key}`: a value must be a string, an integer or a boolean"
                ));
            }
        };
        if text.is_empty() || text.len() > MAX_VALUE_BYTES || text.chars().any(char::is_control) {
            return Err(format!(
                "`matrix.{key}`: a value must have 1 to {MAX_VALUE_BYTES} bytes and no control \
                 characters"
            ));
        }
        if read.contains(&text) {
            return Err(format!("`matrix.{key}` has the value `{text}` twice"));
        }
        read.push(text);
    }
    Ok(read)
}
