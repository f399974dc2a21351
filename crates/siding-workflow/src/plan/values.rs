//! Validates the individual values of a workflow's file.

use std::time::Duration;

use siding_model::duration;
use siding_model::executor::is_executor_name;
use siding_model::text::one_line;

use super::file::FileMistake;
use super::raw::RawEnv;

/// Maximum number of retries of a step.
const MAX_RETRIES: i64 = 10;
/// Maximum number of concurrent steps, each of which needs a shim and a descriptor.
const MAX_PARALLEL_STEPS: usize = 64;
/// Maximum length, in bytes, of a step's id in the file, without the values of a matrix.
const MAX_ID_BYTES: usize = 64;

/// Validates the number of retries.
pub(super) fn parse_retries(number: i64) -> Result<u32, String> {
    u32::try_from(number)
        .ok()
        .filter(|_| number <= MAX_RETRIES)
        .ok_or_else(|| format!("`retries` is {number}; write 0 to {MAX_RETRIES}"))
}

/// Validates the id of a step, which becomes the name of the step's tasks.
pub(super) fn check_id(id: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let begins = id.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if begins && id.chars().all(allowed) && id.len() <= MAX_ID_BYTES {
        return Ok(());
    }
    Err(format!(
        "`id`: `{id}` is not valid; write 1 to {MAX_ID_BYTES} of `A-Z a-z 0-9 . _ -`, the first a \
         letter, a digit or `_`"
    ))
}

/// Rejects variables that cannot be part of an environment.
pub(super) fn check_env(env: &RawEnv) -> Result<(), FileMistake> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    match env.iter().find(|(name, value)| !is_name(name) || value.get_ref().contains('\0')) {
        Some((name, value)) => Err(FileMistake::at_value(value)(format!(
            "`env`: `{name}` cannot be set as an environment variable"
        ))),
        None => Ok(()),
    }
}

/// Rejects a text that is blank or contains a NUL byte.
pub(super) fn check_not_empty(field: &str, text: &str) -> Result<(), String> {
    if text.trim().is_empty() || text.contains('\0') {
        return Err(format!("`{field}` is blank or contains a NUL byte"));
    }
    Ok(())
}

/// Parses a timeout, which must not be zero.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text).map_err(|error| format!("`timeout`: {error}"))?;
    if time.is_zero() {
        return Err("`timeout` must not be zero; write for example `90s` or `10m`".to_owned());
    }
    Ok(time)
}

/// Validates the name of an executor, which `:PARTITION` may follow. Whether the settings have an
/// executor of this name is checked separately, because a recorded workflow must stay readable.
pub(super) fn parse_executor(name: &str) -> Result<String, String> {
    let (executor, partition) = match name.split_once(':') {
        Some((executor, partition)) => (executor, Some(partition)),
        None => (name, None),
    };
    if !is_executor_name(executor) || partition.is_some_and(str::is_empty) {
        return Err(format!(
            "`on`: `{}` is not the name of an executor; write 1 to 40 letters, digits, `-` and \
             `_`, and for a Slurm cluster perhaps `:PARTITION` after them",
            one_line(name, 60)
        ));
    }
    Ok(name.to_owned())
}

/// Validates the number of concurrent steps.
///
/// # Errors
///
/// A message with the allowed range.
pub fn parse_max_parallel(number: i64) -> Result<usize, String> {
    usize::try_from(number)
        .ok()
        .filter(|number| (1..=MAX_PARALLEL_STEPS).contains(number))
        .ok_or_else(|| format!("`max_parallel` is {number}; write 1 to {MAX_PARALLEL_STEPS}"))
}
