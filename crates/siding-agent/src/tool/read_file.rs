//! The tool `read_file`, which shows a text file, or a part of it, with line numbers.

use std::fs::File;
use std::io::{self, Read as _};
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_model::size::size_in_words;

use super::definition::{Access, Tool};
use super::excerpt::{ExcerptPage, LineExcerpt, MAX_TEXT_BYTES};
use super::file_entry::{FileEntry, FileError, MAX_WHOLE_FILE_BYTES};
use super::read_tracker::ContentHasher;
use super::{AgentToolContext, ToolOutcome};
use crate::cancel_flag::CancelFlag;

/// Number of lines shown by default.
const DEFAULT_LINES: NonZeroU64 = NonZeroU64::new(2_000).expect("2,000 is not zero");

/// Number of bytes at the start of a file that are checked for a NUL byte, which marks the file as
/// binary. git checks the same number (`FIRST_FEW_BYTES` in xdiff-interface.c).
const BINARY_CHECK_BYTES: usize = 8_000;

/// Size of the read buffer in bytes.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// The tool that reads a file or a part of it.
#[derive(Debug, Clone, Copy)]
pub struct ReadFile;

/// Arguments of `read_file`: the file, and the lines to show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFileArgs {
    /// The file, relative to the working directory or absolute.
    path: String,
    /// The number of the first line to show, from 1 (default 1).
    #[serde(default)]
    offset: u64,
    /// The maximum number of lines to show (default 2000).
    #[serde(default)]
    limit: Option<NonZeroU64>,
}

impl Tool for ReadFile {
    type Args = ReadFileArgs;
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "\
Read a text file. Each line is shown as its number, a tab, and its exact text; number and tab are \
not in the file. At most 64 KiB are shown per call, and 2000 bytes of a line; the answer says what \
is missing and with which `offset` to continue. Read a file before you change it.";
    const ACCESS: Access = Access::ReadOnly;

    fn call(
        &self,
        context: &AgentToolContext,
        args: ReadFileArgs,
        cancel: &CancelFlag,
    ) -> ToolOutcome {
        let spot = context.allowed_roots.find_existing(&args.path)?;
        let limit = args.limit.unwrap_or(DEFAULT_LINES);
        let reading = ReadResult::read(&spot, args.offset.max(1), limit, cancel)?;
        if let Some(printing) = &reading.content_hasher {
            context.read_tracker.record(spot.key.clone(), printing.finish());
        }
        reading.into_outcome(&args)
    }
}

/// The lines to show, and how much of the file was read for them.
struct ReadResult {
    page: ExcerptPage,
    /// Number of lines read: all lines of the file if [`Self::is_end_of_file`] is set.
    lines: u64,
    bytes: u64,
    /// Whether the end of the file was reached.
    is_end_of_file: bool,
    /// The hasher of the complete content; `None` if the file was not read to its end or is too
    /// large to be edited.
    content_hasher: Option<ContentHasher>,
}

impl ReadResult {
    fn read(
        file: &FileEntry,
        first: u64,
        most: NonZeroU64,
        cancel: &CancelFlag,
    ) -> Result<Self, String> {
        let failed =
            |source: io::Error| FileError::Io { doing: "read", path: file.path.clone(), source };
        let mut opened = file.open()?;
        let mut excerpt = LineExcerpt::new(first, most.get());
        let mut printing = ContentHasher::default();
        let mut block = vec![0; READ_BUFFER_BYTES];
        let mut bytes = 0;
        let is_end = loop {
            if cancel.is_set() {
                return Err(format!("reading `{}` was canceled", file.path));
            }
            let count = read_some(&mut opened, &mut block).map_err(failed)?;
            let read = &block[..count];
            if count == 0 {
                break true;
            }
            if bytes == 0 && read[..count.min(BINARY_CHECK_BYTES)].contains(&0) {
                return Err(binary_file_error(file, read));
            }
            bytes += count as u64;
            excerpt.feed(read);
            let may_be_edited = printing.len() <= MAX_WHOLE_FILE_BYTES as u64;
            if may_be_edited {
                printing.update(read);
            } else if excerpt.has_more() {
                break false;
            }
        };
        let (page, lines) = excerpt.finish();
        let is_whole = is_end && printing.len() <= MAX_WHOLE_FILE_BYTES as u64;
        Ok(Self {
            page,
            lines,
            bytes,
            is_end_of_file: is_end,
            content_hasher: is_whole.then_some(printing),
        })
    }

    fn into_outcome(self, args: &ReadFileArgs) -> ToolOutcome {
        let Self { page, lines, bytes, is_end_of_file: is_end, .. } = self;
        let (path, first) = (&args.path, args.offset.max(1));
        if bytes == 0 {
            return Ok(format!("[`{path}` is empty]"));
        }
        if page.shown_lines == 0 && is_end {
            let s = if lines == 1 { "" } else { "s" };
            return Err(format!("`{path}` has {lines} line{s}: there is no line {first}"));
        }
        let mut text = page.text;
        let mut say = |note: &str| text.push_str(&format!("[{note}]\n"));
        let last = first + page.shown_lines - 1;
        if !is_end || last < lines {
            let of = if is_end {
                format!("of {lines}")
            } else {
                "of a file that was not read to its end".to_owned()
            };
            let why = if page.is_truncated {
                format!(", as many as fit into {} KiB", MAX_TEXT_BYTES >> 10)
            } else {
                String::new()
            };
            say(&format!("lines {first} to {last} {of}{why}; continue with `offset` {}", last + 1));
        }
        if page.is_unterminated {
            say("no newline at the end of the file");
        }
        if page.has_crlf {
            say("lines end in CR LF, which is not shown; edit_file keeps it");
        }
        if page.has_escaped_bytes {
            say("bytes that are not UTF-8 are shown as \\xNN");
        }
        Ok(text)
    }
}

/// Reads at least one byte, or none at the end of the file; retries if a signal interrupts the
/// read.
fn read_some(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Returns the message that a file is binary, with the file's probable kind.
fn binary_file_error(spot: &FileEntry, beginning: &[u8]) -> String {
    let kind = match beginning {
        [0x7f, b'E', b'L', b'F', ..] => " (a program)",
        [0x89, b'P', b'N', b'G', ..] => " (an image)",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => " (perhaps text in UTF-16; convert it with `iconv`)",
        _ => "",
    };
    let size = size_in_words(spot.metadata.map_or(0, |entry| entry.len));
    format!(
        "`{}` is a binary file{kind}: it contains NUL bytes; its size is {size}. Inspect it with \
         `file` or `xxd` in bash",
        spot.path
    )
}
