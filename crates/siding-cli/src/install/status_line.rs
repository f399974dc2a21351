//! The status line of Claude Code: `statusLine` of its settings, `{"type":"command","command":…}`.
//!
//! One that a person has is kept: only its `command` changes, to a call that runs theirs first. Its
//! text is remembered, so that an uninstall leaves it byte for byte; without the memory it is read
//! out of the call.

use serde_json::Value;

use super::json::{Fault, Json, Step};
use super::made::{self, Made};
use super::program::{Names, quoted, words};
use super::tree::Tree;

/// The member, and the one in it with the line for a shell.
const STATUS_LINE: &str = "statusLine";
const COMMAND: &str = "command";
/// Seconds after which an idle host calls it again: an elapsed time that stands still misleads.
const REFRESH_SECONDS: u64 = 10;
/// What siding is called with.
const SUBCOMMAND: &str = "statusline";
const BEFORE: &str = "--before";

/// A command of siding's.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    /// The command of a person that it runs first.
    before: Option<String>,
}

impl Call {
    /// Reads a command, `None` for one that is not siding's.
    fn read(command: &str, names: &Names) -> Option<Self> {
        let words = words(command);
        let (program, rest) = words.split_first()?;
        if !names.is_siding(program) || rest.first()? != SUBCOMMAND {
            return None;
        }
        let at = rest.iter().position(|word| word == BEFORE);
        Some(Self { before: at.and_then(|at| rest.get(at + 1).cloned()) })
    }

    fn line(&self, program: &str) -> String {
        let before = self.before.as_ref().map(|before| format!(" {BEFORE} {}", quoted(before)));
        format!("{} {SUBCOMMAND}{}", quoted(program), before.unwrap_or_default())
    }
}

/// Returns the command of a status line that is there.
fn command(json: &Json) -> Option<String> {
    let Value::String(command) = json.get(&way())? else { return None };
    Some(command)
}

const fn way() -> [Step<'static>; 2] {
    [Step::Key(STATUS_LINE), Step::Key(COMMAND)]
}

/// Brings a status line about that calls `program`. Where it was not asked for, one of an earlier
/// install is brought up to date.
///
/// # Errors
///
/// When there is one that is no command.
pub(super) fn install(
    json: &mut Json,
    asked: bool,
    program: &str,
    names: &Names,
    made: &mut Made,
) -> Result<(), Fault> {
    json.twice(&[Step::Key(STATUS_LINE)])?;
    let there = command(json);
    let ours = there.as_ref().and_then(|command| Call::read(command, names));
    match (there, ours) {
        (Some(there), Some(call)) => {
            let line = call.line(program);
            if line != there {
                json.replace(&way(), &Tree::text(line));
            }
        }
        _ if !asked => {}
        (Some(theirs), None) => {
            made.note_replaced(&[STATUS_LINE, COMMAND], json.text_of(&way()));
            let call = Call { before: Some(theirs) };
            json.replace(&way(), &Tree::text(call.line(program)));
        }
        (None, _) if json.get(&[Step::Key(STATUS_LINE)]).is_some() => {
            let what = format!("`{STATUS_LINE}` has no text `{COMMAND}` that could be called");
            return Err(json.fault(&[Step::Key(STATUS_LINE)], what));
        }
        (None, _) => {
            let line = Call { before: None }.line(program);
            let value = Tree::map([
                ("type", Tree::text("command")),
                (COMMAND, Tree::text(line)),
                ("refreshInterval", Tree::Number(REFRESH_SECONDS)),
            ]);
            made::put(json, &[STATUS_LINE], value, made);
        }
    }
    Ok(())
}

/// Takes siding out of the status line, and leaves a person's as it was.
pub(super) fn remove(json: &mut Json, names: &Names, made: Option<&Made>) {
    let Some(call) = command(json).and_then(|command| Call::read(&command, names)) else { return };
    let Some(theirs) = call.before else {
        json.remove(&[Step::Key(STATUS_LINE)]);
        made::tidy(json, &[], made);
        return;
    };
    let remembered = made.and_then(|made| made.replaced(&[STATUS_LINE, COMMAND]));
    // Somebody may have edited the call since.
    let same = |text: &&str| serde_json::from_str::<String>(text).is_ok_and(|text| text == theirs);
    match remembered.filter(same) {
        Some(text) => json.set_text(&way(), text),
        None => json.replace(&way(), &Tree::text(theirs)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Dialect;
    use super::*;

    fn installed(text: &str, made: &mut Made) -> Json {
        let mut json = Json::read(text, Dialect::Strict).expect("JSON");
        let names = Names::with(None);
        for _ in 0..2 {
            install(&mut json, true, "/opt/my tools/siding", &names, made).expect("installed");
        }
        json
    }

    #[test]
    fn a_status_line_is_kept_called_and_given_back_byte_for_byte() {
        let theirs =
            r#"{"a": 1, "statusLine":{"padding":0,"type":"command","command" : "it\u0027s \/x"}}"#;
        let mut made = Made::default();
        let mut json = installed(theirs, &mut made);
        let line = command(&json).expect("a command");
        assert_eq!(line, r"'/opt/my tools/siding' statusline --before 'it'\''s /x'");
        // A plain install keeps it, and follows the program.
        install(&mut json, false, "/new/siding", &Names::with(None), &mut made).expect("kept");
        assert!(command(&json).is_some_and(|line| line.starts_with("/new/siding statusline --b")));
        let mut unremembered = json.clone();
        remove(&mut json, &Names::with(None), Some(&made));
        assert_eq!(json.into_text(), theirs);
        remove(&mut unremembered, &Names::with(None), None);
        assert_eq!(command(&unremembered).as_deref(), Some("it's /x"));
    }

    #[test]
    fn one_that_install_made_is_taken_away() {
        for text in ["{}", "{ }\n", "{\n  \"model\": \"x\"\n}\n"] {
            let mut made = Made::default();
            let mut json = installed(text, &mut made);
            assert!(command(&json).is_some_and(|line| line.ends_with("' statusline")));
            remove(&mut json, &Names::with(None), Some(&made));
            assert_eq!(json.into_text(), text);
        }
    }

    #[test]
    fn nothing_is_made_that_was_not_asked_for() {
        let mut json = Json::read("{}", Dialect::Strict).expect("JSON");
        install(&mut json, false, "siding", &Names::with(None), &mut Made::default())
            .expect("left");
        assert_eq!(json.into_text(), "{}");
        let mut odd = Json::read(r#"{"statusLine":7}"#, Dialect::Strict).expect("JSON");
        assert!(
            install(&mut odd, true, "siding", &Names::with(None), &mut Made::default()).is_err()
        );
    }
}
