//! Journals that a crash cut or a disk damaged: never a panic, never an invention.

use siding_model::journal::{Folded, JournalError, TaskState, fold};
use siding_model::lifecycle::Event;
use siding_model::record::Record;

use crate::sample::{self, event};

/// A journal of many records, where each begins, and what it tells up to each.
struct Journal {
    bytes: Vec<u8>,
    /// Offset at which each line begins, and the end.
    begins: Vec<usize>,
    /// The state after each record.
    states: Vec<TaskState>,
}

fn journal() -> Journal {
    let records = sample::long_life();
    let lines = sample::lines(&records);
    let mut begins = vec![0];
    begins.extend(lines.iter().scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    }));
    Journal { bytes: lines.concat(), begins, states: sample::states(&records) }
}

impl Journal {
    /// Returns how many records are whole in so many bytes. A record of which only the newline is
    /// missing is whole.
    fn whole(&self, bytes: usize) -> usize {
        self.begins[1..].iter().filter(|end| **end <= bytes + 1).count()
    }

    /// Returns the record to which the byte belongs.
    fn record_at(&self, byte: usize) -> usize {
        self.begins.iter().rposition(|begin| *begin <= byte).expect("the first begins at 0")
    }
}

#[test]
fn every_prefix_tells_what_its_whole_records_tell() {
    let journal = journal();
    for cut in 0..=journal.bytes.len() {
        let whole = journal.whole(cut);
        let folded = fold(&journal.bytes[..cut]);
        let Some(last) = whole.checked_sub(1) else {
            assert_eq!(folded, Err(JournalError::Empty), "cut at {cut}");
            continue;
        };
        let expected = Folded {
            state: journal.states[last].clone(),
            whole: journal.begins[whole].min(cut),
            torn: !journal.begins.contains(&cut),
        };
        assert_eq!(folded, Ok(expected), "cut at {cut}");
    }
}

/// Returns what somebody who goes on after a crash has on the disk: a newline after what was torn,
/// and one more record with the next number.
fn resumed(mut bytes: Vec<u8>, folded: &Folded, record: &Record) -> Vec<u8> {
    if folded.torn {
        bytes.push(b'\n');
    }
    siding_model::record::write_line(&mut bytes, folded.state.next_seq, record);
    bytes
}

/// Returns what may follow a crash: another shim, or the one who finds nothing left.
fn next_after(state: &TaskState) -> Option<Record> {
    let vanished = Event::Vanished { why: "the machine was restarted".to_owned() };
    match (state.life.is_ended(), state.next_seq % 2) {
        (true, _) => None,
        (false, 0) => Some(sample::rescued(20_000)),
        (false, _) => Some(event(20_000, vanished)),
    }
}

#[test]
fn whoever_goes_on_after_any_crash_is_understood() {
    let journal = journal();
    for cut in 0..=journal.bytes.len() {
        let bytes = journal.bytes[..cut].to_vec();
        let Ok(folded) = fold(&bytes) else { continue };
        let Some(record) = next_after(&folded.state) else { continue };
        let mut expected = folded.state.clone();
        expected.apply(record.clone()).expect("it can follow");
        let found = fold(&resumed(bytes, &folded, &record)).map(|folded| folded.state);
        assert_eq!(found, Ok(expected), "cut at {cut}");
    }
}

/// The one who goes on may crash as well, also in the middle of its first line.
#[test]
fn crashes_upon_crashes_are_understood() {
    let journal = journal();
    // Every cut would be minutes; these are in every part of a line, and of every kind of line.
    for cut in (0..journal.bytes.len()).step_by(41) {
        let first = journal.bytes[..cut].to_vec();
        let Ok(folded) = fold(&first) else { continue };
        if folded.state.life.is_ended() {
            continue;
        }
        let second = resumed(first.clone(), &folded, &sample::rescued(20_000));
        for again in (first.len()..second.len()).step_by(3) {
            let twice = second[..again].to_vec();
            let folded = match fold(&twice) {
                Ok(folded) => folded,
                // Two torn lines, and nothing whole after them, look like damage to the last record
                // of all. A third one is needed to tell, so this must at least be said.
                Err(JournalError::Corrupt { seq, .. }) => {
                    assert_eq!(seq, folded.state.next_seq, "cut at {cut}, {again}");
                    continue;
                }
                Err(error) => panic!("cut at {cut}, {again}: {error}"),
            };
            let third = resumed(twice, &folded, &sample::rescued(30_000));
            let mut expected = folded.state.clone();
            expected.apply(sample::rescued(30_000)).expect("it can follow");
            let found = fold(&third).map(|folded| folded.state);
            assert_eq!(found, Ok(expected), "cut at {cut}, {again}");
        }
    }
}

/// CRC-32 finds every change of one byte, and a record that was whole has used its number up.
#[test]
fn every_damaged_byte_is_found() {
    let journal = journal();
    let last = journal.bytes.len() - 1;
    for (at, byte) in journal.bytes.iter().copied().enumerate() {
        for damage in [byte ^ 1, byte ^ 0x20, b'\n', b'0', 0, 0xff] {
            let mut bytes = journal.bytes.clone();
            bytes[at] = damage;
            if damage == byte {
                continue;
            }
            let folded = fold(&bytes);
            if at == last {
                // Without its newline the last line is as good as torn.
                let before = &journal.states[journal.states.len() - 2];
                assert_eq!(folded.map(|folded| folded.state).as_ref(), Ok(before));
                continue;
            }
            let record = journal.record_at(at);
            let found = folded.expect_err("damage is found");
            let JournalError::Corrupt { seq, offset, .. } = found else {
                panic!("byte {at} as {damage}: {found}");
            };
            assert_eq!((seq, offset), (record as u64, journal.begins[record]), "byte {at}");
        }
    }
}

#[test]
fn damage_around_a_torn_line_is_found_and_in_it_harmless() {
    let records = sample::long_life();
    let lines = sample::lines(&records);
    let whole = lines[..3].concat();
    let torn = [whole.as_slice(), &lines[3][..30]].concat();
    let folded = fold(&torn).expect("a torn line is no damage");
    let bytes = resumed(torn.clone(), &folded, &sample::rescued(3_000));
    let expected = fold(&bytes).expect("it was resumed").state;
    // Bytes of the torn line itself say nothing; its newline divides it from what does.
    let harmless = whole.len()..torn.len();
    for at in 0..bytes.len() - 1 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x01;
        match fold(&damaged) {
            Ok(folded) => {
                assert!(harmless.contains(&at), "byte {at} was not noticed");
                assert_eq!(folded.state, expected);
            }
            Err(JournalError::Corrupt { .. }) => {
                assert!(!harmless.contains(&at), "byte {at} says nothing");
            }
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

/// A damaged line is forgiven only if nobody can have acted on it: its number is used again.
#[test]
fn a_damaged_line_that_was_once_whole_is_never_forgiven() {
    let lines = sample::lines(&sample::long_life());
    for damaged in 1..lines.len() {
        let mut bytes = lines.clone();
        bytes[damaged][20] ^= 0x40;
        let found = fold(&bytes.concat()).expect_err("it is damaged");
        let offset = lines[..damaged].concat().len();
        let why = "the line is damaged".to_owned();
        assert_eq!(found, JournalError::Corrupt { seq: damaged as u64, offset, why });
    }
}

#[test]
fn bytes_that_never_were_a_journal_are_refused() {
    assert_eq!(fold(b""), Err(JournalError::Empty));
    assert_eq!(fold(b"no newline"), Err(JournalError::Empty));
    for bytes in [&b"\n"[..], b"\n\n\n", b"hello\n", &[0; 4096], &[0xff; 64]] {
        match fold(bytes) {
            Err(JournalError::Corrupt { seq: 0, offset: 0, .. } | JournalError::Empty) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A journal made of newlines must not take the square of its length to refuse.
#[test]
fn many_damaged_lines_are_read_once() {
    let lines = sample::lines(&sample::long_life()[..2]);
    let mut bytes = [lines[0].clone(), vec![b'\n'; 1 << 20]].concat();
    assert!(matches!(fold(&bytes), Err(JournalError::Corrupt { seq: 1, .. })));
    bytes.extend(&lines[1]);
    assert!(fold(&bytes).is_ok());
}
