//! The tool `edit_file`, which replaces text in a file and shows the change.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_model::text;
use similar::TextDiff;

use super::definition::{Access, Tool};
use super::read_tracker::ContentHash;
use super::text_replace::{ReplaceScope, replace_text};
use super::write_file::{HARD_LINK_NOTE, changed_since_read};
use super::{AgentToolContext, ToolOutcome};
use crate::cancel_flag::CancelFlag;

/// Number of unchanged lines shown around each change.
const DIFF_CONTEXT_LINES: usize = 3;
/// Maximum number of shown lines of a diff.
const MAX_DIFF_LINES: usize = 80;
/// Maximum shown bytes of each line of a diff.
const MAX_DIFF_LINE_BYTES: usize = 300;
/// Time limit of the diff algorithm. A diff cut off at this limit is still correct, but may be
/// longer than necessary.
const DIFF_TIMEOUT: Duration = Duration::from_millis(300);

/// The tool that replaces text in a file.
#[derive(Debug, Clone, Copy)]
pub struct EditFile;

/// Arguments of `edit_file`: the file, the text to replace, and its replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFileArgs {
    /// The file, relative to the working directory or absolute.
    path: String,
    /// The text to replace, exactly as it is in the file, including white space. It must occur only
    /// once: include as many surrounding lines as that requires.
    old: String,
    /// The replacement; empty to remove the text.
    new: String,
    /// Replace all occurrences of `old`.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for EditFile {
    type Args = EditFileArgs;
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str = "\
Replace a text in a file, and see the change. Line endings are kept. Refused if `old` does not \
occur exactly once (unless `replace_all` is set), or if the file has changed since you read it.";
    const ACCESS: Access = Access::Modifying;

    fn call(
        &self,
        context: &AgentToolContext,
        args: EditFileArgs,
        _cancel: &CancelFlag,
    ) -> ToolOutcome {
        let spot = context.allowed_roots.find_existing(&args.path)?;
        let before = spot.read_all()?;
        if context
            .read_tracker
            .last_seen(&spot.key)
            .is_some_and(|seen| seen != ContentHash::of_content(&before))
        {
            return Err(changed_since_read(&spot));
        }
        let scope = if args.replace_all { ReplaceScope::All } else { ReplaceScope::One };
        let made = replace_text(&before, &args.old, &args.new, scope)
            .map_err(|unfit| format!("`{}` was not changed: {unfit}", spot.path))?;
        spot.replace_content(&made.content)?;
        context.read_tracker.record(spot.key.clone(), ContentHash::of_content(&made.content));
        let places = match made.replacements {
            1 => "in one place".to_owned(),
            count => format!("in {count} places"),
        };
        let note = match spot.metadata {
            Some(entry) if entry.has_hard_links => HARD_LINK_NOTE,
            Some(_) | None => "",
        };
        let diff = unified_diff(&before, &made.content);
        Ok(format!("changed `{}` {places}{note}\n{diff}", spot.path))
    }
}

/// Returns the change as a unified diff, cut to the limits.
pub(super) fn unified_diff(before: &[u8], after: &[u8]) -> String {
    // A CR before a LF is removed, because a model cannot act on it in a diff.
    let plain = |content: &[u8]| String::from_utf8_lossy(content).replace("\r\n", "\n");
    let (before, after) = (plain(before), plain(after));
    let diff =
        TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before.as_str(), after.as_str());
    let diff = diff.unified_diff().context_radius(DIFF_CONTEXT_LINES).to_string();
    let mut shown = String::new();
    for line in diff.lines().take(MAX_DIFF_LINES) {
        let head = text::cut_head(line, MAX_DIFF_LINE_BYTES);
        shown.push_str(head);
        shown.push_str(if head.len() < line.len() { "…\n" } else { "\n" });
    }
    let hidden = diff.lines().count().saturating_sub(MAX_DIFF_LINES);
    if hidden > 0 {
        let noun = if hidden == 1 { "line" } else { "lines" };
        shown.push_str(&format!("[{hidden} more {noun} of this change not shown]\n"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_the_surrounding_lines() {
        let before: String = (1..=9).map(|number| format!("line {number}\n")).collect();
        let after = before.replace("line 5\n", "line five\nand more\n");
        let wanted = "@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+line five\n+and more\n \
                      line 6\n line 7\n line 8\n";
        assert_eq!(unified_diff(before.as_bytes(), after.as_bytes()), wanted);
        let crlf = |text: &str| text.replace('\n', "\r\n").into_bytes();
        assert_eq!(unified_diff(&crlf(&before), &crlf(&after)), wanted);
    }

    #[test]
    fn a_long_diff_is_cut() {
        let before = "a\n".repeat(500);
        let after = format!("{}\n", "€".repeat(500)).repeat(500);
        let shown = unified_diff(before.as_bytes(), after.as_bytes());
        assert_eq!(shown.lines().count(), MAX_DIFF_LINES + 1);
        assert!(shown.lines().all(|line| line.len() <= MAX_DIFF_LINE_BYTES + "…".len()));
        assert!(shown.ends_with("[921 more lines of this change not shown]\n"), "{shown}");
    }
}
