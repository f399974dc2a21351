//! The notes on a project that outlive a conversation: `.siding/memory.md`.

use std::path::Path;

use siding_model::text::head_and_tail;

use super::change::{Scope, Unfit, change};
use super::edit_file::diff;
use super::ground::{Ground, GroundError, Missing};
use super::spot::FileError;

/// Where they are, below the directory of the project.
const PLACE: &str = ".siding/memory.md";
/// The most that they may have, in bytes: about 8,000 tokens, which are read at the beginning of
/// every conversation.
pub const MEMORY_MAX: usize = 32 << 10;
/// What ends them, where a model reads them.
const END: &str = "</notes>";

/// The notes on a project, as they were when they were read.
#[derive(Debug)]
pub struct Memory {
    ground: Ground,
    content: Option<String>,
}

/// Why notes cannot be had, or changed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The directory of the project.
    #[error("{}: {}", .0, .0.source)]
    Ground(#[from] GroundError),
    /// The file.
    #[error("{0}")]
    File(String),
    /// Others than siding's own programs write to it too.
    #[error("`{PLACE}` has changed meanwhile, and nothing was written")]
    Changed,
}

impl From<FileError> for MemoryError {
    fn from(error: FileError) -> Self {
        Self::File(error.to_string())
    }
}

impl Memory {
    /// Reads the notes on the project in `directory`, which must be absolute.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] when something else than a readable text is in their place.
    pub fn read(directory: &Path) -> Result<Self, MemoryError> {
        let ground = Ground::new(directory, &[])?;
        let content = content(&ground)?;
        Ok(Self { ground, content })
    }

    /// Returns what is in them; nothing when there are none.
    #[must_use]
    pub fn content(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }

    /// Returns them for a model, as much as it is to read: nothing when there are none.
    #[must_use]
    pub fn for_model(&self) -> Option<String> {
        let content = self.content().trim();
        let notes = head_and_tail(content, MEMORY_MAX).replace(END, "&lt;/notes>");
        (!content.is_empty()).then(|| format!("<notes>\n{notes}\n{END}"))
    }

    /// Puts other notes in their place, in one step: whoever is killed meanwhile leaves the old ones.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Changed`] when somebody else has written to them since they were read.
    pub fn put(&self, new: &str) -> Result<(), MemoryError> {
        let spot = self.ground.find(PLACE, Missing::Make)?;
        let now = match spot.entry {
            Some(_) => Some(spot.read()?),
            None => None,
        };
        if now.as_deref() != self.content.as_ref().map(String::as_bytes) {
            return Err(MemoryError::Changed);
        }
        Ok(spot.put(new.as_bytes())?)
    }

    /// Returns what would be different with other notes, as a unified diff.
    #[must_use]
    pub fn diff(&self, new: &str) -> String {
        diff(self.content().as_bytes(), new.as_bytes())
    }
}

fn content(ground: &Ground) -> Result<Option<String>, MemoryError> {
    let spot = match ground.find(PLACE, Missing::Tell) {
        Err(FileError::NotFound { .. }) => return Ok(None),
        spot => spot?,
    };
    if spot.entry.is_none() {
        return Ok(None);
    }
    let bytes = spot.read()?;
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| MemoryError::File(format!("`{PLACE}` is not UTF-8")))
}

/// Returns notes with one text replaced by another.
///
/// # Errors
///
/// Why it was not, for a model.
pub(crate) fn replaced(content: &str, old: &str, new: &str) -> Result<String, String> {
    let changed =
        change(content.as_bytes(), old, new, Scope::One).map_err(|unfit| match unfit {
            Unfit::Empty => "`old` is empty: give the whole notes as `content`".to_owned(),
            other @ (Unfit::Same | Unfit::Binary | Unfit::NotThere { .. } | Unfit::Many { .. }) => {
                other.to_string()
            }
        })?;
    String::from_utf8(changed.content).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_put_and_not_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let none = Memory::read(directory.path()).expect("there are none");
        assert_eq!((none.content(), none.for_model()), ("", None));
        assert!(!directory.path().join(".siding").exists(), "only looked at");
        none.put("- one\n").expect("written");
        let one = Memory::read(directory.path()).expect("there are some");
        assert_eq!(one.for_model().as_deref(), Some("<notes>\n- one\n</notes>"));
        assert_eq!(one.diff("- two\n"), "@@ -1 +1 @@\n-- one\n+- two\n");
        std::fs::write(directory.path().join(PLACE), "- mine\n").expect("written");
        assert!(matches!(one.put("- two\n"), Err(MemoryError::Changed)));
        assert!(matches!(none.put("- two\n"), Err(MemoryError::Changed)));
        let kept = std::fs::read_to_string(directory.path().join(PLACE)).expect("read");
        assert_eq!(kept, "- mine\n");
    }

    #[test]
    fn notes_that_lead_elsewhere_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (project, outside) = (directory.path().join("p"), directory.path().join("o"));
        std::fs::create_dir_all(project.join(".siding")).expect("made");
        std::fs::write(&outside, "x").expect("written");
        std::os::unix::fs::symlink(&outside, project.join(PLACE)).expect("made");
        let why = Memory::read(&project).expect_err("leads out").to_string();
        assert!(why.contains("leads out of"), "{why}");
    }
}
