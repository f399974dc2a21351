//! Which task a text refers to: the task with this id, the only task whose id begins with the text,
//! or a task with this name.

use crate::id::TaskId;
use crate::process::UnixMs;
use crate::text::one_line;

/// Maximum length of the name of a task, in characters.
const MAX_NAME_CHARS: usize = 200;

/// The error for a text that cannot name a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot name a task: {why}; a name has 1 to {} printable characters in one line, does \
     not begin with `@` or `-`, and is not an id",
    MAX_NAME_CHARS
)]
pub struct BadTaskName {
    /// The rejected text as it was passed, not escaped; a long text is cut.
    pub text: String,
    /// The rule that the text breaks.
    pub why: &'static str,
}

/// Checks a name that a caller gives to a task, and returns it. Commands and tools use this
/// function; a name that siding derives from a command needs no check.
///
/// # Errors
///
/// [`BadTaskName`] for a name by which a command could not refer to the task, or that could not be
/// printed as it is.
pub fn parse_task_name(text: &str) -> Result<String, BadTaskName> {
    let why = if text.trim().is_empty() {
        "it is empty"
    } else if text.starts_with('@') {
        "`@` stands for the last task"
    } else if text.starts_with('-') {
        "it would be a flag"
    } else if one_line(text, usize::MAX) != text {
        "it has a control character, a line end or an invisible character"
    } else if text.chars().count() > MAX_NAME_CHARS {
        "it is too long"
    } else if text.parse::<TaskId>().is_ok() {
        "it has the form of an id"
    } else {
        return Ok(text.to_owned());
    };
    Err(BadTaskName { text: text.chars().take(MAX_NAME_CHARS).collect(), why })
}

/// Whether a text is looked up as a name before it is looked up as the beginning of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupOrder {
    /// The text is an id or the beginning of one; tasks of this name are ignored.
    IdOnly,
    /// A task of this name takes precedence over tasks whose ids begin with the text.
    NameFirst,
}

impl LookupOrder {
    /// Returns the order for a text. `begins_one_id` says whether the id of exactly one task begins
    /// with the text; the kind's letter and the dash may be missing.
    ///
    /// 1. A text in the form of an id, `b-4k7q0n2m8x5t`, refers only to the task with this id, even
    ///    if that task was removed. Therefore a name cannot take the place of an id.
    /// 2. The beginning of one id, including the dash (`b-4k7q`), refers to the task with this id.
    /// 3. Any other text refers to a task whose name is exactly this text.
    /// 4. If no task has this name, the text is the beginning of an id, as in `4k7q` or `b`. The
    ///    name comes first because `db` or `web` is also a possible beginning of the digits of an
    ///    id.
    #[must_use]
    pub fn for_text(text: &str, begins_one_id: bool) -> Self {
        let is_id = text.parse::<TaskId>().is_ok();
        if text.is_empty() || is_id || (begins_one_id && text.contains('-')) {
            Self::IdOnly
        } else {
            Self::NameFirst
        }
    }
}

/// The facts about a task that decide which of several tasks a name or a command refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCandidate {
    /// The id of the task.
    pub id: TaskId,
    /// Start of the task on the wall clock.
    pub started: UnixMs,
    /// Whether the task has not ended.
    pub is_live: bool,
}

/// Returns the task that a name refers to, among the tasks with this name: the running task that
/// was started last or, if none runs, the last started task.
#[must_use]
pub fn choose_named(candidates: impl IntoIterator<Item = TaskCandidate>) -> Option<TaskCandidate> {
    candidates.into_iter().max_by_key(|one| (one.is_live, one.started, one.id))
}

/// Returns the task that was started last, whether it runs or not.
#[must_use]
pub fn choose_last(candidates: impl IntoIterator<Item = TaskCandidate>) -> Option<TaskCandidate> {
    candidates.into_iter().max_by_key(|one| (one.started, one.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_their_beginnings_precede_names() {
        for (text, begins_one_id, expected) in [
            ("b-4k7q0n2m8x5t", true, LookupOrder::IdOnly),
            // The task was removed.
            ("b-4k7q0n2m8x5t", false, LookupOrder::IdOnly),
            ("b-4k7q", true, LookupOrder::IdOnly),
            ("b-", true, LookupOrder::IdOnly),
            ("", false, LookupOrder::IdOnly),
            // Several ids or no id begin with the text.
            ("b-4k7q", false, LookupOrder::NameFirst),
            ("my-web", false, LookupOrder::NameFirst),
            ("4k7q", true, LookupOrder::NameFirst),
            ("db", true, LookupOrder::NameFirst),
            ("b", true, LookupOrder::NameFirst),
            ("web server", false, LookupOrder::NameFirst),
            ("../etc", false, LookupOrder::NameFirst),
        ] {
            assert_eq!(LookupOrder::for_text(text, begins_one_id), expected, "{text}");
        }
    }

    #[test]
    fn a_name_can_be_printed_and_is_no_reference_to_another_task() {
        let longest = "x".repeat(MAX_NAME_CHARS);
        for name in ["web", "my web", "</b>build", "b-4k7q", "7", "\u{65e5}\u{672c}", &longest] {
            assert_eq!(parse_task_name(name).as_deref(), Ok(name));
        }
        let too_long = "x".repeat(MAX_NAME_CHARS + 1);
        for (name, why) in [
            ("", "empty"),
            (" \t", "empty"),
            ("@", "the last task"),
            ("@web", "the last task"),
            ("-web", "a flag"),
            ("a\nb", "a line end"),
            ("\u{1b}[2J", "a control character"),
            ("a\u{202e}b", "an invisible character"),
            ("b-4k7q0n2m8x5t", "the form of an id"),
            (&too_long, "too long"),
        ] {
            let error = parse_task_name(name).expect_err(name);
            assert!(error.why.contains(why), "{error}");
            assert!(error.to_string().contains("1 to 200 printable characters"), "{error}");
        }
    }

    #[test]
    fn the_last_started_running_task_has_the_name() {
        let candidate = |id: &str, started, is_live| TaskCandidate {
            id: id.parse().unwrap(),
            started: UnixMs(started),
            is_live,
        };
        let early = candidate("b-4k7q0n2m8x5t", 1, true);
        let running = candidate("b-4k7q0n2m8x5v", 2, true);
        let ended = candidate("b-4k7q0n2m8x5w", 3, false);
        let old = candidate("b-4k7q0n2m8x5x", 0, false);
        assert_eq!(choose_named([old, early, running, ended]), Some(running));
        assert_eq!(choose_named([old, ended]), Some(ended));
        assert_eq!(choose_named([]), None);
        assert_eq!(choose_last([ended, old, early, running]), Some(ended));
        assert_eq!(choose_last([]), None);
    }
}
