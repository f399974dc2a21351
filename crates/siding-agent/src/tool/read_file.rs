//! `read_file`.

use std::fs::File;
use std::io::{self, Read as _};
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::Deserialize;

use super::excerpt::{Excerpt, Page, TEXT_MAX};
use super::kind::{Access, Tool};
use super::seen::Printing;
use super::spot::{FileError, Spot, WHOLE_MAX};
use super::{Outcome, Scene};
use crate::provider::Cancel;

/// Lines that are shown when none are asked for.
const LINES: NonZeroU64 = NonZeroU64::new(2_000).expect("is not zero");

/// Bytes at the beginning of a file by which text is told from what is none: it has no byte 0. git
/// looks at as many (`FIRST_FEW_BYTES` of xdiff-interface.c).
const LOOKED_AT: usize = 8_000;

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;

/// Reads a file, or a part of it.
#[derive(Debug, Clone, Copy)]
pub struct ReadFile;

/// What of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file, relative to the working directory or absolute.
    path: String,
    /// Number of the first line to show; lines count from 1 (default 1).
    #[serde(default)]
    offset: u64,
    /// How many lines to show (default 2000).
    #[serde(default)]
    limit: Option<NonZeroU64>,
}

impl Tool for ReadFile {
    type Args = Args;
    const NAME: &'static str = "read_file";
    const ABOUT: &'static str = "\
Read a text file. Each line comes as its number, a tab, and its text exactly as it is; number and tab \
are not in the file. At most 64 KiB are shown at once, and 2000 bytes of a line; the answer says what \
is missing and with which `offset` to go on. Read a file before you change it.";
    const ACCESS: Access = Access::Reads;

    fn call(&self, scene: &Scene, args: Args, cancel: &Cancel) -> Outcome {
        let spot = scene.ground.existing(&args.path)?;
        let limit = args.limit.unwrap_or(LINES);
        let reading = Reading::read(&spot, args.offset.max(1), limit, cancel)?;
        if let Some(printing) = &reading.whole {
            scene.seen.remember(spot.key.clone(), printing.finish());
        }
        reading.answer(&args)
    }
}

/// What was read.
struct Reading {
    page: Page,
    /// Lines that were seen: all of the file, if [`Self::is_end`].
    lines: u64,
    bytes: u64,
    /// Whether it was read to its end.
    is_end: bool,
    /// What it holds, when that was read as a whole and is not too long to be edited.
    whole: Option<Printing>,
}

impl Reading {
    fn read(spot: &Spot, first: u64, most: NonZeroU64, cancel: &Cancel) -> Result<Self, String> {
        let failed =
            |source: io::Error| FileError::Io { doing: "read", path: spot.path.clone(), source };
        let mut opened = spot.open()?;
        let mut excerpt = Excerpt::new(first, most.get());
        let mut printing = Printing::default();
        let mut block = vec![0; BLOCK];
        let mut bytes = 0;
        let is_end = loop {
            if cancel.is_set() {
                return Err(format!("reading `{}` was given up", spot.path));
            }
            let count = some(&mut opened, &mut block).map_err(failed)?;
            let read = &block[..count];
            if count == 0 {
                break true;
            }
            if bytes == 0 && read[..count.min(LOOKED_AT)].contains(&0) {
                return Err(binary(spot, read));
            }
            bytes += count as u64;
            excerpt.feed(read);
            let may_be_edited = printing.len() <= WHOLE_MAX as u64;
            if may_be_edited {
                printing.add(read);
            } else if excerpt.has_more() {
                break false;
            }
        };
        let (page, lines) = excerpt.finish();
        let is_whole = is_end && printing.len() <= WHOLE_MAX as u64;
        Ok(Self { page, lines, bytes, is_end, whole: is_whole.then_some(printing) })
    }

    fn answer(self, args: &Args) -> Outcome {
        let Self { page, lines, bytes, is_end, .. } = self;
        let (path, first) = (&args.path, args.offset.max(1));
        if bytes == 0 {
            return Ok(format!("[`{path}` is empty]"));
        }
        if page.shown == 0 && is_end {
            let s = if lines == 1 { "" } else { "s" };
            return Err(format!("`{path}` has {lines} line{s}: there is no line {first}"));
        }
        let mut text = page.text;
        let mut say = |note: &str| text.push_str(&format!("[{note}]\n"));
        let last = first + page.shown - 1;
        if !is_end || last < lines {
            let of = if is_end {
                format!("of {lines}")
            } else {
                "of a file that is longer than was read".to_owned()
            };
            let why = if page.is_cut {
                format!(", as many as fit into {} KiB", TEXT_MAX >> 10)
            } else {
                String::new()
            };
            say(&format!("lines {first} to {last} {of}{why}; go on with `offset` {}", last + 1));
        }
        if page.is_unterminated {
            say("no newline at the end of the file");
        }
        if page.has_crlf {
            say("lines end in CR LF, which is not shown; edit_file keeps it");
        }
        if page.has_bytes {
            say("bytes that are no UTF-8 text are shown as \\xNN");
        }
        Ok(text)
    }
}

/// Reads some bytes.
fn some(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Says of a file that it is no text.
fn binary(spot: &Spot, beginning: &[u8]) -> String {
    let kind = match beginning {
        [0x7f, b'E', b'L', b'F', ..] => " (a program)",
        [0x89, b'P', b'N', b'G', ..] => " (an image)",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            " (perhaps text in UTF-16; `iconv` makes UTF-8 of it)"
        }
        _ => "",
    };
    let len = spot.entry.map_or(0, |entry| entry.len);
    format!(
        "`{}` is no text{kind}: it has zero bytes in it; {len} bytes long. `file` or `xxd` in bash \
         tells more",
        spot.path
    )
}
