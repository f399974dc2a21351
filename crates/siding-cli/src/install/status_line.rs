//! The status line of Claude Code: `statusLine` of its settings, `{"type":"command","command":…}`.
//!
//! An existing status line is kept: only its `command` is replaced, by a call of siding that prints
//! the output of the original command before its own line. The original command is recorded, so
//! that an uninstall restores its text byte for byte. Without the record, the uninstall extracts
//! the command from the call.

use serde_json::Value;
use siding_model::shell_words::quote_word;

use super::json::{JsonDocument, PathStep, TextError};
use super::json_value::JsonValue;
use super::program::{ProgramNames, split_words};
use super::record::{self, InstallRecord};

/// Key of the status line in the settings.
const STATUS_LINE_KEY: &str = "statusLine";
/// Key of the shell command line in the status line.
const COMMAND_KEY: &str = "command";
/// Seconds between two calls while the host is idle. The line shows an elapsed time, which would
/// mislead if it did not advance.
const REFRESH_SECONDS: u64 = 10;
/// The subcommand of siding that the status line calls.
const SUBCOMMAND: &str = "statusline";
/// The flag whose value is the original command.
const BEFORE_FLAG: &str = "--before";

/// A parsed call of `siding statusline`.
#[derive(Debug, PartialEq, Eq)]
struct StatusLineCall {
    /// The original command, whose output siding prints before its own line.
    before: Option<String>,
}

impl StatusLineCall {
    /// Parses a shell command line. Returns `None` if it does not call `siding statusline`.
    fn parse(command: &str, names: &ProgramNames) -> Option<Self> {
        let words = split_words(command);
        let (program, rest) = words.split_first()?;
        if !names.is_siding(program) || rest.first()? != SUBCOMMAND {
            return None;
        }
        let at = rest.iter().position(|word| word == BEFORE_FLAG);
        Some(Self { before: at.and_then(|at| rest.get(at + 1).cloned()) })
    }

    fn command_line(&self, program: &str) -> String {
        let before =
            self.before.as_ref().map(|before| format!(" {BEFORE_FLAG} {}", quote_word(before)));
        format!("{} {SUBCOMMAND}{}", quote_word(program), before.unwrap_or_default())
    }
}

/// Returns the command of the status line in the file: siding's or the original one.
fn installed_command(json: &JsonDocument) -> Option<String> {
    let Value::String(command) = json.get(&command_path())? else { return None };
    Some(command)
}

const fn command_path() -> [PathStep<'static>; 2] {
    [PathStep::Key(STATUS_LINE_KEY), PathStep::Key(COMMAND_KEY)]
}

/// Installs a status line that calls `program`. If none was requested, only the status line of an
/// earlier install is updated.
///
/// # Errors
///
/// The existing status line has no command, or its key occurs twice.
pub(super) fn install(
    json: &mut JsonDocument,
    is_requested: bool,
    program: &str,
    names: &ProgramNames,
    record: &mut InstallRecord,
) -> Result<(), TextError> {
    json.ensure_unique_keys(&[PathStep::Key(STATUS_LINE_KEY)])?;
    let there = installed_command(json);
    let ours = there.as_ref().and_then(|command| StatusLineCall::parse(command, names));
    match (there, ours) {
        (Some(there), Some(call)) => {
            let line = call.command_line(program);
            if line != there {
                json.replace(&command_path(), &JsonValue::text(line));
            }
        }
        _ if !is_requested => {}
        (Some(theirs), None) => {
            record.record_replaced(&[STATUS_LINE_KEY, COMMAND_KEY], json.raw_text(&command_path()));
            let call = StatusLineCall { before: Some(theirs) };
            json.replace(&command_path(), &JsonValue::text(call.command_line(program)));
        }
        (None, _) if json.get(&[PathStep::Key(STATUS_LINE_KEY)]).is_some() => {
            let what = format!("`{STATUS_LINE_KEY}` has no string `{COMMAND_KEY}`");
            return Err(json.error_at(&[PathStep::Key(STATUS_LINE_KEY)], what));
        }
        (None, _) => {
            let line = StatusLineCall { before: None }.command_line(program);
            let value = JsonValue::map([
                ("type", JsonValue::text("command")),
                (COMMAND_KEY, JsonValue::text(line)),
                ("refreshInterval", JsonValue::Number(REFRESH_SECONDS)),
            ]);
            record::insert_at(json, &[STATUS_LINE_KEY], value, record);
        }
    }
    Ok(())
}

/// Removes siding from the status line, and restores the original command.
pub(super) fn remove(
    json: &mut JsonDocument,
    names: &ProgramNames,
    record: Option<&InstallRecord>,
) {
    let Some(call) =
        installed_command(json).and_then(|command| StatusLineCall::parse(&command, names))
    else {
        return;
    };
    let Some(theirs) = call.before else {
        json.remove(&[PathStep::Key(STATUS_LINE_KEY)]);
        record::remove_if_empty(json, &[], record);
        return;
    };
    let remembered = record.and_then(|made| made.replaced_text(&[STATUS_LINE_KEY, COMMAND_KEY]));
    // The recorded text is restored only if the command in the call has not been edited since.
    let same = |text: &&str| serde_json::from_str::<String>(text).is_ok_and(|text| text == theirs);
    match remembered.filter(same) {
        Some(text) => json.set_raw_text(&command_path(), text),
        None => json.replace(&command_path(), &JsonValue::text(theirs)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Dialect;
    use super::*;

    fn install_twice(text: &str, made: &mut InstallRecord) -> JsonDocument {
        let mut json = JsonDocument::parse(text, Dialect::Strict).expect("JSON");
        let names = ProgramNames::with_name(None);
        for _ in 0..2 {
            install(&mut json, true, "/opt/my tools/siding", &names, made).expect("installed");
        }
        json
    }

    #[test]
    fn an_existing_status_line_is_wrapped_and_restored_exactly() {
        let theirs =
            r#"{"a": 1, "statusLine":{"padding":0,"type":"command","command" : "it\u0027s \/x"}}"#;
        let mut made = InstallRecord::default();
        let mut json = install_twice(theirs, &mut made);
        let line = installed_command(&json).expect("a command");
        assert_eq!(line, r"'/opt/my tools/siding' statusline --before 'it'\''s /x'");
        // An install without `--statusline` keeps the status line and updates the program.
        install(&mut json, false, "/new/siding", &ProgramNames::with_name(None), &mut made)
            .expect("kept");
        assert!(
            installed_command(&json)
                .is_some_and(|line| line.starts_with("/new/siding statusline --b"))
        );
        let mut unremembered = json.clone();
        remove(&mut json, &ProgramNames::with_name(None), Some(&made));
        assert_eq!(json.into_text(), theirs);
        remove(&mut unremembered, &ProgramNames::with_name(None), None);
        assert_eq!(installed_command(&unremembered).as_deref(), Some("it's /x"));
    }

    #[test]
    fn a_status_line_added_by_install_is_removed() {
        for text in ["{}", "{ }\n", "{\n  \"model\": \"x\"\n}\n"] {
            let mut made = InstallRecord::default();
            let mut json = install_twice(text, &mut made);
            assert!(installed_command(&json).is_some_and(|line| line.ends_with("' statusline")));
            remove(&mut json, &ProgramNames::with_name(None), Some(&made));
            assert_eq!(json.into_text(), text);
        }
    }

    #[test]
    fn no_status_line_is_added_without_the_flag() {
        let mut json = JsonDocument::parse("{}", Dialect::Strict).expect("JSON");
        install(
            &mut json,
            false,
            "siding",
            &ProgramNames::with_name(None),
            &mut InstallRecord::default(),
        )
        .expect("left");
        assert_eq!(json.into_text(), "{}");
        let mut odd = JsonDocument::parse(r#"{"statusLine":7}"#, Dialect::Strict).expect("JSON");
        assert!(
            install(
                &mut odd,
                true,
                "siding",
                &ProgramNames::with_name(None),
                &mut InstallRecord::default()
            )
            .is_err()
        );
    }
}
