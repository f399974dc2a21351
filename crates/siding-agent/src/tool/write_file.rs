//! The tool `write_file`, which creates or replaces a complete file.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_model::size::size_in_words;

use super::allowed_roots::MissingDirectory;
use super::definition::{Access, Tool};
use super::file_entry::FileEntry;
use super::read_tracker::ContentHash;
use super::{AgentToolContext, ToolOutcome};
use crate::cancel_flag::CancelFlag;

/// The tool that writes a complete file.
#[derive(Debug, Clone, Copy)]
pub struct WriteFile;

/// Arguments of `write_file`: the file and its new content.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileArgs {
    /// The file, relative to the working directory or absolute. Missing directories are created.
    path: String,
    /// The complete content of the file.
    content: String,
}

impl Tool for WriteFile {
    type Args = WriteFileArgs;
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "\
Write a complete file, new or in place of an existing one. To change a part of a file use \
`edit_file`.";
    const ACCESS: Access = Access::Modifying;

    fn call(
        &self,
        context: &AgentToolContext,
        args: WriteFileArgs,
        _cancel: &CancelFlag,
    ) -> ToolOutcome {
        let spot = context.allowed_roots.find(&args.path, MissingDirectory::Create)?;
        if spot.metadata.is_some() {
            check_unchanged(context, &spot)?;
        }
        let content = args.content.as_bytes();
        spot.replace_content(content)?;
        context.read_tracker.record(spot.key.clone(), ContentHash::of_content(content));
        let size = format_size(content);
        Ok(match spot.metadata {
            None => format!("created `{}`: {size}", spot.path),
            Some(before) => {
                let note = if before.has_hard_links { HARD_LINK_NOTE } else { "" };
                let old_size = size_in_words(before.len);
                format!("replaced `{}`, which had {old_size}: {size}{note}", spot.path)
            }
        })
    }
}

/// Note that is added to the answer if the replaced file had several hard links.
pub(super) const HARD_LINK_NOTE: &str =
    "; it had other names (hard links), which keep the old content";

/// Checks that a file still has the content that the agent last read or wrote. A file that the
/// agent has neither read nor written passes.
///
/// # Errors
///
/// A message for the model if the content has changed or cannot be read.
pub(super) fn check_unchanged(context: &AgentToolContext, file: &FileEntry) -> Result<(), String> {
    match context.read_tracker.last_seen(&file.key) {
        Some(seen) if ContentHash::of_content(&file.read_all()?) != seen => {
            Err(changed_since_read(file))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the message that a file has changed since the agent last read or wrote it.
pub(super) fn changed_since_read(file: &FileEntry) -> String {
    format!(
        "`{}` has changed since you read it, and nothing was written: read it again, then make your \
         change to what is there now",
        file.path
    )
}

/// Formats the numbers of lines and bytes in a file's content.
fn format_size(content: &[u8]) -> String {
    let newlines = content.iter().filter(|&&byte| byte == b'\n').count();
    let unended = usize::from(!content.is_empty() && !content.ends_with(b"\n"));
    let lines = newlines + unended;
    let size = size_in_words(content.len() as u64);
    format!("{lines} line{}, {size}", if lines == 1 { "" } else { "s" })
}
