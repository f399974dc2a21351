//! Reads an agent's steps from its growing transcript.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde_json::Value;
use siding_core::store::StateDir;
use siding_core::sys::file;
use siding_model::id::SessionId;

/// The name of a conversation's transcript file (docs/agent.md).
const TRANSCRIPT_FILE_NAME: &str = "transcript.jsonl";
/// Size of a read in bytes; a longer line is skipped.
const READ_BYTES: usize = 1 << 20;

/// The position up to which a transcript has been read.
#[derive(Debug, Default)]
pub(super) struct TranscriptCursor {
    offset: u64,
}

impl TranscriptCursor {
    /// Returns whether the conversation has a transcript.
    pub(super) fn exists(root: &StateDir, conversation: &SessionId) -> bool {
        open_transcript(root, conversation).is_ok()
    }

    /// Returns a cursor at the current end, so that only later steps are read.
    pub(super) fn at_end(root: &StateDir, conversation: &SessionId) -> Self {
        let len = open_transcript(root, conversation)
            .and_then(|fd| file::metadata(&fd))
            .map(|facts| facts.len);
        Self { offset: len.unwrap_or(0) }
    }

    /// Returns the agent's new steps: one text for each answer of the model that calls tools.
    /// Returns no steps while the transcript does not exist yet.
    pub(super) fn read_steps(&mut self, root: &StateDir, conversation: &SessionId) -> Vec<String> {
        let Ok(fd) = open_transcript(root, conversation) else { return Vec::new() };
        let (mut steps, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
        // Everything is read, because after the task's end there is no further call.
        while let Some(lines) = self.read_lines(&fd, &mut buffer) {
            steps.extend(String::from_utf8_lossy(lines).lines().filter_map(parse_step));
        }
        steps
    }

    /// Reads the next complete lines that fit into the buffer; `None` if there is none. An
    /// incomplete line is read once it is complete; a line that exceeds the buffer is skipped.
    fn read_lines<'b>(&mut self, fd: impl AsFd, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let read = file::read_at(fd, buffer, self.offset).unwrap_or(0);
        let complete = match buffer[..read].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if read == buffer.len() => read,
            None => return None,
        };
        self.offset += complete as u64;
        Some(&buffer[..complete])
    }
}

fn open_transcript(root: &StateDir, conversation: &SessionId) -> io::Result<OwnedFd> {
    let dir = root.session_dir(conversation.as_str(), false).map_err(io::Error::other)?;
    file::open_at(&dir, TRANSCRIPT_FILE_NAME, file::OpenMode::Read)
}

/// Returns the text of a transcript line and the names of the called tools, if the line is a
/// model's answer that calls tools. An answer without calls ends a turn; the last such answer is
/// reported with the end of the task.
fn parse_step(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line["entry"] != "response" {
        return None;
    }
    let content = line["content"].as_array()?;
    let of = |kind: &'static str, field: &'static str| {
        content
            .iter()
            .filter(move |part| part["type"] == kind)
            .filter_map(move |part| part[field].as_str())
    };
    let calls: Vec<String> = of("call", "name").map(|name| format!("> {name}")).collect();
    if calls.is_empty() {
        return None;
    }
    let lines: Vec<String> = of("text", "text").map(str::to_owned).chain(calls).collect();
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_tool_calls_is_a_step() {
        let line = r#"{"wall":1,"entry":"response","content":[{"type":"text","text":"I look."},
            {"type":"call","id":"c","name":"bash","input":{}}],"stop":"tool_use","usage":{}}"#;
        assert_eq!(parse_step(line).as_deref(), Some("I look.\n> bash"));
        let last = r#"{"entry":"response","content":[{"type":"text","text":"Done."}]}"#;
        assert_eq!(parse_step(last), None);
        assert_eq!(parse_step(r#"{"entry":"request_sent"}"#), None);
        assert_eq!(parse_step("{torn"), None);
    }

    #[test]
    fn steps_after_a_long_line_and_many_reads_are_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&directory.path().join("state")).expect("a state directory");
        let conversation: SessionId = "talk".parse().expect("a name");
        drop(root.session_dir(conversation.as_str(), true).expect("a session"));
        let path = root.path().join("sessions/talk").join(TRANSCRIPT_FILE_NAME);
        let step = r#"{"entry":"response","content":[{"type":"call","name":"bash"}]}"#;
        let long = "x".repeat(3 * READ_BYTES);
        std::fs::write(&path, format!("{step}\n{long}\n{step}\n{{torn")).expect("written");
        let mut cursor = TranscriptCursor::default();
        assert_eq!(cursor.read_steps(&root, &conversation), ["> bash", "> bash"]);
        assert_eq!(cursor.read_steps(&root, &conversation), [""; 0]);
    }
}
