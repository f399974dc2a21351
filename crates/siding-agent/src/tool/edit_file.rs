//! `edit_file`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_model::text;
use similar::TextDiff;

use super::change::{Scope, change};
use super::kind::{Access, Tool};
use super::seen::Print;
use super::write_file::{OTHER_NAMES, changed};
use super::{Outcome, Scene};
use crate::provider::Cancel;

/// Lines of the file shown around each change.
const CONTEXT: usize = 3;
/// Lines of a change that are shown.
const LINES_MAX: usize = 80;
/// Bytes of each of them.
const LINE_MAX: usize = 300;
/// As long as may be spent on a change's looks. What is shown is right also after less, and longer.
const PATIENCE: Duration = Duration::from_millis(300);

/// Changes a part of a file.
#[derive(Debug, Clone, Copy)]
pub struct EditFile;

/// Which, and what of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file, relative to the working directory or absolute.
    path: String,
    /// The text to be replaced, exactly as it is in the file, white space too. It must be there once:
    /// take in as many lines around it as that needs.
    old: String,
    /// The text to be in its place; empty to remove it.
    new: String,
    /// Replace `old` wherever it is.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for EditFile {
    type Args = Args;
    const NAME: &'static str = "edit_file";
    const ABOUT: &'static str = "\
Replace a text in a file by another, and see what that changed. Line endings stay as they are. Refused \
when `old` is not there, or more than once, or the file has changed since you read it.";
    const ACCESS: Access = Access::Changes;

    fn call(&self, scene: &Scene, args: Args, _cancel: &Cancel) -> Outcome {
        let spot = scene.ground.existing(&args.path)?;
        let before = spot.read()?;
        if scene.seen.of(&spot.key).is_some_and(|seen| seen != Print::of(&before)) {
            return Err(changed(&spot));
        }
        let scope = if args.replace_all { Scope::All } else { Scope::One };
        let made = change(&before, &args.old, &args.new, scope)
            .map_err(|unfit| format!("`{}` was not changed: {unfit}", spot.path))?;
        spot.put(&made.content)?;
        scene.seen.remember(spot.key.clone(), Print::of(&made.content));
        let places = match made.places {
            1 => "in one place".to_owned(),
            count => format!("in {count} places"),
        };
        let note = match spot.entry {
            Some(entry) if entry.has_hard_links => OTHER_NAMES,
            Some(_) | None => "",
        };
        let diff = diff(&before, &made.content);
        Ok(format!("changed `{}` {places}{note}\n{diff}", spot.path))
    }
}

/// Returns what has changed, as a short unified diff.
pub(super) fn diff(before: &[u8], after: &[u8]) -> String {
    // A carriage return in the answer is nothing that a model could act upon.
    let plain = |content: &[u8]| String::from_utf8_lossy(content).replace("\r\n", "\n");
    let (before, after) = (plain(before), plain(after));
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before.as_str(), after.as_str());
    let diff = diff.unified_diff().context_radius(CONTEXT).to_string();
    let mut shown = String::new();
    for line in diff.lines().take(LINES_MAX) {
        let head = text::cut_head(line, LINE_MAX);
        shown.push_str(head);
        shown.push_str(if head.len() < line.len() { "…\n" } else { "\n" });
    }
    let hidden = diff.lines().count().saturating_sub(LINES_MAX);
    if hidden > 0 {
        shown.push_str(&format!("[{hidden} more lines of this change are not shown]\n"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let before: String = (1..=9).map(|number| format!("line {number}\n")).collect();
        let after = before.replace("line 5\n", "line five\nand more\n");
        let wanted = "@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+line five\n+and more\n \
                      line 6\n line 7\n line 8\n";
        assert_eq!(diff(before.as_bytes(), after.as_bytes()), wanted);
        let crlf = |text: &str| text.replace('\n', "\r\n").into_bytes();
        assert_eq!(diff(&crlf(&before), &crlf(&after)), wanted);
    }

    #[test]
    fn a_long_change_is_cut() {
        let before = "a\n".repeat(500);
        let after = format!("{}\n", "€".repeat(500)).repeat(500);
        let shown = diff(before.as_bytes(), after.as_bytes());
        assert_eq!(shown.lines().count(), LINES_MAX + 1);
        assert!(shown.lines().all(|line| line.len() <= LINE_MAX + "…".len()));
        assert!(shown.ends_with("[921 more lines of this change are not shown]\n"), "{shown}");
    }
}
