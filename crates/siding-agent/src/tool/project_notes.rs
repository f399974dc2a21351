//! The notes on a project that outlive a conversation: `.siding/memory.md`.

use std::path::Path;

use siding_model::text::head_and_tail;

use super::allowed_roots::{AllowedRootError, AllowedRoots, MissingDirectory};
use super::edit_file::unified_diff;
use super::file_entry::FileError;
use super::text_replace::{ReplaceError, ReplaceScope, replace_text};

/// Where they are, below the directory of the project.
const NOTES_PATH: &str = ".siding/memory.md";
/// The most that they may have, in bytes: about 8,000 tokens, which are read at the beginning of
/// every conversation.
pub const MAX_NOTES_BYTES: usize = 32 << 10;
/// What ends them, where a model reads them.
const NOTES_END_TAG: &str = "</notes>";

/// The notes on a project, as they were when they were read.
#[derive(Debug)]
pub struct ProjectNotes {
    ground: AllowedRoots,
    content: Option<String>,
}

/// Why notes cannot be had, or changed.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// The directory of the project.
    #[error("{}: {}", .0, .0.source)]
    AllowedRoot(#[from] AllowedRootError),
    /// The file.
    #[error("{0}")]
    File(String),
    /// Others than siding's own programs write to it too.
    #[error("`{NOTES_PATH}` has changed meanwhile, and nothing was written")]
    Changed,
}

impl From<FileError> for NotesError {
    fn from(error: FileError) -> Self {
        Self::File(error.to_string())
    }
}

impl ProjectNotes {
    /// Reads the notes on the project in `directory`, which must be absolute.
    ///
    /// # Errors
    ///
    /// [`NotesError`] when something else than a readable text is in their place.
    pub fn read(directory: &Path) -> Result<Self, NotesError> {
        let allowed_roots = AllowedRoots::new(directory, &[])?;
        let content = read_content(&allowed_roots)?;
        Ok(Self { ground: allowed_roots, content })
    }

    /// Returns what is in them; nothing when there are none.
    #[must_use]
    pub fn content(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }

    /// Returns them for a model, as much as it is to read: nothing when there are none.
    #[must_use]
    pub fn format_for_model(&self) -> Option<String> {
        let content = self.content().trim();
        let notes = head_and_tail(content, MAX_NOTES_BYTES).replace(NOTES_END_TAG, "&lt;/notes>");
        (!content.is_empty()).then(|| format!("<notes>\n{notes}\n{NOTES_END_TAG}"))
    }

    /// Puts other notes in their place, in one step: whoever is killed meanwhile leaves the old ones.
    ///
    /// # Errors
    ///
    /// [`NotesError::Replacement`] when somebody else has written to them since they were read.
    pub fn write(&self, new: &str) -> Result<(), NotesError> {
        let spot = self.ground.find(NOTES_PATH, MissingDirectory::Create)?;
        let now = match spot.metadata {
            Some(_) => Some(spot.read_all()?),
            None => None,
        };
        if now.as_deref() != self.content.as_ref().map(String::as_bytes) {
            return Err(NotesError::Changed);
        }
        Ok(spot.replace_content(new.as_bytes())?)
    }

    /// Returns what would be different with other notes, as a unified diff.
    #[must_use]
    pub fn diff(&self, new: &str) -> String {
        unified_diff(self.content().as_bytes(), new.as_bytes())
    }
}

fn read_content(allowed_roots: &AllowedRoots) -> Result<Option<String>, NotesError> {
    let spot = match allowed_roots.find(NOTES_PATH, MissingDirectory::Fail) {
        Err(FileError::NotFound { .. }) => return Ok(None),
        spot => spot?,
    };
    if spot.metadata.is_none() {
        return Ok(None);
    }
    let bytes = spot.read_all()?;
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| NotesError::File(format!("`{NOTES_PATH}` is not UTF-8")))
}

/// Returns notes with one text replaced by another.
///
/// # Errors
///
/// Why it was not, for a model.
pub(crate) fn replace_once(content: &str, old: &str, new: &str) -> Result<String, String> {
    let changed = replace_text(content.as_bytes(), old, new, ReplaceScope::One).map_err(
        |unfit| match unfit {
            ReplaceError::Empty => "`old` is empty: give the whole notes as `content`".to_owned(),
            other @ (ReplaceError::Same
            | ReplaceError::Binary
            | ReplaceError::NotFound { .. }
            | ReplaceError::Ambiguous { .. }) => other.to_string(),
        },
    )?;
    String::from_utf8(changed.content).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_written_and_never_overwrite_a_change() {
        let directory = tempfile::tempdir().expect("a directory");
        let none = ProjectNotes::read(directory.path()).expect("there are none");
        assert_eq!((none.content(), none.format_for_model()), ("", None));
        assert!(!directory.path().join(".siding").exists(), "only looked at");
        none.write("- one\n").expect("written");
        let one = ProjectNotes::read(directory.path()).expect("there are some");
        assert_eq!(one.format_for_model().as_deref(), Some("<notes>\n- one\n</notes>"));
        assert_eq!(one.diff("- two\n"), "@@ -1 +1 @@\n-- one\n+- two\n");
        std::fs::write(directory.path().join(NOTES_PATH), "- mine\n").expect("written");
        assert!(matches!(one.write("- two\n"), Err(NotesError::Changed)));
        assert!(matches!(none.write("- two\n"), Err(NotesError::Changed)));
        let kept = std::fs::read_to_string(directory.path().join(NOTES_PATH)).expect("read");
        assert_eq!(kept, "- mine\n");
    }

    #[test]
    fn notes_behind_a_link_that_leads_out_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (project, outside) = (directory.path().join("p"), directory.path().join("o"));
        std::fs::create_dir_all(project.join(".siding")).expect("made");
        std::fs::write(&outside, "x").expect("written");
        std::os::unix::fs::symlink(&outside, project.join(NOTES_PATH)).expect("made");
        let why = ProjectNotes::read(&project).expect_err("leads out").to_string();
        assert!(why.contains("leads out of"), "{why}");
    }
}
