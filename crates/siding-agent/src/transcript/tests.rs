//! Transcripts that are torn, damaged, or somebody else's.

use siding_model::id::SessionId;

use super::*;
use crate::message::Told;

fn told(text: &str) -> Entry {
    Entry::Told { told: vec![Told::Prompt { text: text.to_owned() }] }
}

fn opened() -> Opened {
    Opened { cwd: "/".to_owned(), model: "script:x".to_owned() }
}

/// Whoever is killed at any byte loses at most the line that was being written, and what is added
/// later is found again, as often as that happens.
#[test]
fn a_torn_line_is_the_only_thing_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&directory.path().join("state")).expect("a state directory");
    let session: SessionId = "talk".parse().expect("a name");
    let mut transcript = Transcript::create(&root, &session, opened()).expect("made");
    transcript.add(&told("first\nline")).expect("added");
    let one = transcript.len;
    transcript.add(&told("second")).expect("added");
    let whole = transcript.len;
    let path = directory.path().join("state/sessions/talk").join(NAME);
    drop(transcript);
    let bytes = std::fs::read(&path).expect("read");
    for cut in one..=whole {
        let kept = &bytes[..usize::try_from(cut).expect("small")];
        std::fs::write(&path, kept).expect("cut");
        let wanted = if cut == whole { 2 } else { 1 };
        for round in 0..3 {
            let (mut transcript, first, entries) =
                Transcript::open(&root, &session).expect("taken up");
            assert_eq!((first, entries.len()), (opened(), wanted + round), "cut at {cut}");
            transcript.add(&told("third")).expect("added");
        }
    }
}

/// Also when whoever takes it up is killed while it says so.
#[test]
fn a_torn_line_is_explained_in_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&directory.path().join("state")).expect("a state directory");
    let session: SessionId = "talk".parse().expect("a name");
    let mut transcript = Transcript::create(&root, &session, opened()).expect("made");
    transcript.add(&told("first")).expect("added");
    let path = directory.path().join("state/sessions/talk").join(NAME);
    drop(transcript);
    let whole = std::fs::read(&path).expect("read");
    let torn = [&whole[..], b"{\"wall\":1,\"ent\n{\"torn\":tr"].concat();
    std::fs::write(&path, torn).expect("written");
    for round in 0..3 {
        let (mut transcript, _, entries) = Transcript::open(&root, &session).expect("taken up");
        assert_eq!(entries.len(), 1 + round);
        transcript.add(&told("more")).expect("added");
    }
}

#[test]
fn damage_is_named_and_a_second_writer_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&directory.path().join("state")).expect("a state directory");
    let session: SessionId = "talk".parse().expect("a name");
    let missing = Transcript::open(&root, &session).expect_err("there is none");
    assert!(matches!(missing, TranscriptError::Missing { .. }), "{missing}");
    let mut transcript = Transcript::create(&root, &session, opened()).expect("made");
    let (_, looked) = Transcript::look(&root, &session).expect("anybody may look");
    assert!(looked.is_empty());
    let busy = Transcript::open(&root, &session).expect_err("it is being written");
    assert!(matches!(busy, TranscriptError::Busy { .. }), "{busy}");
    transcript.append(b"{\"entry\":\"asked\n").expect("added");
    transcript.add(&told("after")).expect("added");
    drop(transcript);
    let damaged = Transcript::open(&root, &session).expect_err("it is damaged");
    assert!(matches!(damaged, TranscriptError::Damaged { line: 2, .. }), "{damaged}");
}
