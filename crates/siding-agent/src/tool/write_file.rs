//! `write_file`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::allowed_roots::MissingDirectory;
use super::definition::{Access, Tool};
use super::file_entry::FileEntry;
use super::read_tracker::ContentHash;
use super::{AgentToolContext, ToolOutcome};
use crate::provider::CancelFlag;

/// Writes a whole file.
#[derive(Debug, Clone, Copy)]
pub struct WriteFile;

/// Which, and what into it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileArgs {
    /// The file, relative to the working directory or absolute. Missing directories are made.
    path: String,
    /// Everything that is to be in it, as it is to be written.
    content: String,
}

impl Tool for WriteFile {
    type Args = WriteFileArgs;
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "\
Write a whole file: a new one, or one in place of what is there. To change a part of a file take \
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
            None => format!("made `{}`: {size}", spot.path),
            Some(before) => {
                let note = if before.has_hard_links { HARD_LINK_NOTE } else { "" };
                format!("replaced `{}`, which had {} bytes: {size}{note}", spot.path, before.len)
            }
        })
    }
}

/// What is said of a file that had several names.
pub(super) const HARD_LINK_NOTE: &str =
    "; it had other names too (hard links), and under those is what was there before";

/// Makes sure that a file holds what this agent has last seen in it, if it has seen it.
///
/// # Errors
///
/// That it does not.
pub(super) fn check_unchanged(context: &AgentToolContext, file: &FileEntry) -> Result<(), String> {
    match context.read_tracker.last_seen(&file.key) {
        Some(seen) if ContentHash::of_content(&file.read_all()?) != seen => {
            Err(changed_since_read(file))
        }
        Some(_) | None => Ok(()),
    }
}

/// Says that somebody else has written to a file.
pub(super) fn changed_since_read(file: &FileEntry) -> String {
    format!(
        "`{}` has changed since you read it, and nothing was written: read it again, then make your \
         change to what is there now",
        file.path
    )
}

/// Says how long a content is.
fn format_size(content: &[u8]) -> String {
    let newlines = content.iter().filter(|&&byte| byte == b'\n').count();
    let unended = usize::from(!content.is_empty() && !content.ends_with(b"\n"));
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    format!("{}, {}", count(newlines + unended, "line"), count(content.len(), "byte"))
}
