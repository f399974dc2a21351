//! What a model wants changed in the notes. Pure.

use schemars::JsonSchema;
use serde::Deserialize;

use super::secret;
use crate::tool::memory::{MEMORY_MAX, replaced};

/// Columns of a line that is refused, when it is named.
const SHOWN: usize = 24;

/// What `rewrite_notes` takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rewrite {
    /// Texts to replace, one after the other.
    #[serde(default)]
    pub(super) edits: Vec<Edit>,
    /// The whole notes instead: when there are none yet, or little of them stays.
    #[serde(default)]
    pub(super) content: Option<String>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// A text of the notes, exactly as it is there, and there only once.
    pub(super) old: String,
    /// The text to be in its place; empty to remove it.
    pub(super) new: String,
}

impl Rewrite {
    /// Returns the notes as they are to be.
    ///
    /// # Errors
    ///
    /// What is wrong, for the model.
    pub(super) fn apply(&self, before: &str) -> Result<String, String> {
        let mut after = match (&self.content, self.edits.as_slice()) {
            (Some(content), []) => content.clone(),
            (None, [_, ..]) => before.to_owned(),
            (Some(_), [_, ..]) => return Err("give `edits` or `content`, not both".to_owned()),
            (None, []) => return Err("give `edits`, or the whole notes as `content`".to_owned()),
        };
        for (at, edit) in self.edits.iter().enumerate() {
            after = replaced(&after, &edit.old, &edit.new)
                .map_err(|why| format!("edit {}: {why}; none was made", at + 1))?;
        }
        if !after.is_empty() && !after.ends_with('\n') {
            after.push('\n');
        }
        if after.len() > MEMORY_MAX {
            return Err(format!(
                "the notes would have {} bytes, and {MEMORY_MAX} are allowed: leave out what is \
                 least worth knowing",
                after.len()
            ));
        }
        if after.contains('\0') {
            return Err("the notes would have a zero byte in them".to_owned());
        }
        let known = |line: &str| before.lines().any(|before| before == line);
        for line in after.lines() {
            if let Some(what) = secret::looks_like(line).filter(|_| !known(line)) {
                let line = siding_model::text::one_line(line, SHOWN);
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

    fn edits(edits: &[(&str, &str)]) -> Rewrite {
        let edit = |(old, new): &(&str, &str)| Edit { old: (*old).into(), new: (*new).into() };
        Rewrite { edits: edits.iter().map(edit).collect(), content: None }
    }

    fn whole(content: &str) -> Rewrite {
        Rewrite { edits: Vec::new(), content: Some(content.to_owned()) }
    }

    #[test]
    fn notes_are_edited_or_written_whole() {
        let before = "# Notes\n- builds with make\n- old\n";
        let after = edits(&[("make", "cargo"), ("- old\n", "")]).apply(before);
        assert_eq!(after.as_deref(), Ok("# Notes\n- builds with cargo\n"));
        assert_eq!(whole("- new").apply(before).as_deref(), Ok("- new\n"));
        assert_eq!(whole("").apply(before).as_deref(), Ok(""));
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (rewrite, said) in [
            (edits(&[]), "give `edits`"),
            (Rewrite { content: Some("x".into()), ..edits(&[("a", "b")]) }, "not both"),
            (edits(&[("a\n", "b"), ("nowhere", "x")]), "edit 2: `old` is not there"),
            (edits(&[("", "x")]), "`content`"),
            (whole(&"x\n".repeat(MEMORY_MAX)), "bytes, and 32768 are allowed"),
            (whole("DB_PASSWORD=hunter2222"), "looks like a password"),
        ] {
            let why = rewrite.apply("a\n").expect_err("cannot be");
            assert!(why.contains(said), "{why}");
        }
        // A person's own line is theirs.
        let own = "DB_PASSWORD=hunter2222\n";
        assert!(whole(&format!("{own}- more\n")).apply(own).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_written_is_bounded_and_holds_no_new_secret(
            before in "[a-c\n]{0,30}", content in "(?s).{0,60}", old in "[a-c]{0,2}", new in ".{0,9}",
        ) {
            for rewrite in [whole(&content), edits(&[(&old, &new)])] {
                if let Ok(after) = rewrite.apply(&before) {
                    prop_assert!(after.len() <= MEMORY_MAX);
                    prop_assert!(after.is_empty() || after.ends_with('\n'));
                    let is_known = |line: &str| before.lines().any(|known| known == line);
                    let mut lines = after.lines().filter(|line| !is_known(line));
                    prop_assert!(lines.all(|line| secret::looks_like(line).is_none()));
                }
            }
        }
    }
}
