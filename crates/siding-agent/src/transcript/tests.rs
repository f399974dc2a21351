//! Tests which entries of torn transcripts survive, and which damaged or locked transcripts are
//! refused.

use siding_model::id::SessionId;

use super::*;
use crate::message::{AssistantContent, UserContent};

fn input_entry(text: &str) -> Entry {
    Entry::Input { content: vec![UserContent::Prompt { text: text.to_owned() }] }
}

fn header() -> TranscriptHeader {
    TranscriptHeader { cwd: "/".to_owned(), model: "script:x".to_owned() }
}

/// A crash at any byte loses at most the line being written, and later entries are read correctly,
/// even after repeated crashes.
#[test]
fn a_crash_loses_at_most_the_torn_line() {
    let directory = tempfile::tempdir().expect("create a temporary directory");
    let root = StateDir::open(&directory.path().join("state")).expect("open the state directory");
    let session: SessionId = "talk".parse().expect("valid session id");
    let mut transcript =
        Transcript::create(&root, &session, header()).expect("create the transcript");
    transcript.add_entry(&input_entry("first\nline")).expect("append the entry");
    let one = transcript.len;
    transcript.add_entry(&input_entry("second")).expect("append the entry");
    let whole = transcript.len;
    let path = directory.path().join("state/sessions/talk").join(NAME);
    drop(transcript);
    let bytes = std::fs::read(&path).expect("read the file");
    for cut in one..=whole {
        let kept = &bytes[..usize::try_from(cut).expect("the offset fits in usize")];
        std::fs::write(&path, kept).expect("truncate the file");
        let wanted = if cut == whole { 2 } else { 1 };
        for round in 0..3 {
            let (mut transcript, first, entries) =
                Transcript::open(&root, &session).expect("open the transcript");
            assert_eq!((first, entries.len()), (header(), wanted + round), "cut at {cut}");
            transcript.add_entry(&input_entry("third")).expect("append the entry");
        }
    }
}

/// The second writer may also be killed while it marks the torn line.
#[test]
fn a_torn_line_is_marked_even_after_repeated_crashes() {
    let directory = tempfile::tempdir().expect("create a temporary directory");
    let root = StateDir::open(&directory.path().join("state")).expect("open the state directory");
    let session: SessionId = "talk".parse().expect("valid session id");
    let mut transcript =
        Transcript::create(&root, &session, header()).expect("create the transcript");
    transcript.add_entry(&input_entry("first")).expect("append the entry");
    let path = directory.path().join("state/sessions/talk").join(NAME);
    drop(transcript);
    let whole = std::fs::read(&path).expect("read the file");
    let torn = [&whole[..], b"{\"wall\":1,\"ent\n{\"torn\":tr"].concat();
    std::fs::write(&path, torn).expect("write the file");
    for round in 0..3 {
        let (mut transcript, _, entries) =
            Transcript::open(&root, &session).expect("open the transcript");
        assert_eq!(entries.len(), 1 + round);
        transcript.add_entry(&input_entry("more")).expect("append the entry");
    }
}

#[test]
fn damage_is_reported_and_a_second_writer_is_refused() {
    let directory = tempfile::tempdir().expect("create a temporary directory");
    let root = StateDir::open(&directory.path().join("state")).expect("open the state directory");
    let session: SessionId = "talk".parse().expect("valid session id");
    let missing = Transcript::open(&root, &session).expect_err("no transcript exists");
    assert!(matches!(missing, TranscriptError::Missing { .. }), "{missing}");
    let mut transcript =
        Transcript::create(&root, &session, header()).expect("create the transcript");
    let (_, looked) = Transcript::read_snapshot(&root, &session).expect("reading needs no lock");
    assert!(looked.is_empty());
    let busy = Transcript::open(&root, &session).expect_err("the transcript is locked");
    assert!(matches!(busy, TranscriptError::Busy { .. }), "{busy}");
    transcript.append(b"{\"entry\":\"asked\n").expect("append the bytes");
    transcript.add_entry(&input_entry("after")).expect("append the entry");
    drop(transcript);
    let damaged = Transcript::open(&root, &session).expect_err("the line is damaged");
    assert!(matches!(damaged, TranscriptError::Damaged { line: 2, .. }), "{damaged}");
}

/// A transcript of format 1 is continued in the same file with lines of the current format.
#[test]
fn a_transcript_of_format_1_is_read_and_continued() {
    const LINES: &str = r#"{"transcript":1,"session":"talk","wall":1,"cwd":"/","model":"script:x"}
{"wall":1,"entry":"told","told":[{"told":"prompt","text":"build it"}]}
{"wall":1,"entry":"asked"}
{"wall":1,"entry":"answered","said":[{"said":"text","text":"I build."},{"said":"call","id":"c","name":"bash","input":{"told":1}}],"stop":"tool_use","usage":{"input":1,"output":2,"cache_read":0,"cache_write":0}}
{"wall":1,"entry":"started","call":"c"}
{"wall":1,"entry":"bound","call":"c","task":"b-3yewy9na5nme"}
{"wall":1,"entry":"done","result":{"call":"c","text":"built","is_error":false}}
{"wall":1,"entry":"asked"}
{"wall":1,"entry":"failed","why":"no network"}
{"wall":1,"entry":"interrupted"}
{"wall":1,"entry":"summarised","text":"short","usage":{"input":1,"output":2,"cache_read":0,"cache_write":0}}
"#;
    let directory = tempfile::tempdir().expect("create a temporary directory");
    let root = StateDir::open(&directory.path().join("state")).expect("open the state directory");
    let session: SessionId = "talk".parse().expect("valid session id");
    drop(Transcript::create(&root, &session, header()).expect("create the transcript"));
    let path = directory.path().join("state/sessions/talk").join(NAME);
    std::fs::write(&path, LINES).expect("write the file");
    let (mut transcript, first, entries) =
        Transcript::open(&root, &session).expect("open the transcript");
    assert_eq!(first, header());
    assert_eq!(entries.len(), LINES.lines().count() - 1);
    assert_eq!(entries[0], input_entry("build it"));
    let Entry::Response { content, .. } = &entries[2] else { panic!("{entries:?}") };
    let AssistantContent::Call(call) = &content[1] else { panic!("{content:?}") };
    assert_eq!(call.input, serde_json::json!({ "told": 1 }), "the model's own words are kept");
    assert!(matches!(&entries[9], Entry::Summary { text, .. } if text == "short"));
    transcript.add_entry(&input_entry("again")).expect("append the entry");
    drop(transcript);
    let (_, entries) = Transcript::read_snapshot(&root, &session).expect("read the transcript");
    assert_eq!(entries.last(), Some(&input_entry("again")));
}
