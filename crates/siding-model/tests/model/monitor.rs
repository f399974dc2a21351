//! Tests of the monitor, which reports lines of output at a limited rate without losing their
//! count.

use proptest::prelude::*;
use siding_model::monitor::{LineBatch, LineCoalescer, Monitor};
use siding_model::process::MonotonicMs;

const INTERVAL_MS: u64 = Monitor::RECORD_INTERVAL_MS;
const BURST_RECORDS: u64 = Monitor::BURST_RECORDS as u64;

fn new_coalescer() -> LineCoalescer {
    LineCoalescer::new(&Monitor::new(None), 0, MonotonicMs(0))
}

fn drain_due(coalescer: &mut LineCoalescer, now: MonotonicMs) -> Vec<LineBatch> {
    std::iter::from_fn(|| coalescer.next_batch(now)).collect()
}

/// Generates histories of output: pauses in milliseconds, each with the lines that follow it.
fn any_history() -> impl Strategy<Value = Vec<(u64, Vec<String>)>> {
    let line = prop_oneof![
        4 => "[a-z]{0,20}",
        1 => "[äö🚂]{100,400}",
    ];
    let lines = prop::collection::vec(line, 0..12);
    let pause = prop_oneof![0..50_u64, 0..8_000_u64];
    prop::collection::vec((pause, lines), 0..40)
}

proptest! {
    /// Every line is counted once and in order, only text that does not fit into a record is
    /// missing, and the rate is never exceeded.
    #[test]
    fn no_line_is_lost_and_no_rate_exceeded(history in any_history()) {
        let mut coalescer = new_coalescer();
        let (mut now, mut offset) = (MonotonicMs(0), 0);
        let mut lines: Vec<String> = Vec::new();
        let mut batches: Vec<(MonotonicMs, LineBatch)> = Vec::new();
        for (pause, texts) in history {
            let until = now.plus_ms(pause);
            // The test wakes at the requested times, as a shim does.
            while let Some(at) = coalescer.wake_at().filter(|at| *at <= until) {
                now = now.max(at);
                let due = drain_due(&mut coalescer, now);
                prop_assert!(!due.is_empty(), "no record was due at {now:?}");
                batches.extend(due.into_iter().map(|one| (now, one)));
            }
            now = until;
            for text in texts {
                offset += text.len() as u64 + 1;
                coalescer.push_line(&text, offset);
                lines.push(text);
            }
            batches.extend(drain_due(&mut coalescer, now).into_iter().map(|one| (now, one)));
        }
        let in_time = batches.len();
        batches.extend(coalescer.flush().map(|one| (now, one)));
        prop_assert_eq!(coalescer.flush(), None);
        let mut at = 0;
        for (_, one) in &batches {
            prop_assert!(one.text.len() <= Monitor::MAX_TEXT_BYTES, "{} bytes", one.text.len());
            prop_assert!(one.dropped_lines < one.lines, "the last line is never dropped");
            let (from, to) = (at + one.dropped_lines as usize, at + one.lines as usize);
            let shown: Vec<&str> = one.text.split('\n').collect();
            prop_assert_eq!(shown.len(), to - from);
            for (shown, line) in shown.iter().zip(&lines[from..to]) {
                prop_assert!(line.starts_with(shown), "{shown} of {line}");
            }
            at = to;
            prop_assert_eq!(one.end_offset, lines[..to].iter().map(|line| line.len() as u64 + 1).sum::<u64>());
        }
        prop_assert_eq!(at, lines.len());
        // Any period contains at most a burst, plus one record for each interval in the period.
        for first in 0..in_time {
            for last in first..in_time {
                let span = batches[last].0.ms_since(batches[first].0);
                let count = (last - first + 1) as u64;
                prop_assert!(count <= BURST_RECORDS + span / INTERVAL_MS, "{count} within {span} ms");
            }
        }
    }
}

#[test]
fn lines_are_reported_singly_and_then_once_a_second() {
    let mut coalescer = new_coalescer();
    for number in 0..8 {
        coalescer.push_line(&format!("line {number}"), number);
    }
    let batches = drain_due(&mut coalescer, MonotonicMs(10));
    let texts: Vec<&str> = batches.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["line 0", "line 1", "line 2", "line 3", "line 4\nline 5\nline 6\nline 7"]);
    assert_eq!((batches[4].lines, batches[4].dropped_lines, batches[4].end_offset), (4, 0, 7));
    coalescer.push_line("late", 8);
    assert_eq!(drain_due(&mut coalescer, MonotonicMs(1_009)), []);
    assert_eq!(coalescer.wake_at(), Some(MonotonicMs(1_010)));
    assert_eq!(drain_due(&mut coalescer, MonotonicMs(1_010)).len(), 1);
    assert_eq!(coalescer.wake_at(), None);
}

/// Failure F48: a flood of lines must become one record with their number, which uses one record of
/// the burst.
#[test]
fn a_flood_is_one_record_with_its_count() {
    let mut coalescer = new_coalescer();
    for number in 0..100_000_u64 {
        coalescer.push_line(&format!("error number {number}"), number);
    }
    let batches = drain_due(&mut coalescer, MonotonicMs(10));
    assert_eq!(batches.len(), 1);
    assert_eq!((batches[0].lines, batches[0].end_offset), (100_000, 99_999));
    assert!(batches[0].text.ends_with("error number 99998\nerror number 99999"));
    assert_eq!(batches[0].dropped_lines + batches[0].text.lines().count() as u64, 100_000);
    coalescer.push_line("after", 100_000);
    assert_eq!(coalescer.next_batch(MonotonicMs(10)).map(|one| one.text), Some("after".to_owned()));
}

/// The journal must remain small even if a task reports lines for days.
#[test]
fn after_many_records_one_per_minute_is_written() {
    let mut coalescer =
        LineCoalescer::new(&Monitor::new(None), Monitor::SLOW_DOWN_AFTER_RECORDS, MonotonicMs(0));
    let mut written = 0;
    for second in 0..3_600 {
        coalescer.push_line("x", second);
        written += drain_due(&mut coalescer, MonotonicMs(second * 1_000)).len();
    }
    assert_eq!(written, 5 + 59);
}
