//! Tests the replay of truncated and damaged journals.

use siding_model::process::UnixMs;

use super::{began_record, ended_record, task};
use crate::{
    LoadedWorkflow, RunOptions, StepEnd, WorkflowHeader, WorkflowJournalError, WorkflowRecord,
    WorkflowVerdict,
};

const WORKFLOW_TEXT: &str =
    "[[step]]\nid = \"a\"\nrun = \"x\"\n[[step]]\nid = \"b\"\nrun = \"x\"\n";

fn opened_record() -> WorkflowRecord {
    let rules = RunOptions { keep_going: true, max_parallel: 2 };
    let opened = WorkflowHeader {
        file: "/flow.toml".to_owned(),
        text: WORKFLOW_TEXT.to_owned(),
        cwd: "/".to_owned(),
        rules,
    };
    WorkflowRecord::Opened { format: 1, at: UnixMs(5), task: task(1), opened }
}

fn encode_records(records: &[WorkflowRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (seq, record) in (0..).zip(records) {
        siding_model::record::write_line(&mut bytes, seq, record);
    }
    bytes
}

fn sample_records() -> Vec<WorkflowRecord> {
    vec![
        opened_record(),
        began_record("a", 1),
        began_record("b", 1),
        ended_record("a", 1, StepEnd::Ok),
        WorkflowRecord::Stopping { at: UnixMs(7), by: "SIGTERM".to_owned() },
        ended_record("b", 1, StepEnd::Stopped),
        WorkflowRecord::Over { at: UnixMs(8), verdict: WorkflowVerdict::Stopped },
        WorkflowRecord::Resumed { at: UnixMs(9), task: task(2) },
        began_record("b", 2),
    ]
}

/// A crash at any byte loses at most the record being written.
#[test]
fn a_truncated_journal_replays_every_complete_record() {
    let records = sample_records();
    let bytes = encode_records(&records);
    let whole = LoadedWorkflow::read(&bytes).expect("the journal is complete");
    assert_eq!((whole.tasks.len(), whole.last_recorded_at, whole.torn), (2, UnixMs(0), false));
    let first = encode_records(&records[..1]).len();
    for cut in first..bytes.len() {
        let kept = bytes[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
        let workflow =
            LoadedWorkflow::read(&bytes[..cut]).unwrap_or_else(|error| panic!("{cut}: {error}"));
        // A record that lacks only its newline is valid.
        assert!(workflow.next_seq == kept || workflow.next_seq == kept + 1, "{cut}");
        assert_eq!(workflow.torn, !bytes[..cut].ends_with(b"\n"), "{cut}");
        // The next record after a torn line is read correctly.
        let mut more = bytes[..cut].to_vec();
        let at = UnixMs(100);
        let next = WorkflowRecord::Stopping { at, by: "SIGINT".to_owned() };
        if workflow.state.recorded_verdict().is_none() {
            more.extend(workflow.encode_record(&next));
            assert_eq!(
                LoadedWorkflow::read(&more).expect("the next record is valid").last_recorded_at,
                at,
                "{cut}"
            );
        }
    }
}

#[test]
fn damage_in_the_middle_is_an_error() {
    assert!(matches!(LoadedWorkflow::read(b""), Err(WorkflowJournalError::Empty)));
    let mut bytes = encode_records(&sample_records());
    let at = encode_records(&sample_records()[..2]).len() + 12;
    bytes[at] ^= 1;
    assert!(matches!(
        LoadedWorkflow::read(&bytes),
        Err(WorkflowJournalError::Damaged { seq: 2, .. })
    ));
    let twice = encode_records(&[opened_record(), began_record("a", 1), began_record("a", 2)]);
    assert!(matches!(
        LoadedWorkflow::read(&twice),
        Err(WorkflowJournalError::InvalidRecord { seq: 2, .. })
    ));
    let newer = String::from_utf8(encode_records(&[opened_record()])).expect("valid UTF-8");
    let json =
        newer.split_once("{").expect("valid JSON").1.replacen("\"format\":1", "\"format\":2", 1);
    let mut line = Vec::new();
    let value: serde_json::Value = serde_json::from_str(&format!("{{{json}")).expect("valid JSON");
    siding_model::record::write_line(&mut line, 0, &value);
    assert!(matches!(LoadedWorkflow::read(&line), Err(WorkflowJournalError::TooNew { found: 2 })));
}
