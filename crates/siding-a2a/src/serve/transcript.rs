//! Reads an agent's steps from its growing transcript.

use std::io;

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
        let mut piece = vec![0; READ_BYTES];
        let read = open_transcript(root, conversation)
            .and_then(|fd| file::read_at(&fd, &mut piece, self.offset))
            .unwrap_or(0);
        // An incomplete line is read once it is complete; a line that exceeds the buffer is
        // skipped.
        let complete = match piece[..read].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if read == READ_BYTES => read,
            None => 0,
        };
        self.offset += complete as u64;
        String::from_utf8_lossy(&piece[..complete]).lines().filter_map(parse_step).collect()
    }
}

fn open_transcript(root: &StateDir, conversation: &SessionId) -> io::Result<std::os::fd::OwnedFd> {
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
}
