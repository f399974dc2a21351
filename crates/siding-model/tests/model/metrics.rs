//! The counts of journals, and the text of the metrics.

use std::collections::BTreeSet;

use siding_model::activity::ReapedProcess;
use siding_model::history::Run;
use siding_model::metrics::{
    CounterName, KeptTask, KeptTotals, MetricsSnapshot, Tally, format_metrics, outcome_label,
};
use siding_model::notice::Consumer;
use siding_model::outcome::Outcome;
use siding_model::record::{self, Record};
use siding_model::task_view::PhaseName;

use crate::sample_records;

fn count(tally: &Tally, name: CounterName, label: &str) -> u64 {
    let found = tally.iter().find(|(counter, text, _)| *counter == name && *text == label);
    found.map_or(0, |(.., count)| count)
}

fn sample_journal() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (seq, record) in (0..).zip(sample_records::full_journal()) {
        record::write_line(&mut bytes, seq, &record);
    }
    bytes
}

/// Each prefix of a journal is the journal at an earlier time, so a count that fell between two
/// prefixes would be a counter that falls while a task runs.
#[test]
fn no_count_falls_while_a_journal_grows() {
    let bytes = sample_journal();
    let mut previous = Tally::default();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    for end in ends {
        let (_, tally) = Tally::from_journal(&bytes[..end]).expect("a journal");
        for (name, label, before) in previous.iter() {
            assert!(count(&tally, name, label) >= before, "{name:?} {label} at byte {end}");
        }
        previous = tally;
    }
    let counted: BTreeSet<CounterName> = previous.iter().map(|(name, ..)| name).collect();
    for name in [CounterName::Started, CounterName::Ended, CounterName::OutputBytes] {
        assert!(counted.contains(&name), "{name:?} in {previous:?}");
    }
}

#[test]
fn a_run_and_its_journal_give_the_same_outcome_counts() {
    let (state, tally) = Tally::from_journal(&sample_journal()).expect("a journal");
    let run = Tally::from_run(&Run::from_state(&state).expect("an ended task"));
    for (name, label, from_run) in run.iter() {
        assert_eq!(count(&tally, name, label), from_run, "{name:?} {label}");
    }
}

#[test]
fn stored_names_of_counters_are_distinct() {
    let names: BTreeSet<&str> = CounterName::ALL.iter().map(|name| name.as_str()).collect();
    assert_eq!(names.len(), CounterName::ALL.len());
    for name in CounterName::ALL {
        assert_eq!(CounterName::from_stored(name.as_str()), Some(name));
    }
    assert_eq!(CounterName::from_stored("a counter of a newer siding"), None);
}

/// Callers choose the names of requesters and consumers, so these names must not become labels.
#[test]
fn names_that_callers_choose_have_a_common_label() {
    let outcome = Outcome::Stopped { by: "a\"}\nsiding_evil 1".to_owned() };
    assert_eq!(outcome_label(&outcome), "stopped");
    let run = Run { outcome: outcome.clone(), ..sample_run() };
    let mut kept = KeptTotals::default();
    for name in ["agent", "caller", "my-consumer"] {
        kept.add_task(&KeptTask {
            phase: PhaseName::Ended,
            outcome: Some(outcome.clone()),
            stalled: None,
            pending: Vec::new(),
            delivered: vec![Some(name.parse::<Consumer>().expect("a consumer"))],
            uncounted: Some(Tally::from_run(&run)),
        });
    }
    let text = format_metrics(&MetricsSnapshot { kept, version: "1", ..Default::default() });
    for line in [
        "siding_tasks_stopped_total{cause=\"other\"} 3",
        "siding_notices_delivered{consumer=\"agent\"} 1",
        "siding_notices_delivered{consumer=\"caller\"} 0",
        "siding_notices_delivered{consumer=\"other\"} 2",
        "siding_tasks{state=\"ended\",outcome=\"stopped\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("evil") && !text.contains("my-consumer"), "{text}");
}

#[test]
fn names_of_reaper_rules_are_escaped_and_their_number_is_limited() {
    let reaped = (0..80).map(|number| ReapedProcess {
        at: "2026-11-22T03:00:00.000Z".to_owned(),
        rule: format!("r{number}\"\\\n\u{1b}"),
        process: (number, 1),
        command: String::new(),
    });
    let reaped = reaped.flat_map(|signal| [signal.clone(), signal]).collect();
    let text = format_metrics(&MetricsSnapshot { reaped, version: "1", ..Default::default() });
    let samples: Vec<&str> =
        text.lines().filter(|line| line.starts_with("siding_reaped_processes{")).collect();
    assert_eq!(samples.len(), 51, "{samples:#?}");
    assert!(samples.contains(&"siding_reaped_processes{rule=\"other\"} 30"), "{samples:#?}");
    assert!(samples.iter().any(|line| line.contains(r#"{rule="r7\"\\\n"#)), "{samples:#?}");
    assert!(!text.contains('\u{1b}'));
}

/// The sum, the count and the last bucket of each histogram agree with the counts.
#[test]
fn durations_are_cumulative() {
    let mut history = Tally::default();
    for ran_ms in [0, 100, 101, 59_999, 60_001, 90_000_000] {
        history.add_all(&Tally::from_run(&Run { ran_ms: Some(ran_ms), ..sample_run() }));
    }
    let text = format_metrics(&MetricsSnapshot { history, version: "1", ..Default::default() });
    for (bound, count) in [("0.1", 2), ("0.5", 3), ("15", 3), ("60", 4), ("86400", 5), ("+Inf", 6)]
    {
        let line = format!(
            "siding_task_duration_seconds_bucket{{outcome=\"succeeded\",le=\"{bound}\"}} {count}"
        );
        assert!(text.contains(&line), "{line} in\n{text}");
    }
    assert!(text.contains("_sum{outcome=\"succeeded\"} 90120.201\n"), "{text}");
    assert!(text.contains("_count{outcome=\"succeeded\"} 6\n"), "{text}");
}

fn sample_run() -> Run {
    let (state, _) = Tally::from_journal(&sample_journal()).expect("a journal");
    let run = Run::from_state(&state).expect("an ended task");
    Run { outcome: Outcome::Exited { code: 0 }, ..run }
}

/// Every record type is either counted or known not to be.
#[test]
fn stalls_limits_and_takeovers_are_counted() {
    let (_, tally) = Tally::from_journal(&sample_journal()).expect("a journal");
    let records = sample_records::full_journal();
    let number =
        |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count() as u64;
    let total = |name| tally.iter().filter(|(counter, ..)| *counter == name).map(|(.., n)| n).sum();
    assert_eq!(number(|r| matches!(r, Record::Stalled(_))), total(CounterName::Stalls));
    let breaches: u64 = total(CounterName::LimitBreaches);
    let watchdogs: u64 = total(CounterName::WatchdogBreaches);
    assert_eq!(number(|r| matches!(r, Record::Limit(_))), breaches + watchdogs);
    assert_eq!(number(|r| matches!(r, Record::Rescued { .. })), total(CounterName::Takeovers));
}
