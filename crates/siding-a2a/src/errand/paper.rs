//! What is written about a task: lines of our own, and what a server says below them.

use std::collections::VecDeque;

use siding_model::fnv::Fnv1a;
use siding_model::text::{make_visible, one_line};

use crate::wire::{Artifact, Part};

/// What stands before each line of a server's text.
const INDENT: &str = "  ";
/// Columns of an artifact's name, and of a file's.
const NAME: usize = 60;
/// Columns of an address.
const ADDRESS: usize = 400;
/// Artifacts of which it is known what was written: of more, some may be written twice.
const MOST: usize = 1000;

/// Writes things down, each part of an artifact once.
#[derive(Debug, Default)]
pub(super) struct Paper {
    written: VecDeque<(String, Extent)>,
    /// The artifact whose text may go on.
    open: Option<String>,
    /// Whether the last line has no end yet.
    is_in_line: bool,
}

/// How much of an artifact was written, and which text that was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Extent {
    bytes: usize,
    hash: Fnv1a,
}

impl Extent {
    /// Returns it with more behind it.
    fn and(self, text: &[u8]) -> Self {
        Self { bytes: self.bytes + text.len(), hash: self.hash.with_bytes(text) }
    }

    /// Returns what of `text` is new, if it begins with what was written.
    fn rest(self, text: &str) -> Option<&str> {
        let head = text.as_bytes().get(..self.bytes)?;
        let is_same = Self::default().and(head) == self;
        is_same.then(|| text.get(self.bytes..)).flatten()
    }
}

impl Paper {
    /// Returns a line of our own.
    pub(super) fn own(&mut self, line: &str) -> String {
        let mut out = String::new();
        self.close(&mut out);
        out.push_str(line);
        out.push('\n');
        out
    }

    /// Returns a text of the server's, whole, below a line of our own.
    pub(super) fn said(&mut self, text: &str) -> String {
        let mut out = String::new();
        self.close(&mut out);
        self.pour(text, &mut out);
        self.close(&mut out);
        out
    }

    /// Returns what is new of an artifact that is given whole.
    pub(super) fn whole(&mut self, artifact: &Artifact) -> String {
        let text = content(&artifact.parts);
        let known = self.extent(&artifact.artifact_id);
        let (rest, remark) = match known {
            None => (text.as_str(), ""),
            Some(extent) => match extent.rest(&text) {
                Some("") => return String::new(),
                Some(rest) => (rest, ""),
                None => (text.as_str(), ", anew"),
            },
        };
        let mut out = self.head(artifact, remark);
        self.pour(rest, &mut out);
        self.note(&artifact.artifact_id, Extent::default().and(text.as_bytes()));
        out
    }

    /// Returns more of an artifact.
    pub(super) fn more(&mut self, artifact: &Artifact) -> String {
        let text = content(&artifact.parts);
        let mut out = self.head(artifact, "");
        self.pour(&text, &mut out);
        let extent = self.extent(&artifact.artifact_id).unwrap_or_default();
        self.note(&artifact.artifact_id, extent.and(text.as_bytes()));
        out
    }

    /// Begins an artifact's text, or goes on with the one that is open.
    fn head(&mut self, artifact: &Artifact, remark: &str) -> String {
        let mut out = String::new();
        let id = &artifact.artifact_id;
        if remark.is_empty() && self.open.as_ref() == Some(id) {
            return out;
        }
        self.close(&mut out);
        let name = artifact.name.as_ref().filter(|name| !name.is_empty()).unwrap_or(id);
        out.push_str(&format!("artifact {}{remark}:\n", one_line(name, NAME)));
        self.open = Some(id.clone());
        out
    }

    /// Puts a text behind what is there, each of its lines indented.
    fn pour(&mut self, text: &str, out: &mut String) {
        for c in make_visible(text).chars() {
            if !self.is_in_line && c != '\n' {
                out.push_str(INDENT);
            }
            out.push(c);
            self.is_in_line = c != '\n';
        }
    }

    /// Ends what is open.
    fn close(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_in_line) {
            out.push('\n');
        }
        self.open = None;
    }

    fn extent(&self, id: &str) -> Option<Extent> {
        self.written.iter().find(|(known, _)| known == id).map(|(_, extent)| *extent)
    }

    fn note(&mut self, id: &str, extent: Extent) {
        self.written.retain(|(known, _)| known != id);
        self.written.push_back((id.to_owned(), extent));
        if self.written.len() > MOST {
            self.written.pop_front();
        }
    }
}

/// Returns what parts hold, as text. Those of a part stand behind those of the one before: a server
/// keeps the pieces of a stream as parts.
pub(super) fn content(parts: &[Part]) -> String {
    parts.iter().map(piece).collect()
}

fn piece(part: &Part) -> String {
    if let Some(text) = &part.text {
        return text.clone();
    }
    let kind = part.media_type.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("file");
    let name = part.filename.as_deref().unwrap_or_default();
    let file = format!("{} {}", one_line(kind, NAME), one_line(name, NAME));
    let file = file.trim_end();
    if let Some(raw) = &part.raw {
        // Four characters are three bytes.
        return format!("[{file}, {} bytes]\n", raw.trim_end_matches('=').len() * 3 / 4);
    }
    if let Some(url) = &part.url {
        return format!("[{file} at {}]\n", one_line(url, ADDRESS));
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
    fn pieces_go_on_where_the_last_one_ended() {
        let mut paper = Paper::default();
        let mut out = paper.own("working");
        out += &paper.more(&artifact("a", &["one\ntw"]));
        out += &paper.more(&artifact("a", &["o\n\nthree"]));
        out += &paper.own("completed");
        assert_eq!(out, "working\nartifact a:\n  one\n  two\n\n  three\ncompleted\n");
    }

    /// After a broken stream the task is told whole: what was written is not written again.
    #[test]
    fn what_was_written_is_not_written_again() {
        let mut paper = Paper::default();
        paper.more(&artifact("a", &["one "]));
        paper.own("the connection broke");
        assert_eq!(paper.whole(&artifact("a", &["one ", "two"])), "artifact a:\n  two");
        assert_eq!(paper.whole(&artifact("a", &["one two"])), "");
        let anew = paper.whole(&artifact("a", &["other"]));
        assert_eq!(anew, "\nartifact a, anew:\n  other");
    }

    #[test]
    fn what_is_no_text_is_named() {
        let part = |part: Part| content(&[part]);
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
        /// PAINS: text from elsewhere cannot forge a line of ours, move the cursor or hide.
        #[test]
        fn no_text_of_a_server_begins_a_line(
            text in "(input-required|auth-required|[\n\r\u{1b}\u{85}\u{2028}a-c ]){0,20}",
            name in "[a-c\n\u{1b}]{0,5}",
            cut in 0_usize..20,
        ) {
            let mut paper = Paper::default();
            let at = text.floor_char_boundary(cut);
            let mut out = paper.more(&artifact(&name, &[&text[..at]]));
            out += &paper.more(&artifact(&name, &[&text[at..]]));
            out += &paper.said(&text);
            for line in out.split('\n') {
                let is_ours = line.is_empty() || line.starts_with("artifact ");
                prop_assert!(is_ours || line.starts_with(INDENT), "{:?}", out);
            }
            prop_assert!(!out.contains(['\u{1b}', '\r', '\u{85}', '\u{2028}']), "{:?}", out);
        }

        /// However a text is cut into pieces, and wherever the whole is told in between, it is written
        /// once.
        #[test]
        fn a_text_is_written_once(texts in proptest::collection::vec("[a-cä]{1,5}", 1..6), at in 0_usize..6) {
            let mut paper = Paper::default();
            let mut out = String::new();
            for (index, text) in texts.iter().enumerate() {
                out += &paper.more(&artifact("a", &[text]));
                if index == at {
                    out += &paper.whole(&artifact("a", &[&texts[..=index].concat()]));
                }
            }
            prop_assert_eq!(out, format!("artifact a:\n  {}", texts.concat()));
        }
    }
}
