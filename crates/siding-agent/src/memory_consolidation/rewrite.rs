//! The arguments of `rewrite_notes`, and their application to the notes. Pure.

use schemars::JsonSchema;
use serde::Deserialize;

use super::secret;
use crate::tool::project_notes::{MAX_NOTES_BYTES, replace_once};

/// Maximum columns of a refused line that the error message quotes.
const SHOWN_COLUMNS: usize = 24;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NotesRewrite {
    /// Replacements, applied in order.
    #[serde(default)]
    pub(super) edits: Vec<NotesEdit>,
    /// The complete new notes instead of `edits`, if there are no notes yet or most of the notes
    /// change.
    #[serde(default)]
    pub(super) content: Option<String>,
}

/// A replacement in the notes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NotesEdit {
    /// The text to replace, exactly as in the notes. It must occur only once.
    pub(super) old: String,
    /// The replacement; empty to remove the text.
    pub(super) new: String,
}

impl NotesRewrite {
    /// Returns the notes after the rewrite, whose size and new lines have been checked.
    ///
    /// # Errors
    ///
    /// A message for the model that says why the rewrite is refused. No part of the rewrite takes
    /// effect.
    pub(super) fn apply(&self, before: &str) -> Result<String, String> {
        let mut after = match (&self.content, self.edits.as_slice()) {
            (Some(content), []) => content.clone(),
            (None, [_, ..]) => before.to_owned(),
            (Some(_), [_, ..]) => return Err("give `edits` or `content`, not both".to_owned()),
            (None, []) => return Err("give `edits`, or the complete notes as `content`".to_owned()),
        };
        for (at, edit) in self.edits.iter().enumerate() {
            after = replace_once(&after, &edit.old, &edit.new)
                .map_err(|why| format!("edit {}: {why}; none was made", at + 1))?;
        }
        if !after.is_empty() && !after.ends_with('\n') {
            after.push('\n');
        }
        if after.len() > MAX_NOTES_BYTES {
            return Err(format!(
                "the notes would have {} bytes, and {MAX_NOTES_BYTES} are allowed: leave out what is \
                 least worth knowing",
                after.len()
            ));
        }
        if after.contains('\0') {
            return Err("the notes must not contain a NUL byte".to_owned());
        }
        let known = |line: &str| before.lines().any(|before| before == line);
        for line in after.lines() {
            if let Some(what) = secret::find_secret(line).filter(|_| !known(line)) {
                let line = siding_model::text::one_line(line, SHOWN_COLUMNS);
                return Err(format!(
                    "the line `{line}` looks like {what}, which notes must not hold: say where it is \
                     kept instead"
                ));
            }
        }
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edits_rewrite(edits: &[(&str, &str)]) -> NotesRewrite {
        let edit = |(old, new): &(&str, &str)| NotesEdit { old: (*old).into(), new: (*new).into() };
        NotesRewrite { edits: edits.iter().map(edit).collect(), content: None }
    }

    fn content_rewrite(content: &str) -> NotesRewrite {
        NotesRewrite { edits: Vec::new(), content: Some(content.to_owned()) }
    }

    #[test]
    fn notes_are_edited_or_replaced() {
        let before = "# Notes\n- builds with make\n- old\n";
        let after = edits_rewrite(&[("make", "cargo"), ("- old\n", "")]).apply(before);
        assert_eq!(after.as_deref(), Ok("# Notes\n- builds with cargo\n"));
        assert_eq!(content_rewrite("- new").apply(before).as_deref(), Ok("- new\n"));
        assert_eq!(content_rewrite("").apply(before).as_deref(), Ok(""));
    }

    #[test]
    fn an_invalid_rewrite_is_refused_with_the_reason() {
        for (rewrite, expected) in [
            (edits_rewrite(&[]), "give `edits`"),
            (
                NotesRewrite { content: Some("x".into()), ..edits_rewrite(&[("a", "b")]) },
                "not both",
            ),
            (edits_rewrite(&[("a\n", "b"), ("nowhere", "x")]), "edit 2: `old` does not occur"),
            (edits_rewrite(&[("", "x")]), "`content`"),
            (content_rewrite(&"x\n".repeat(MAX_NOTES_BYTES)), "bytes, and 32768 are allowed"),
            (content_rewrite("DB_PASSWORD=hunter2222"), "looks like a password"),
        ] {
            let why = rewrite.apply("a\n").expect_err("the rewrite is invalid");
            assert!(why.contains(expected), "{why}");
        }
        // Only new lines are checked; this one was already in the notes, written by a person.
        let own = "DB_PASSWORD=hunter2222\n";
        assert!(content_rewrite(&format!("{own}- more\n")).apply(own).is_ok());
    }

    proptest! {
        #[test]
        fn rewritten_notes_are_bounded_and_add_no_secret(
            before in "[a-c\n]{0,30}", content in "(?s).{0,60}", old in "[a-c]{0,2}", new in ".{0,9}",
        ) {
            for rewrite in [content_rewrite(&content), edits_rewrite(&[(&old, &new)])] {
                if let Ok(after) = rewrite.apply(&before) {
                    prop_assert!(after.len() <= MAX_NOTES_BYTES);
                    prop_assert!(after.is_empty() || after.ends_with('\n'));
                    let is_known = |line: &str| before.lines().any(|known| known == line);
                    let mut lines = after.lines().filter(|line| !is_known(line));
                    prop_assert!(lines.all(|line| secret::find_secret(line).is_none()));
                }
            }
        }
    }
}
