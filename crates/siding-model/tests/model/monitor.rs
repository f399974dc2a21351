//! Which lines are told when: rules over random histories.

use proptest::prelude::*;
use siding_model::monitor::{Coalescer, Monitor, Told};
use siding_model::process::Mono;

const EVERY: u64 = Monitor::EVERY_MS;
const BURST: u64 = Monitor::BURST as u64;

fn fresh() -> Coalescer {
    Coalescer::new(&Monitor::new(None), 0, Mono(0))
}

fn all_due(coalescer: &mut Coalescer, now: Mono) -> Vec<Told> {
    std::iter::from_fn(|| coalescer.due(now)).collect()
}

/// Pauses before lines, and the lines.
fn histories() -> impl Strategy<Value = Vec<(u64, Vec<String>)>> {
    let line = prop_oneof![
        4 => "[a-z]{0,20}",
        1 => "[äö🚂]{100,400}",
    ];
    let lines = prop::collection::vec(line, 0..12);
    let pause = prop_oneof![0..50_u64, 0..8_000_u64];
    prop::collection::vec((pause, lines), 0..40)
}

proptest! {
    /// Every line is told, once, in order; of its text only what had no place is missing; and
    /// never more often than promised.
    #[test]
    fn no_line_is_forgotten_and_no_rate_exceeded(history in histories()) {
        let mut coalescer = fresh();
        let (mut now, mut offset) = (Mono(0), 0);
        let mut lines: Vec<String> = Vec::new();
        let mut told: Vec<(Mono, Told)> = Vec::new();
        for (pause, texts) in history {
            let until = now.plus_ms(pause);
            // As the one who holds it does: back when it says so.
            while let Some(at) = coalescer.wake_at().filter(|at| *at <= until) {
                now = now.max(at);
                let due = all_due(&mut coalescer, now);
                prop_assert!(!due.is_empty(), "woken for nothing at {now:?}");
                told.extend(due.into_iter().map(|one| (now, one)));
            }
            now = until;
            for text in texts {
                offset += text.len() as u64 + 1;
                coalescer.line(&text, offset);
                lines.push(text);
            }
            told.extend(all_due(&mut coalescer, now).into_iter().map(|one| (now, one)));
        }
        let in_time = told.len();
        told.extend(coalescer.rest().map(|one| (now, one)));
        prop_assert_eq!(coalescer.rest(), None);
        let mut at = 0;
        for (_, one) in &told {
            prop_assert!(one.text.len() <= Monitor::TEXT_MAX, "{} bytes", one.text.len());
            prop_assert!(one.dropped < one.lines, "the last line is always there");
            let (from, to) = (at + one.dropped as usize, at + one.lines as usize);
            let shown: Vec<&str> = one.text.split('\n').collect();
            prop_assert_eq!(shown.len(), to - from);
            for (shown, line) in shown.iter().zip(&lines[from..to]) {
                prop_assert!(line.starts_with(shown), "{shown} of {line}");
            }
            at = to;
            prop_assert_eq!(one.to, lines[..to].iter().map(|line| line.len() as u64 + 1).sum::<u64>());
        }
        prop_assert_eq!(at, lines.len());
        // In any span no more than a burst and one for each period that fits.
        for first in 0..in_time {
            for last in first..in_time {
                let span = told[last].0.ms_since(told[first].0);
                let count = (last - first + 1) as u64;
                prop_assert!(count <= BURST + span / EVERY, "{count} within {span} ms");
            }
        }
    }
}

#[test]
fn a_few_lines_come_one_by_one_and_then_once_a_second() {
    let mut coalescer = fresh();
    for number in 0..8 {
        coalescer.line(&format!("line {number}"), number);
    }
    let told = all_due(&mut coalescer, Mono(10));
    let texts: Vec<&str> = told.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["line 0", "line 1", "line 2", "line 3", "line 4\nline 5\nline 6\nline 7"]);
    assert_eq!((told[4].lines, told[4].dropped, told[4].to), (4, 0, 7));
    coalescer.line("late", 8);
    assert_eq!(all_due(&mut coalescer, Mono(1_009)), []);
    assert_eq!(coalescer.wake_at(), Some(Mono(1_010)));
    assert_eq!(all_due(&mut coalescer, Mono(1_010)).len(), 1);
    assert_eq!(coalescer.wake_at(), None);
}

/// PAINS F10: a flood is told in one record with its count, and leaves the rest of the burst.
#[test]
fn a_flood_is_one_record_with_its_count() {
    let mut coalescer = fresh();
    for number in 0..100_000_u64 {
        coalescer.line(&format!("error number {number}"), number);
    }
    let told = all_due(&mut coalescer, Mono(10));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].lines, told[0].to), (100_000, 99_999));
    assert!(told[0].text.ends_with("error number 99998\nerror number 99999"));
    assert_eq!(told[0].dropped + told[0].text.lines().count() as u64, 100_000);
    coalescer.line("after", 100_000);
    assert_eq!(coalescer.due(Mono(10)).map(|one| one.text), Some("after".to_owned()));
}

/// A journal stays readable whatever the cap on a task's life is.
#[test]
fn after_many_records_one_a_minute_is_written() {
    let mut coalescer = Coalescer::new(&Monitor::new(None), Monitor::MANY, Mono(0));
    let mut written = 0;
    for second in 0..3_600 {
        coalescer.line("x", second);
        written += all_due(&mut coalescer, Mono(second * 1_000)).len();
    }
    assert_eq!(written, 5 + 59);
}
