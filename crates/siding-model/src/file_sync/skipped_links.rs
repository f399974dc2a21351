//! The symbolic links that rsync leaves out when it copies from a machine that is not trusted.

use serde::{Deserialize, Serialize};

use super::NOTE_COLUMNS;
use crate::text::one_line;

/// Maximum number of links whose names are kept.
const MAX_NAMES: usize = 3;
/// Maximum number of bytes of a line of rsync that are kept: more than the kernel's limit for a
/// path.
const MAX_LINE_BYTES: usize = 8 << 10;
/// The beginning of rsync's line about a link, before its name. ` -> ` and the target follow.
const LINE_START: &[u8] = b"ignoring unsafe symlink \"";
/// The text between the name and the target in rsync's line.
const NAME_END: &str = "\" -> \"";

/// The symbolic links that were not copied, because they are absolute or lead out of the directory
/// to which all paths are relative.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedLinks {
    /// Number of links.
    pub count: u64,
    /// The first names, relative to the working directory and made safe to print.
    pub names: Vec<String>,
}

impl SkippedLinks {
    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the links of another copy.
    pub fn append(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        let free = MAX_NAMES.saturating_sub(self.names.len());
        self.names.extend(other.names.into_iter().take(free));
    }

    /// Returns the number, the names and the reason in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let names = self.names.join(", ");
        let unnamed = self.count.saturating_sub(self.names.len() as u64);
        let unnamed = if unnamed > 0 { format!(" and {unnamed} more") } else { String::new() };
        let subject = match self.count {
            1 => "1 symbolic link was not fetched, because it is absolute or leads".to_owned(),
            count => {
                format!(
                    "{count} symbolic links were not fetched, because they are absolute or lead"
                )
            }
        };
        format!("{subject} out of the working directory: {names}{unnamed}")
    }

    /// Returns the line about the links in the output of the task; empty if there are none.
    #[must_use]
    pub fn output_line(&self) -> String {
        if self.is_empty() { String::new() } else { format!("siding: {}\n", self.describe()) }
    }
}

/// Finds the lines about skipped links in the output of rsync.
#[derive(Debug, Default)]
pub struct SkippedLinkReader {
    /// The beginning of the current line.
    line: Vec<u8>,
    links: SkippedLinks,
}

impl SkippedLinkReader {
    /// Reads the next part of the output.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let space = MAX_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(space)]);
            if text.len() < piece.len() {
                self.end_line();
            }
        }
    }

    /// Returns the links that were found.
    #[must_use]
    pub fn into_links(self) -> SkippedLinks {
        self.links
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let Some(rest) = line.strip_prefix(LINE_START) else { return };
        let rest = String::from_utf8_lossy(rest);
        let name = rest.split_once(NAME_END).map_or(&*rest, |(name, _)| name);
        let names = vec![one_line(name, NOTE_COLUMNS)];
        self.links.append(SkippedLinks { count: 1, names });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> SkippedLinks {
        let mut reader = SkippedLinkReader::default();
        pieces.iter().for_each(|piece| reader.push(piece));
        reader.into_links()
    }

    #[test]
    fn links_are_found_among_the_lines_of_copied_files() {
        let found = read(&[
            b"+\n+\nignoring unsafe sym",
            b"link \"out/a\" -> \"/etc\"\n+ignoring unsafe symlink \"no\" -> \"/\"\n",
            b"ignoring unsafe symlink \"out/\x1b[2J\" -> \"../..\"\nignoring unsafe symlink \"cut",
        ]);
        assert_eq!(found.count, 2);
        assert_eq!(found.names, ["out/a", "out/\\e[2J"]);
        let line = found.output_line();
        assert!(line.starts_with("siding: 2 symbolic links were not fetched"), "{line}");
        assert!(line.ends_with(": out/a, out/\\e[2J\n"), "{line}");
    }

    #[test]
    fn many_links_are_counted_and_the_first_are_named() {
        let line = |number: u32| format!("ignoring unsafe symlink \"l{number}\" -> \"/\"\n");
        let text: String = (0..5_000).map(line).collect();
        let mut found = read(&[text.as_bytes()]);
        found.append(read(&[line(0).as_bytes()]));
        assert_eq!((found.count, found.names.len()), (5_001, 3));
        let text = found.describe();
        assert!(text.ends_with(": l0, l1, l2 and 4998 more"), "{text}");
    }

    #[test]
    fn a_long_line_uses_a_bounded_amount_of_memory() {
        let long = vec![b'x'; 100 << 10];
        let mut reader = SkippedLinkReader::default();
        reader.push(LINE_START);
        reader.push(&long);
        assert!(reader.line.len() <= MAX_LINE_BYTES);
        reader.push(b"\n");
        let links = reader.into_links();
        assert_eq!(links.count, 1);
        assert!(links.names[0].len() <= 4 * NOTE_COLUMNS);
    }

    #[test]
    fn no_links_are_no_line() {
        assert_eq!(SkippedLinks::default().output_line(), "");
    }
}
