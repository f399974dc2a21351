//! Tests of journals that a crash truncated or a disk damaged. A replay must neither panic nor
//! return a state that the task never had.

use siding_model::journal::{JournalError, Replayed, TaskState, replay};
use siding_model::lifecycle::TaskEvent;
use siding_model::record::Record;

use crate::sample_records::{self, event_record};

/// A journal with almost every type of record, and the states that its replay must reach.
struct SampleJournal {
    bytes: Vec<u8>,
    /// Offset of each line, followed by the length of the journal.
    line_offsets: Vec<usize>,
    states: Vec<TaskState>,
}

fn sample_journal() -> SampleJournal {
    let records = sample_records::full_journal();
    let lines = sample_records::journal_lines(&records);
    let mut begins = vec![0];
    begins.extend(lines.iter().scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    }));
    SampleJournal {
        bytes: lines.concat(),
        line_offsets: begins,
        states: sample_records::replay_states(&records),
    }
}

impl SampleJournal {
    /// Returns the number of complete records in the first `bytes` bytes. A record that lacks only
    /// its newline is complete.
    fn complete_records(&self, bytes: usize) -> usize {
        self.line_offsets[1..].iter().filter(|end| **end <= bytes + 1).count()
    }

    /// Returns the index of the record that contains a byte.
    fn record_at(&self, byte: usize) -> usize {
        self.line_offsets.iter().rposition(|begin| *begin <= byte).expect("the first begins at 0")
    }
}

#[test]
fn every_prefix_replays_its_complete_records() {
    let journal = sample_journal();
    for cut in 0..=journal.bytes.len() {
        let whole = journal.complete_records(cut);
        let folded = replay(&journal.bytes[..cut]);
        let Some(last) = whole.checked_sub(1) else {
            assert_eq!(folded, Err(JournalError::Empty), "cut at {cut}");
            continue;
        };
        let expected = Replayed {
            state: journal.states[last].clone(),
            valid_bytes: journal.line_offsets[whole].min(cut),
            is_torn: !journal.line_offsets.contains(&cut),
        };
        assert_eq!(folded, Ok(expected), "cut at {cut}");
    }
}

/// Returns the journal after a crash and a takeover: with a newline after the torn line, and one
/// more record with the next sequence number.
fn append_after_crash(mut bytes: Vec<u8>, folded: &Replayed, record: &Record) -> Vec<u8> {
    if folded.is_torn {
        bytes.push(b'\n');
    }
    siding_model::record::write_line(&mut bytes, folded.state.next_seq, record);
    bytes
}

/// Returns a record that may follow a crash: a takeover, or the end of a task without processes.
/// `None` if the task has ended.
fn record_after_crash(state: &TaskState) -> Option<Record> {
    let vanished = TaskEvent::Vanished { why: "the machine was restarted".to_owned() };
    match (state.lifecycle.is_ended(), state.next_seq % 2) {
        (true, _) => None,
        (false, 0) => Some(sample_records::takeover_record(20_000)),
        (false, _) => Some(event_record(20_000, vanished)),
    }
}

#[test]
fn a_journal_resumed_after_any_crash_replays() {
    let journal = sample_journal();
    for cut in 0..=journal.bytes.len() {
        let bytes = journal.bytes[..cut].to_vec();
        let Ok(folded) = replay(&bytes) else { continue };
        let Some(record) = record_after_crash(&folded.state) else { continue };
        let mut expected = folded.state.clone();
        expected.apply(record.clone()).expect("a valid successor");
        let found = replay(&append_after_crash(bytes, &folded, &record)).map(|folded| folded.state);
        assert_eq!(found, Ok(expected), "cut at {cut}");
    }
}

/// The second shim may also crash, even while it writes its first line.
#[test]
fn a_journal_resumed_after_two_crashes_replays() {
    let journal = sample_journal();
    // Testing a cut at every byte takes minutes. A step of 41 bytes cuts in every part of a line
    // and in every type of line.
    for cut in (0..journal.bytes.len()).step_by(41) {
        let first = journal.bytes[..cut].to_vec();
        let Ok(folded) = replay(&first) else { continue };
        if folded.state.lifecycle.is_ended() {
            continue;
        }
        let second =
            append_after_crash(first.clone(), &folded, &sample_records::takeover_record(20_000));
        for again in (first.len()..second.len()).step_by(3) {
            let twice = second[..again].to_vec();
            let folded = match replay(&twice) {
                Ok(folded) => folded,
                // Two torn lines at the end cannot be distinguished from damage to the last record:
                // only a complete line after them would show its sequence number. The error must
                // name the right record.
                Err(JournalError::Corrupt { seq, .. }) => {
                    assert_eq!(seq, folded.state.next_seq, "cut at {cut}, {again}");
                    continue;
                }
                Err(error) => panic!("cut at {cut}, {again}: {error}"),
            };
            let third =
                append_after_crash(twice, &folded, &sample_records::takeover_record(30_000));
            let mut expected = folded.state.clone();
            expected.apply(sample_records::takeover_record(30_000)).expect("a valid successor");
            let found = replay(&third).map(|folded| folded.state);
            assert_eq!(found, Ok(expected), "cut at {cut}, {again}");
        }
    }
}

/// CRC-32 detects a change of any byte. A damaged complete record is not mistaken for a torn line,
/// because no later record reuses its sequence number.
#[test]
fn every_damaged_byte_is_detected() {
    let journal = sample_journal();
    let last = journal.bytes.len() - 1;
    for (at, byte) in journal.bytes.iter().copied().enumerate() {
        for damage in [byte ^ 1, byte ^ 0x20, b'\n', b'0', 0, 0xff] {
            let mut bytes = journal.bytes.clone();
            bytes[at] = damage;
            if damage == byte {
                continue;
            }
            let folded = replay(&bytes);
            if at == last {
                // A last line without its newline is treated as torn if its checksum is wrong.
                let before = &journal.states[journal.states.len() - 2];
                assert_eq!(folded.map(|folded| folded.state).as_ref(), Ok(before));
                continue;
            }
            let record = journal.record_at(at);
            let found = folded.expect_err("damage is found");
            let JournalError::Corrupt { seq, offset, .. } = found else {
                panic!("byte {at} as {damage}: {found}");
            };
            assert_eq!((seq, offset), (record as u64, journal.line_offsets[record]), "byte {at}");
        }
    }
}

#[test]
fn damage_is_harmless_only_within_a_torn_line() {
    let records = sample_records::full_journal();
    let lines = sample_records::journal_lines(&records);
    let whole = lines[..3].concat();
    let torn = [whole.as_slice(), &lines[3][..30]].concat();
    let folded = replay(&torn).expect("a torn line is not an error");
    let bytes = append_after_crash(torn.clone(), &folded, &sample_records::takeover_record(3_000));
    let expected = replay(&bytes).expect("the resumed journal is valid").state;
    // Damage in the torn line changes nothing; damage to its newline joins the line with the next
    // record.
    let harmless = whole.len()..torn.len();
    for at in 0..bytes.len() - 1 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x01;
        match replay(&damaged) {
            Ok(folded) => {
                assert!(harmless.contains(&at), "damage to byte {at} was not detected");
                assert_eq!(folded.state, expected);
            }
            Err(JournalError::Corrupt { .. }) => {
                assert!(!harmless.contains(&at), "harmless damage to byte {at} was reported");
            }
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

/// A damaged line is ignored only if the next record reuses its sequence number: this proves that
/// the line was never complete, and that siding did not act on it.
#[test]
fn a_damaged_complete_line_is_always_an_error() {
    let lines = sample_records::journal_lines(&sample_records::full_journal());
    for damaged in 1..lines.len() {
        let mut bytes = lines.clone();
        bytes[damaged][20] ^= 0x40;
        let found = replay(&bytes.concat()).expect_err("it is damaged");
        let offset = lines[..damaged].concat().len();
        let why = "the line is damaged".to_owned();
        assert_eq!(found, JournalError::Corrupt { seq: damaged as u64, offset, why });
    }
}

#[test]
fn bytes_that_are_not_a_journal_are_rejected() {
    assert_eq!(replay(b""), Err(JournalError::Empty));
    assert_eq!(replay(b"no newline"), Err(JournalError::Empty));
    for bytes in [&b"\n"[..], b"\n\n\n", b"hello\n", &[0; 4096], &[0xff; 64]] {
        match replay(bytes) {
            Err(JournalError::Corrupt { seq: 0, offset: 0, .. } | JournalError::Empty) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A journal with many damaged lines must be read in linear time, whether or not a valid record
/// follows them.
#[test]
fn many_damaged_lines_are_read_in_linear_time() {
    let lines = sample_records::journal_lines(&sample_records::full_journal()[..2]);
    let mut bytes = [lines[0].clone(), vec![b'\n'; 1 << 20]].concat();
    assert!(matches!(replay(&bytes), Err(JournalError::Corrupt { seq: 1, .. })));
    bytes.extend(&lines[1]);
    assert!(replay(&bytes).is_ok());
}
