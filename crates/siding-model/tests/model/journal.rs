//! Tests of the replay of complete journals. A replay must reach the state that the live task had,
//! and reject impossible sequences of records.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use siding_model::evidence::WhyVerdict;
use siding_model::journal::{JournalError, Replayed, TaskState, replay};
use siding_model::lifecycle::{Lifecycle, Phase, TaskEvent, TreeLiveness};
use siding_model::outcome::{BackgroundReason, LimitKind, Outcome};
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::record::{
    self, AcceptedTask, AdoptionInfo, FORMAT_WITH_READY, FORMAT_WITH_RELEASED, FORMAT_WITH_RESUMED,
    NEWEST_FORMAT, Record,
};
use siding_model::spec::{StdinMode, TaskSpec};

use crate::random_histories::{self, EventHistory, StepAction};
use crate::sample_records::{self, STARTED, event_record, stop_event};

#[test]
fn a_complete_journal_replays_its_records() {
    let records = sample_records::full_journal();
    let bytes = sample_records::journal_lines(&records).concat();
    let state = sample_records::replay_states(&records).pop().expect("there are records");
    assert_eq!(replay(&bytes), Ok(Replayed { state, valid_bytes: bytes.len(), is_torn: false }));
}

/// A new shim does not observe whether a caller still waits, so the deadline counts from then on.
#[test]
fn a_takeover_starts_a_deadline_that_did_not_count() {
    let spec = TaskSpec { deadline_from_background: true, ..sample_records::task_spec() };
    let mut state = TaskState::new(sample_records::accepted_task(spec));
    assert_eq!(state.lifecycle.deadline(), None);
    state.apply(sample_records::takeover_record(90_000)).expect("the task is live");
    let deadline = STARTED.plus_ms(90_000 + state.spec.deadline_ms);
    assert_eq!(state.lifecycle.deadline(), Some(deadline));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A differential test of the replay against the live lifecycle that wrote the journal.
    #[test]
    fn a_replayed_lifecycle_equals_the_live_one(history in random_histories::any_history()) {
        let (life, records) = run_live(&history);
        let lines = sample_records::journal_lines(&records);
        let folded = replay(&lines.concat());
        let state = folded.as_ref().map(|folded| &folded.state);
        prop_assert_eq!(state.map(|state| &state.lifecycle), Ok(&life));
        let states = sample_records::replay_states(&records);
        prop_assert_eq!(state, Ok(states.last().expect("there are records")));
    }

    /// Promise P50: the wall-clock times in a journal are shown and decide nothing, so setting the
    /// time of day moves no deadline.
    #[test]
    fn wall_time_moves_no_deadline(
        history in random_histories::any_history(),
        wall in any::<i64>(),
    ) {
        let (life, mut records) = run_live(&history);
        for record in &mut records {
            if let Record::Accepted(accepted) = record {
                accepted.wall = UnixMs(wall);
            }
            if let Record::Closed(summary) = record {
                summary.wall = UnixMs(wall);
            }
        }
        let state = sample_records::replay_states(&records).pop().expect("there are records");
        prop_assert_eq!(state.lifecycle.wake_at(), life.wake_at());
        prop_assert_eq!(state.lifecycle, life);
    }

    /// An event without effect is never recorded, so a journal that contains one is corrupt.
    #[test]
    fn an_event_without_effect_is_corruption(
        history in random_histories::any_history(),
        idle in random_histories::any_event(),
    ) {
        let (life, mut records) = run_live(&history);
        let at = last_record_time(&records);
        prop_assume!(life.step(&idle, at).0 == life);
        let seq = records.len() as u64;
        let offset = sample_records::journal_lines(&records).concat().len();
        records.push(Record::Event { at, event: idle });
        let error = replay(&sample_records::journal_lines(&records).concat()).expect_err("an event without effect is corruption");
        prop_assert!(
            matches!(&error, JournalError::Corrupt { seq: s, offset: o, why }
                if (*s, *o) == (seq, offset) && why.contains("cannot follow")),
            "{error}"
        );
    }
}

/// Runs a history and returns the final lifecycle with the records that a shim would have written.
pub(crate) fn run_live(history: &EventHistory) -> (Lifecycle, Vec<Record>) {
    let mut records =
        vec![Record::Accepted(Box::new(sample_records::accepted_task(history.spec.clone())))];
    let mut life = Lifecycle::new(&history.spec, STARTED);
    let mut now = STARTED;
    for step in &history.steps {
        now = now.plus_ms(step.wait_ms);
        let event = match &step.action {
            StepAction::Deliver(TaskEvent::Extended { deadline, by, job_limit }) => {
                TaskEvent::Extended {
                    deadline: STARTED.plus_ms(deadline.0),
                    by: by.clone(),
                    job_limit: job_limit.clone(),
                }
            }
            StepAction::Deliver(event) => event.clone(),
            StepAction::SleepUntilTimer => {
                now = life.wake_at().map_or(now, |at| at.max(now));
                let Some(event) = life.due_event(now) else { continue };
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

fn last_record_time(records: &[Record]) -> MonotonicMs {
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
            | Record::Remote(_)
            | Record::Terminal(_)
            | Record::Closed(_),
        )
        | None => STARTED,
    }
}

#[test]
fn impossible_records_are_corruption_at_their_offset() {
    let first =
        || Record::Accepted(Box::new(sample_records::accepted_task(sample_records::task_spec())));
    let spawned = || event_record(3, TaskEvent::Spawned { leader: sample_records::LEADER });
    let ended = || event_record(9, sample_records::exited_event(0, TreeLiveness::Empty));
    let ready = || sample_records::ready_record(20);
    let cases: [(&str, Vec<Record>); 12] = [
        ("a second `accepted`", vec![first(), first()]),
        ("`closed` before the end", vec![first(), spawned(), sample_records::closed_record(5)]),
        (
            "or twice",
            vec![
                first(),
                spawned(),
                ended(),
                sample_records::closed_record(9),
                sample_records::closed_record(9),
            ],
        ),
        (
            "`rescued` after the end",
            vec![first(), spawned(), ended(), sample_records::takeover_record(20)],
        ),
        (
            "`matched` after the end",
            vec![first(), spawned(), ended(), sample_records::matched_record(20, 1)],
        ),
        ("`ready` after the end", vec![first(), spawned(), ended(), ready()]),
        ("or twice", vec![first(), spawned(), ready(), ready()]),
        ("cannot follow", vec![first(), spawned(), spawned()]),
        ("cannot follow", vec![first(), event_record(1, TaskEvent::TreeEmpty)]),
        ("cannot follow", vec![first(), event_record(59_999, TaskEvent::DeadlinePassed)]),
        (
            "cannot follow",
            vec![
                first(),
                spawned(),
                event_record(5, stop_event("user")),
                event_record(6, TaskEvent::GraceOver),
            ],
        ),
        ("cannot follow", vec![first(), spawned(), ended(), event_record(10, stop_event("user"))]),
    ];
    for (expected, records) in cases {
        let lines = sample_records::journal_lines(&records);
        let (last, before) = lines.split_last().expect("there are records");
        // All records before the last one are valid, so the error must be about the last record.
        assert!(replay(&before.concat()).is_ok(), "{records:#?}");
        assert_corrupt(
            &[before.concat(), last.clone()].concat(),
            before.len(),
            before.concat().len(),
            expected,
        );
    }
}

#[test]
fn record_numbers_are_contiguous_from_zero() {
    let mut records = sample_records::full_journal();
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
    let headless = sample_records::journal_lines(&records.split_off(1)).concat();
    assert_corrupt(&headless, 0, 0, "no format number");
}

#[test]
fn a_newer_format_is_detected_before_anything_else() {
    let newer = NEWEST_FORMAT + 1;
    let mut line = Vec::new();
    record::write_line(&mut line, 0, &json!({"record": "taken_on", "format": newer, "spec": []}));
    for rest in ["", "not a line at all\n", "\0\n\n"] {
        let bytes = [line.as_slice(), rest.as_bytes()].concat();
        assert_eq!(replay(&bytes), Err(JournalError::TooNew { found: newer }));
    }
    let error = replay(&line).expect_err("it is too new").to_string();
    let expected_parts = [format!("format {newer}"), format!("up to {NEWEST_FORMAT}")];
    assert!(expected_parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn conditions_are_recorded_only_where_they_exist() {
    let awaited = TaskSpec {
        wait_for: vec![sample_records::port_condition()],
        ..sample_records::task_spec()
    };
    let first =
        AcceptedTask { format: FORMAT_WITH_READY, ..sample_records::accepted_task(awaited) };
    let bytes = sample_records::journal_lines(&[Record::Accepted(Box::new(first))]).concat();
    let line = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        line.contains(r#""format":2,"#) && line.contains(r#""wait_for":["port:3000"]"#),
        "{line}"
    );
    assert!(replay(&bytes).expect("a journal of this build").state.is_waiting_for_ready());
    let plain = sample_records::journal_lines(&[Record::Accepted(Box::new(
        sample_records::accepted_task(sample_records::task_spec()),
    ))]);
    assert!(!String::from_utf8_lossy(&plain.concat()).contains("wait_for"));
}

/// `resumed` is not written to a journal of an older format, even when a shim of this build
/// takes over.
#[test]
fn resumed_is_recorded_only_in_its_format() {
    let piped = TaskSpec { stdin: StdinMode::Pipe, ..sample_records::task_spec() };
    let format = FORMAT_WITH_RESUMED;
    let state = |format| {
        TaskState::new(AcceptedTask { format, ..sample_records::accepted_task(piped.clone()) })
    };
    assert!(state(format).may_resume() && !state(FORMAT_WITH_READY).may_resume());
    let mut state = state(format);
    for record in [
        event_record(3, TaskEvent::Spawned { leader: sample_records::LEADER }),
        Record::Stalled(Box::new(sample_records::stall_record(2_700))),
    ] {
        state.apply(record).expect("a valid successor");
    }
    assert!(state.stall.is_some());
    state.apply(sample_records::resumed_record(3_000)).expect("a valid successor");
    assert_eq!(state.stall, None);
    state
        .apply(event_record(9_000, sample_records::exited_event(0, TreeLiveness::Empty)))
        .expect("a valid successor");
    assert!(!state.may_resume());
}

/// A record keeps the field name of its journal's format, even if a shim of this build takes the
/// task over.
#[test]
fn exceeded_limits_are_read_and_written_as_the_format_says() {
    let event = TaskEvent::LimitPassed { limit_kind: LimitKind::Memory };
    let breach = Record::Limit(Box::new(sample_records::breach(5)));
    for record in [event_record(7, event), breach] {
        for (format, present, absent) in
            [(FORMAT_WITH_RELEASED, "which", "limit_kind"), (NEWEST_FORMAT, "limit_kind", "which")]
        {
            let mut line = Vec::new();
            record::write_record(&mut line, 3, &record, format);
            let text = String::from_utf8_lossy(&line).into_owned();
            assert!(text.contains(&format!("\"{present}\":")), "{text}");
            assert!(!text.contains(&format!("\"{absent}\":")), "{text}");
            let line = line.strip_suffix(b"\n").expect("a line");
            assert_eq!(record::parse_line(line), Ok((3, record.clone())));
        }
    }
}

/// A later build of the same format may add fields to a record, which this build must ignore.
#[test]
fn unknown_fields_are_ignored_at_every_level() {
    let records = sample_records::full_journal();
    let mut bytes = Vec::new();
    for (seq, record) in (0..).zip(&records) {
        record::write_line(&mut bytes, seq, &with_unknown_fields(record));
    }
    let state: TaskState =
        sample_records::replay_states(&records).pop().expect("there are records");
    assert_eq!(replay(&bytes).map(|folded| folded.state), Ok(state));
}

/// Returns the record with an additional field in each of its objects.
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

/// A verdict is only displayed and changes no state, so an unknown verdict must not make the
/// journal unreadable.
#[test]
fn a_stall_with_the_verdict_of_a_newer_release_is_readable() {
    let record = Record::Stalled(Box::new(sample_records::stall_record(5)));
    let mut json = serde_json::to_value(&record).expect("a record serializes");
    json["verdict"] = "dreaming".into();
    json["waiting_on"] = "godot".into();
    let read = record::parse_body(json.to_string().as_bytes()).expect("readable");
    let Record::Stalled(stall) = read else { panic!("{read:?}") };
    assert_eq!((stall.evidence.verdict, stall.evidence.waiting_on), (WhyVerdict::Unknown, None));
    assert_eq!(stall.evidence.advice, "It waits for input.", "the advice is recorded");
}

/// An unknown record type is an error: without the record the state would be wrong.
#[test]
fn an_unknown_record_kind_is_named_in_the_error() {
    let begin = sample_records::journal_lines(&sample_records::full_journal()[..2]).concat();
    let cases = [
        (json!({"record": "checkpoint", "at": 1}), "checkpoint"),
        (json!({"record": "event", "at": 1, "event": "frozen"}), "frozen"),
        (json!({"at": 1}), "record"),
        (json!("accepted"), "its record is unknown"),
    ];
    for (unknown, named) in cases {
        let mut bytes = begin.clone();
        record::write_line(&mut bytes, 2, &unknown);
        assert_corrupt(&bytes, 2, begin.len(), named);
        assert_corrupt(&bytes, 2, begin.len(), "intact, but its record is unknown");
    }
}

/// Existing journals become unreadable if one of these names changes.
#[test]
fn the_journal_field_names_are_pinned() {
    let words: Vec<String> = sample_records::full_journal()
        .iter()
        .map(|record| {
            let value = serde_json::to_value(record).expect("a record serializes");
            let keys = value.as_object().expect("an object").keys().cloned();
            // The order of an object's keys depends on the features of other crates
            // (`preserve_order`).
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
            "event extended: at by deadline event record",
            "output_lost: at error from record",
            "matched: at lines record text to",
            "matched: at dropped lines record text to",
            "stalled: advice at certainty chain cpu_permille output_bytes record silent_ms since_ms \
             tail verdict",
            "resumed: at record",
            "limit: at detail limit limit_kind record remote value watchdog",
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
    record::write_line(
        &mut line,
        1,
        &event_record(3, TaskEvent::Spawned { leader: sample_records::LEADER }),
    );
    assert_eq!(
        String::from_utf8_lossy(&line),
        "a99b1cbf 1 {\"record\":\"event\",\"at\":1000003,\"event\":\"spawned\",\
         \"leader\":{\"pid\":4243,\"start_ticks\":100002}}\n"
    );
}

fn assert_corrupt(bytes: &[u8], seq: usize, offset: usize, expected: &str) {
    let error = replay(bytes).expect_err(expected);
    let JournalError::Corrupt { seq: found, offset: at, why } = &error else {
        panic!("not corrupt but {error}, expected {expected}");
    };
    assert_eq!((*found, *at), (seq as u64, offset), "{error}");
    assert!(why.contains(expected), "`{why}` does not say `{expected}`");
}

/// A journal of any format may contain the placement reason "timeout", which an older build reads
/// as "budget".
#[test]
fn older_readers_ignore_the_timeout_field() {
    let placed = |why| event_record(7, TaskEvent::Placed { why });
    let json = |record: &Record| serde_json::to_value(record).expect("a record serializes");
    let with_timeout = json(&placed(BackgroundReason::Timeout));
    let before = json(&placed(BackgroundReason::Budget));
    assert_eq!((&with_timeout["why"], &with_timeout["timeout"]), (&before["why"], &json!(true)));
    assert!(before.get("timeout").is_none(), "{before}");
    for record in [
        placed(BackgroundReason::Timeout),
        placed(BackgroundReason::Budget),
        placed(BackgroundReason::User),
    ] {
        let read: Record = serde_json::from_value(json(&record)).expect("a serialized record");
        assert_eq!(read, record);
    }
}

/// An older build terminates processes with the birthmark of an ended task, so it would terminate
/// the processes of a released task. The newer format prevents that build from reading the journal.
#[test]
fn only_an_adopted_task_in_the_released_format_can_be_released() {
    let adopted = Some(AdoptionInfo::default());
    let format = FORMAT_WITH_RELEASED;
    let state = |format, adopted| {
        TaskState::new(AcceptedTask {
            format,
            adopted,
            ..sample_records::accepted_task(sample_records::task_spec())
        })
    };
    assert!(state(format, adopted.clone()).may_release());
    assert!(!state(FORMAT_WITH_RESUMED, adopted.clone()).may_release());
    assert!(!state(format, None).may_release());
    let mut state = state(format, adopted);
    let by = "user".to_owned();
    for record in [
        event_record(3, TaskEvent::Spawned { leader: sample_records::LEADER }),
        event_record(9, TaskEvent::Released { by: by.clone() }),
    ] {
        state.apply(record).expect("a valid successor");
    }
    assert!(!state.may_release() && !state.is_live());
    let Phase::Ended { outcome, leader: None } = state.lifecycle.phase() else {
        panic!("{state:?}")
    };
    assert_eq!(*outcome, Outcome::Released { by });
}
