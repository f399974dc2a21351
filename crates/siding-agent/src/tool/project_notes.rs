//! The notes on a project that outlive a conversation: `.siding/memory.md`.

use std::path::Path;

use siding_model::text::head_and_tail;

use super::allowed_roots::{AllowedRootError, AllowedRoots, MissingDirectory};
use super::edit_file::unified_diff;
use super::file_entry::FileError;
use super::text_replace::{ReplaceError, ReplaceScope, replace_text};

/// The path of the notes below the project's directory.
const NOTES_PATH: &str = ".siding/memory.md";
/// Maximum bytes of the notes: about 8,000 tokens, with which every conversation starts.
pub const MAX_NOTES_BYTES: usize = 32 << 10;
/// The tag that ends the notes in a prompt.
const NOTES_END_TAG: &str = "</notes>";

/// The notes on a project, as of the time they were read.
#[derive(Debug)]
pub struct ProjectNotes {
    ground: AllowedRoots,
    content: Option<String>,
}

/// Why the notes cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// The project's directory cannot be opened.
    #[error("{}: {}", .0, .0.source)]
    AllowedRoot(#[from] AllowedRootError),
    /// The file cannot be accessed, or is not text. The message says why.
    #[error("{0}")]
    File(String),
    /// The file has changed since it was read. Programs other than siding may write to it, too.
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
    /// [`NotesError`] if the directory cannot be opened, or if the file exists but is not readable
    /// text.
    pub fn read(directory: &Path) -> Result<Self, NotesError> {
        let allowed_roots = AllowedRoots::new(directory, &[])?;
        let content = read_content(&allowed_roots)?;
        Ok(Self { ground: allowed_roots, content })
    }

    /// Returns the content; empty if there are no notes.
    #[must_use]
    pub fn content(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }

    /// Returns the notes for a prompt, cut to [`MAX_NOTES_BYTES`]; `None` if there are none.
    #[must_use]
    pub fn format_for_model(&self) -> Option<String> {
        let content = self.content().trim();
        let notes = head_and_tail(content, MAX_NOTES_BYTES).replace(NOTES_END_TAG, "&lt;/notes>");
        (!content.is_empty()).then(|| format!("<notes>\n{notes}\n{NOTES_END_TAG}"))
    }

    /// Replaces the notes atomically: if the process is killed meanwhile, the file has either the
    /// old or the new notes.
    ///
    /// # Errors
    ///
    /// [`NotesError::Changed`] if the file has changed since it was read; [`NotesError::File`] if
    /// it cannot be written.
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

    /// Returns the change from the notes to `new` as a unified diff.
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

/// Replaces the only occurrence of a text in the notes.
///
/// # Errors
///
/// A message for the model: why the text was not replaced.
pub(crate) fn replace_once(content: &str, old: &str, new: &str) -> Result<String, String> {
    let changed = replace_text(content.as_bytes(), old, new, ReplaceScope::One).map_err(
        |unfit| match unfit {
            ReplaceError::Empty => {
                "`old` is empty: give the complete notes as `content`".to_owned()
            }
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
        let directory = tempfile::tempdir().expect("create a temporary directory");
        let none = ProjectNotes::read(directory.path()).expect("read missing notes");
        assert_eq!((none.content(), none.format_for_model()), ("", None));
        assert!(!directory.path().join(".siding").exists(), "reading creates nothing");
        none.write("- one\n").expect("write the file");
        let one = ProjectNotes::read(directory.path()).expect("read the notes");
        assert_eq!(one.format_for_model().as_deref(), Some("<notes>\n- one\n</notes>"));
        assert_eq!(one.diff("- two\n"), "@@ -1 +1 @@\n-- one\n+- two\n");
        std::fs::write(directory.path().join(NOTES_PATH), "- mine\n").expect("write the file");
        assert!(matches!(one.write("- two\n"), Err(NotesError::Changed)));
        assert!(matches!(none.write("- two\n"), Err(NotesError::Changed)));
        let kept =
            std::fs::read_to_string(directory.path().join(NOTES_PATH)).expect("read the file");
        assert_eq!(kept, "- mine\n");
    }

    #[test]
    fn notes_behind_a_link_that_leads_out_are_refused() {
        let directory = tempfile::tempdir().expect("create a temporary directory");
        let (project, outside) = (directory.path().join("p"), directory.path().join("o"));
        std::fs::create_dir_all(project.join(".siding")).expect("create the directory");
        std::fs::write(&outside, "x").expect("write the file");
        std::os::unix::fs::symlink(&outside, project.join(NOTES_PATH)).expect("create the link");
        let why = ProjectNotes::read(&project).expect_err("the link leads out").to_string();
        assert!(why.contains("leads out of"), "{why}");
    }
}
