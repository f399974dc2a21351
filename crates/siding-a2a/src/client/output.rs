//! Formats the output of a remote task: the client's own lines, and the server's text below them.

use std::collections::VecDeque;

use siding_model::fnv::Fnv1a;
use siding_model::size::size_in_words;
use siding_model::text::{make_visible, one_line};

use crate::wire::{Artifact, Part};

/// The prefix of each line of a server's text.
const INDENT: &str = "  ";
/// Maximum columns of the name of an artifact or file.
const NAME_COLUMNS: usize = 60;
/// Maximum columns of a file's URL.
const ADDRESS_COLUMNS: usize = 400;
/// Maximum number of artifacts whose output is tracked. If a task has more, some text may be
/// written twice.
const MAX_TRACKED_ARTIFACTS: usize = 1000;

/// Formats the output, and omits the part of an artifact that has been written before.
#[derive(Debug, Default)]
pub(super) struct OutputWriter {
    written: VecDeque<(String, WrittenPrefix)>,
    /// The artifact, if any, to whose text the next chunk can be appended.
    open_artifact: Option<String>,
    /// Whether the last line has not ended yet.
    is_in_line: bool,
}

/// The part of an artifact that has been written, as its length and hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct WrittenPrefix {
    bytes: usize,
    hash: Fnv1a,
}

impl WrittenPrefix {
    /// Returns the prefix extended by `text`.
    fn extended_by(self, text: &[u8]) -> Self {
        Self { bytes: self.bytes + text.len(), hash: self.hash.with_bytes(text) }
    }

    /// Returns the part of `text` after the written prefix; `None` if `text` does not start with
    /// this prefix.
    fn new_suffix(self, text: &str) -> Option<&str> {
        let head = text.as_bytes().get(..self.bytes)?;
        let is_same = Self::default().extended_by(head) == self;
        is_same.then(|| text.get(self.bytes..)).flatten()
    }
}

impl OutputWriter {
    /// Ends the server's open block, and formats a line of the client itself.
    pub(super) fn siding_line(&mut self, line: &str) -> String {
        let mut out = String::new();
        self.end_block(&mut out);
        out.push_str(line);
        out.push('\n');
        out
    }

    /// Formats a complete text of the server, indented below a line of the client.
    pub(super) fn server_text(&mut self, text: &str) -> String {
        let mut out = String::new();
        self.end_block(&mut out);
        self.append_indented(text, &mut out);
        self.end_block(&mut out);
        out
    }

    /// Formats the new part of an artifact that the server sent completely, or the whole artifact
    /// again if the part that was written before has changed.
    pub(super) fn full_artifact(&mut self, artifact: &Artifact) -> String {
        let text = parts_text(&artifact.parts);
        let known = self.written_prefix(&artifact.artifact_id);
        let (rest, remark) = match known {
            None => (text.as_str(), ""),
            Some(extent) => match extent.new_suffix(&text) {
                Some("") => return String::new(),
                Some(rest) => (rest, ""),
                None => (text.as_str(), ", again"),
            },
        };
        let mut out = self.artifact_header(artifact, remark);
        self.append_indented(rest, &mut out);
        self.record_prefix(
            &artifact.artifact_id,
            WrittenPrefix::default().extended_by(text.as_bytes()),
        );
        out
    }

    /// Formats a further chunk of an artifact.
    pub(super) fn artifact_chunk(&mut self, artifact: &Artifact) -> String {
        let text = parts_text(&artifact.parts);
        let mut out = self.artifact_header(artifact, "");
        self.append_indented(&text, &mut out);
        let extent = self.written_prefix(&artifact.artifact_id).unwrap_or_default();
        self.record_prefix(&artifact.artifact_id, extent.extended_by(text.as_bytes()));
        out
    }

    /// Returns the line that precedes an artifact's text; empty if the text can be appended to the
    /// open artifact.
    fn artifact_header(&mut self, artifact: &Artifact, remark: &str) -> String {
        let mut out = String::new();
        let id = &artifact.artifact_id;
        if remark.is_empty() && self.open_artifact.as_ref() == Some(id) {
            return out;
        }
        self.end_block(&mut out);
        let name = artifact.name.as_ref().filter(|name| !name.is_empty()).unwrap_or(id);
        out.push_str(&format!("artifact {}{remark}:\n", one_line(name, NAME_COLUMNS)));
        self.open_artifact = Some(id.clone());
        out
    }

    /// Appends a text, with each line indented.
    fn append_indented(&mut self, text: &str, out: &mut String) {
        for c in make_visible(text).chars() {
            if !self.is_in_line && c != '\n' {
                out.push_str(INDENT);
            }
            out.push(c);
            self.is_in_line = c != '\n';
        }
    }

    /// Ends the open line and artifact.
    fn end_block(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_in_line) {
            out.push('\n');
        }
        self.open_artifact = None;
    }

    fn written_prefix(&self, id: &str) -> Option<WrittenPrefix> {
        self.written.iter().find(|(known, _)| known == id).map(|(_, extent)| *extent)
    }

    fn record_prefix(&mut self, id: &str, extent: WrittenPrefix) {
        self.written.retain(|(known, _)| known != id);
        self.written.push_back((id.to_owned(), extent));
        if self.written.len() > MAX_TRACKED_ARTIFACTS {
            self.written.pop_front();
        }
    }
}

/// Returns the content of parts as text. Parts are joined without a separator, because servers
/// store the chunks of a stream as parts.
pub(super) fn parts_text(parts: &[Part]) -> String {
    parts.iter().map(part_text).collect()
}

fn part_text(part: &Part) -> String {
    if let Some(text) = &part.text {
        return text.clone();
    }
    let kind = part.media_type.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("file");
    let name = part.filename.as_deref().unwrap_or_default();
    let file = format!("{} {}", one_line(kind, NAME_COLUMNS), one_line(name, NAME_COLUMNS));
    let file = file.trim_end();
    if let Some(raw) = &part.raw {
        // Four base64 characters encode three bytes.
        let size = size_in_words((raw.trim_end_matches('=').len() * 3 / 4) as u64);
        return format!("[{file}, {size}]\n");
    }
    if let Some(url) = &part.url {
        return format!("[{file} at {}]\n", one_line(url, ADDRESS_COLUMNS));
    }
    part.data.as_ref().map(|data| format!("{data}\n")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn artifact(id: &str, texts: &[&str]) -> Artifact {
        let parts = texts.iter().map(|text| Part::text(*text)).collect();
        Artifact { artifact_id: id.to_owned(), name: None, parts }
    }

    #[test]
    fn chunks_continue_the_open_artifact() {
        let mut paper = OutputWriter::default();
        let mut out = paper.siding_line("working");
        out += &paper.artifact_chunk(&artifact("a", &["one\ntw"]));
        out += &paper.artifact_chunk(&artifact("a", &["o\n\nthree"]));
        out += &paper.siding_line("completed");
        assert_eq!(out, "working\nartifact a:\n  one\n  two\n\n  three\ncompleted\n");
    }

    /// After a broken stream the server sends the complete task. The client must not write again
    /// what it has already written.
    #[test]
    fn a_repeated_artifact_prints_only_its_new_part() {
        let mut paper = OutputWriter::default();
        paper.artifact_chunk(&artifact("a", &["one "]));
        paper.siding_line("the connection broke");
        assert_eq!(paper.full_artifact(&artifact("a", &["one ", "two"])), "artifact a:\n  two");
        assert_eq!(paper.full_artifact(&artifact("a", &["one two"])), "");
        let anew = paper.full_artifact(&artifact("a", &["other"]));
        assert_eq!(anew, "\nartifact a, again:\n  other");
    }

    #[test]
    fn non_text_parts_are_named() {
        let part = |part: Part| parts_text(&[part]);
        let raw = Part {
            raw: Some("aGVsbG8=".to_owned()),
            filename: Some("x\n.bin".to_owned()),
            ..Part::default()
        };
        assert_eq!(part(raw), "[file x\\n.bin, 5 bytes]\n");
        let url = Part { url: Some("http://h/x".to_owned()), ..Part::default() };
        assert_eq!(part(url), "[file at http://h/x]\n");
        let data = Part { data: Some(serde_json::json!({ "a": 1 })), ..Part::default() };
        assert_eq!(part(data), "{\"a\":1}\n");
        assert_eq!(part(Part::default()), "");
    }

    proptest! {
        /// Promise P131: a server's text cannot forge a line of the client, move the cursor or hide
        /// other text.
        #[test]
        fn server_text_never_starts_a_line(
            text in "(input-required|auth-required|[\n\r\u{1b}\u{85}\u{2028}a-c ]){0,20}",
            name in "[a-c\n\u{1b}]{0,5}",
            cut in 0_usize..20,
        ) {
            let mut paper = OutputWriter::default();
            let at = text.floor_char_boundary(cut);
            let mut out = paper.artifact_chunk(&artifact(&name, &[&text[..at]]));
            out += &paper.artifact_chunk(&artifact(&name, &[&text[at..]]));
            out += &paper.server_text(&text);
            for line in out.split('\n') {
                let is_ours = line.is_empty() || line.starts_with("artifact ");
                prop_assert!(is_ours || line.starts_with(INDENT), "{:?}", out);
            }
            prop_assert!(!out.contains(['\u{1b}', '\r', '\u{85}', '\u{2028}']), "{:?}", out);
        }

        /// A text is written once however it is divided into chunks, even if the complete artifact
        /// arrives between two chunks.
        #[test]
        fn chunked_text_is_written_once(texts in proptest::collection::vec("[a-cä]{1,5}", 1..6), at in 0_usize..6) {
            let mut paper = OutputWriter::default();
            let mut out = String::new();
            for (index, text) in texts.iter().enumerate() {
                out += &paper.artifact_chunk(&artifact("a", &[text]));
                if index == at {
                    out += &paper.full_artifact(&artifact("a", &[&texts[..=index].concat()]));
                }
            }
            prop_assert_eq!(out, format!("artifact a:\n  {}", texts.concat()));
        }
    }
}
