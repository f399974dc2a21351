//! What a journal says after a crash.

use siding_model::process::UnixMs;

use super::{began, ended, task};
use crate::workflow::{LoadError, Opened, Record, Rules, StepEnd, Story, Verdict};

const TEXT: &str = "[[step]]\nid = \"a\"\nrun = \"x\"\n[[step]]\nid = \"b\"\nrun = \"x\"\n";

fn opened() -> Record {
    let rules = Rules { keep_going: true, max_parallel: 2 };
    let opened =
        Opened { file: "/flow.toml".to_owned(), text: TEXT.to_owned(), cwd: "/".to_owned(), rules };
    Record::Opened { format: 1, at: UnixMs(5), task: task(1), opened }
}

fn lines(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (seq, record) in (0..).zip(records) {
        siding_model::record::write_line(&mut bytes, seq, record);
    }
    bytes
}

fn records() -> Vec<Record> {
    vec![
        opened(),
        began("a", 1),
        began("b", 1),
        ended("a", 1, StepEnd::Ok),
        Record::Stopping { at: UnixMs(7), by: "SIGTERM".to_owned() },
        ended("b", 1, StepEnd::Stopped),
        Record::Over { at: UnixMs(8), verdict: Verdict::Stopped },
        Record::Resumed { at: UnixMs(9), task: task(2) },
        began("b", 2),
    ]
}

/// Whoever is killed at any byte loses at most the record that was being written.
#[test]
fn a_journal_is_read_as_far_as_it_was_written() {
    let records = records();
    let bytes = lines(&records);
    let whole = Story::read(&bytes).expect("whole");
    assert_eq!((whole.tasks.len(), whole.last, whole.torn), (2, UnixMs(0), false));
    let first = lines(&records[..1]).len();
    for cut in first..bytes.len() {
        let kept = bytes[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
        let story = Story::read(&bytes[..cut]).unwrap_or_else(|error| panic!("{cut}: {error}"));
        // A record that lacks nothing but its end counts.
        assert!(story.next_seq == kept || story.next_seq == kept + 1, "{cut}");
        assert_eq!(story.torn, !bytes[..cut].ends_with(b"\n"), "{cut}");
        // What comes next is read again behind it.
        let mut more = bytes[..cut].to_vec();
        let at = UnixMs(100);
        let next = Record::Stopping { at, by: "SIGINT".to_owned() };
        if story.course.over().is_none() {
            more.extend(story.line(&next));
            assert_eq!(Story::read(&more).expect("goes on").last, at, "{cut}");
        }
    }
}

#[test]
fn damage_in_the_middle_is_not_passed_over() {
    assert!(matches!(Story::read(b""), Err(LoadError::Empty)));
    let mut bytes = lines(&records());
    let at = lines(&records()[..2]).len() + 12;
    bytes[at] ^= 1;
    assert!(matches!(Story::read(&bytes), Err(LoadError::Damaged { seq: 2, .. })));
    let twice = lines(&[opened(), began("a", 1), began("a", 2)]);
    assert!(matches!(Story::read(&twice), Err(LoadError::Misfit { seq: 2, .. })));
    let newer = String::from_utf8(lines(&[opened()])).expect("text");
    let json = newer.split_once("{").expect("JSON").1.replacen("\"format\":1", "\"format\":2", 1);
    let mut line = Vec::new();
    let value: serde_json::Value = serde_json::from_str(&format!("{{{json}")).expect("JSON");
    siding_model::record::write_line(&mut line, 0, &value);
    assert!(matches!(Story::read(&line), Err(LoadError::TooNew { found: 2 })));
}
