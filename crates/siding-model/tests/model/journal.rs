//! What whole journals tell: the same as the events did, and nothing that cannot have happened.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use siding_model::journal::{Folded, JournalError, TaskState, fold};
use siding_model::lifecycle::{Event, Life, Phase, Tree};
use siding_model::outcome::{Outcome, Why};
use siding_model::process::Mono;
use siding_model::record::{
    self, Accepted, Adopted, FORMAT, NEWEST, Record, WITH_EXPIRING, WITH_READY, WITH_RELEASED,
    WITH_RESUMED,
};
use siding_model::spec::{Stdin, TaskSpec};

use crate::history::{self, Act, Story};
use crate::sample::{self, STARTED, event, stop};

#[test]
fn a_whole_journal_tells_what_its_records_tell() {
    let records = sample::long_life();
    let bytes = sample::lines(&records).concat();
    let state = sample::states(&records).pop().expect("there are records");
    assert_eq!(fold(&bytes), Ok(Folded { state, whole: bytes.len(), torn: false }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Differential: a life that went through a journal is the life that was lived.
    #[test]
    fn a_folded_life_is_the_lived_life(story in history::stories()) {
        let (life, records) = live(&story);
        let lines = sample::lines(&records);
        let folded = fold(&lines.concat());
        let state = folded.as_ref().map(|folded| &folded.state);
        prop_assert_eq!(state.map(|state| &state.life), Ok(&life));
        let states = sample::states(&records);
        prop_assert_eq!(state, Ok(states.last().expect("there are records")));
    }

    /// An event that changed nothing was never recorded, so finding one is finding corruption.
    #[test]
    fn an_event_that_changes_nothing_is_corruption(
        story in history::stories(),
        idle in history::events(),
    ) {
        let (life, mut records) = live(&story);
        let at = last_moment(&records);
        prop_assume!(life.step(&idle, at).0 == life);
        let seq = records.len() as u64;
        let offset = sample::lines(&records).concat().len();
        records.push(Record::Event { at, event: idle });
        let error = fold(&sample::lines(&records).concat()).expect_err("it cannot have happened");
        prop_assert!(
            matches!(&error, JournalError::Corrupt { seq: s, offset: o, why }
                if (*s, *o) == (seq, offset) && why.contains("cannot follow")),
            "{error}"
        );
    }
}

/// Lives a story and returns the life with what a shim would have recorded of it.
fn live(story: &Story) -> (Life, Vec<Record>) {
    let mut records = vec![Record::Accepted(Box::new(sample::accepted(story.spec.clone())))];
    let mut life = Life::new(&story.spec, STARTED);
    let mut now = STARTED;
    for step in &story.moves {
        now = now.plus_ms(step.wait_ms);
        let event = match &step.act {
            Act::Tell(Event::Extended { deadline }) => {
                Event::Extended { deadline: STARTED.plus_ms(deadline.0) }
            }
            Act::Tell(event) => event.clone(),
            Act::SleepUntilWoken => {
                now = life.wake_at().map_or(now, |at| at.max(now));
                let Some(event) = life.due(now) else { continue };
                event
            }
        };
        let (next, effects) = life.step(&event, now);
        if !effects.is_empty() {
            records.push(Record::Event { at: now, event });
        }
        life = next;
    }
    (life, records)
}

fn last_moment(records: &[Record]) -> Mono {
    match records.last() {
        Some(Record::Event { at, .. } | Record::Rescued { at, .. }) => *at,
        Some(
            Record::Accepted(_)
            | Record::OutputLost { .. }
            | Record::Matched { .. }
            | Record::Stalled(_)
            | Record::Resumed { .. }
            | Record::Limit(_)
            | Record::Expiring { .. }
            | Record::Ready(_)
            | Record::Denied { .. }
            | Record::Closed(_),
        )
        | None => STARTED,
    }
}

#[test]
fn what_cannot_have_happened_is_corruption_with_its_place() {
    let first = || Record::Accepted(Box::new(sample::accepted(sample::spec())));
    let spawned = || event(3, Event::Spawned { leader: sample::LEADER });
    let ended = || event(9, sample::exited(0, Tree::Empty));
    let ready = || sample::ready(20);
    let cases: [(&str, Vec<Record>); 12] = [
        ("a second `accepted`", vec![first(), first()]),
        ("`closed` before the end", vec![first(), spawned(), sample::closed(5)]),
        ("or twice", vec![first(), spawned(), ended(), sample::closed(9), sample::closed(9)]),
        ("`rescued` after the end", vec![first(), spawned(), ended(), sample::rescued(20)]),
        ("`matched` after the end", vec![first(), spawned(), ended(), sample::matched(20, 1)]),
        ("`ready` after the end", vec![first(), spawned(), ended(), ready()]),
        ("or twice", vec![first(), spawned(), ready(), ready()]),
        ("cannot follow", vec![first(), spawned(), spawned()]),
        ("cannot follow", vec![first(), event(1, Event::TreeEmpty)]),
        ("cannot follow", vec![first(), event(59_999, Event::DeadlinePassed)]),
        (
            "cannot follow",
            vec![first(), spawned(), event(5, stop("user")), event(6, Event::GraceOver)],
        ),
        ("cannot follow", vec![first(), spawned(), ended(), event(10, stop("user"))]),
    ];
    for (expected, records) in cases {
        let lines = sample::lines(&records);
        let (last, before) = lines.split_last().expect("there are records");
        // Everything before it is fine, so it is the last one that is found.
        assert!(fold(&before.concat()).is_ok(), "{records:#?}");
        assert_corrupt(
            &[before.concat(), last.clone()].concat(),
            before.len(),
            before.concat().len(),
            expected,
        );
    }
}

#[test]
fn numbers_are_contiguous_from_zero() {
    let mut records = sample::long_life();
    let line = |seq, record: &Record| {
        let mut line = Vec::new();
        record::write_line(&mut line, seq, record);
        line
    };
    let begin = [line(0, &records[0]), line(1, &records[1])].concat();
    for wrong in [0, 1, 3, u64::MAX] {
        let bytes = [begin.clone(), line(wrong, &records[2])].concat();
        assert_corrupt(&bytes, 2, begin.len(), &format!("number {wrong} where 2 should be"));
    }
    assert_corrupt(&line(1, &records[0]), 0, 0, "`accepted` number 0");
    let headless = sample::lines(&records.split_off(1)).concat();
    assert_corrupt(&headless, 0, 0, "no format number");
}

#[test]
fn a_newer_format_is_told_apart_before_anything_else_is_read() {
    let newer = NEWEST + 1;
    let mut line = Vec::new();
    record::write_line(&mut line, 0, &json!({"record": "taken_on", "format": newer, "spec": []}));
    for rest in ["", "not a line at all\n", "\0\n\n"] {
        let bytes = [line.as_slice(), rest.as_bytes()].concat();
        assert_eq!(fold(&bytes), Err(JournalError::TooNew { found: newer }));
    }
    let error = fold(&line).expect_err("it is too new").to_string();
    let said = [format!("format {newer}"), format!("up to {NEWEST}")];
    assert!(said.iter().all(|part| error.contains(part)), "{error}");
}

/// A program of format 1 knows no `ready`. It would take a journal that has one for a damaged one,
/// and the task's files away; one of a newer format it leaves alone.
#[test]
fn only_a_task_that_may_become_ready_is_of_the_newer_format() {
    assert_eq!(record::format_for(&sample::spec(), None), FORMAT);
    let awaited = TaskSpec { wait_for: vec![sample::port()], ..sample::spec() };
    assert_eq!(record::format_for(&awaited, None), WITH_READY);
    let first = Accepted { format: WITH_READY, ..sample::accepted(awaited) };
    let bytes = sample::lines(&[Record::Accepted(Box::new(first))]).concat();
    let line = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        line.contains(r#""format":2,"#) && line.contains(r#""wait_for":["port:3000"]"#),
        "{line}"
    );
    assert!(fold(&bytes).expect("it reads its own").state.awaits_ready());
    let plain = sample::lines(&[Record::Accepted(Box::new(sample::accepted(sample::spec())))]);
    assert!(!String::from_utf8_lossy(&plain.concat()).contains("wait_for"));
}

/// The same with `expiring`, which only a task has whose deadline may be ten minutes away.
#[test]
fn only_a_task_that_may_announce_its_deadline_is_of_the_newest_format() {
    let long = TaskSpec { cap_ms: 600_000, deadline_notice_ms: 120_000, ..sample::spec() };
    assert_eq!(record::format_for(&long, None), WITH_EXPIRING);
    let short = TaskSpec { cap_ms: 599_999, ..long.clone() };
    let never = TaskSpec { deadline_notice_ms: 0, ..long };
    for spec in [short, never] {
        assert_eq!(record::format_for(&spec, None), FORMAT);
    }
}

/// The same with `resumed`, which only a task has that can be answered or writes elsewhere. In a
/// journal of an older format, which a rescuer of this build goes on with, it is not written.
#[test]
fn only_a_task_that_may_resume_unseen_is_of_a_format_that_says_so() {
    let piped = TaskSpec { stdin: Stdin::Pipe, ..sample::spec() };
    let format = record::format_for(&piped, None);
    assert_eq!(format, WITH_RESUMED);
    let state = |format| TaskState::new(Accepted { format, ..sample::accepted(piped.clone()) });
    assert!(state(format).may_resume() && !state(WITH_READY).may_resume());
    let mut state = state(format);
    for record in [
        event(3, Event::Spawned { leader: sample::LEADER }),
        Record::Stalled(Box::new(sample::stalled(2_700))),
    ] {
        state.apply(record).expect("it can follow");
    }
    assert!(state.stalled.is_some());
    state.apply(sample::resumed(3_000)).expect("it can follow");
    assert_eq!(state.stalled, None);
    state.apply(event(9_000, sample::exited(0, Tree::Empty))).expect("it can follow");
    assert!(!state.may_resume());
}

/// A later release of the same format may say more in a record; older ones go on reading.
#[test]
fn unknown_fields_are_ignored_wherever_they_are() {
    let records = sample::long_life();
    let mut bytes = Vec::new();
    for (seq, record) in (0..).zip(&records) {
        record::write_line(&mut bytes, seq, &with_unknown_fields(record));
    }
    let state: TaskState = sample::states(&records).pop().expect("there are records");
    assert_eq!(fold(&bytes).map(|folded| folded.state), Ok(state));
}

/// Returns the record with one more field in each of its objects.
pub(crate) fn with_unknown_fields(record: &Record) -> Value {
    fn add(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(add);
                fields.insert("x_unknown".to_owned(), json!({"of": ["a", "later", "release", 1]}));
            }
            Value::Array(items) => items.iter_mut().for_each(add),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut value = serde_json::to_value(record).expect("a record serializes");
    add(&mut value);
    value
}

/// A kind of record is not a field: what it says cannot be left out of the state.
#[test]
fn an_unknown_kind_in_a_known_format_is_named() {
    let begin = sample::lines(&sample::long_life()[..2]).concat();
    let cases = [
        (json!({"record": "checkpoint", "at": 1}), "checkpoint"),
        (json!({"record": "event", "at": 1, "event": "frozen"}), "frozen"),
        (json!({"at": 1}), "record"),
        (json!("accepted"), "not understood"),
    ];
    for (unknown, named) in cases {
        let mut bytes = begin.clone();
        record::write_line(&mut bytes, 2, &unknown);
        assert_corrupt(&bytes, 2, begin.len(), named);
        assert_corrupt(&bytes, 2, begin.len(), "whole but not understood");
    }
}

/// What is on the disk of a user stays readable only if these words stay.
#[test]
fn the_words_on_the_disk_are_pinned() {
    let words: Vec<String> = sample::long_life()
        .iter()
        .map(|record| {
            let value = serde_json::to_value(record).expect("a record serializes");
            let keys = value.as_object().expect("an object").keys().cloned();
            // Which order an object keeps depends on what else is built (`preserve_order`).
            let keys: BTreeSet<String> = keys.collect();
            let kind = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            let kinds = kind("record").into_iter().chain(kind("event"));
            format!(
                "{}: {}",
                kinds.collect::<Vec<_>>().join(" "),
                keys.into_iter().collect::<Vec<_>>().join(" ")
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            "accepted: at boot cgroup format record shim spec wall",
            "event spawned: at event leader record",
            "event placed: at event record why",
            "event extended: at deadline event record",
            "output_lost: at error from record",
            "matched: at lines record text to",
            "matched: at dropped lines record text to",
            "stalled: advice at certainty chain cpu_permille output_bytes record silent_ms since_ms \
             tail verdict",
            "resumed: at record",
            "limit: at detail limit record remote value watchdog which",
            "ready: at by record",
            "event leader_ended: at end event final_cwd pipeline record tree",
            "rescued: at record shim",
            "event stop_asked: at by event record",
            "event grace_over: at event record",
            "event swept: at event record survivors",
            "closed: at output peaks proof record report wall",
        ]
    );
    let mut line = Vec::new();
    record::write_line(&mut line, 1, &event(3, Event::Spawned { leader: sample::LEADER }));
    assert_eq!(
        String::from_utf8_lossy(&line),
        "a99b1cbf 1 {\"record\":\"event\",\"at\":1000003,\"event\":\"spawned\",\
         \"leader\":{\"pid\":4243,\"start_ticks\":100002}}\n"
    );
}

fn assert_corrupt(bytes: &[u8], seq: usize, offset: usize, expected: &str) {
    let error = fold(bytes).expect_err(expected);
    let JournalError::Corrupt { seq: found, offset: at, why } = &error else {
        panic!("not corrupt but {error}, expected {expected}");
    };
    assert_eq!((*found, *at), (seq as u64, offset), "{error}");
    assert!(why.contains(expected), "`{why}` does not say `{expected}`");
}

/// A journal of any format may tell of a timeout: a reader that does not know it reads the budget.
#[test]
fn a_timeout_is_a_field_that_older_readers_ignore() {
    let placed = |why| event(7, Event::Placed { why });
    let json = |record: &Record| serde_json::to_value(record).expect("a record serializes");
    let told = json(&placed(Why::Timeout));
    let before = json(&placed(Why::Budget));
    assert_eq!((&told["why"], &told["timeout"]), (&before["why"], &json!(true)));
    assert!(before.get("timeout").is_none(), "{before}");
    for record in [placed(Why::Timeout), placed(Why::Budget), placed(Why::User)] {
        let read: Record = serde_json::from_value(json(&record)).expect("its own form");
        assert_eq!(read, record);
    }
}

/// An older program would end what carries the mark of an ended task. So it must not read that an
/// adopted task was given back, and leaves a journal alone that may say so.
#[test]
fn only_an_adopted_task_of_the_newest_format_can_be_released() {
    let adopted = Some(Adopted::default());
    let format = record::format_for(&sample::spec(), adopted.as_ref());
    assert_eq!(format, WITH_RELEASED);
    let state = |format, adopted| {
        TaskState::new(Accepted { format, adopted, ..sample::accepted(sample::spec()) })
    };
    assert!(state(format, adopted.clone()).may_release());
    assert!(!state(WITH_RESUMED, adopted.clone()).may_release());
    assert!(!state(format, None).may_release());
    let mut state = state(format, adopted);
    let by = "user".to_owned();
    for record in [
        event(3, Event::Spawned { leader: sample::LEADER }),
        event(9, Event::Released { by: by.clone() }),
    ] {
        state.apply(record).expect("it can follow");
    }
    assert!(!state.may_release() && !state.is_live());
    let Phase::Ended { outcome, leader: None } = state.life.phase() else { panic!("{state:?}") };
    assert_eq!(*outcome, Outcome::Released { by });
}
