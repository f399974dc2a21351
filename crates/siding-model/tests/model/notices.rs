//! Tests which events of a task are notices, how long a notice remains current, and in which order
//! notices are delivered.

use proptest::prelude::*;
use serde_json::Map;
use siding_model::journal::{self, TaskState};
use siding_model::lifecycle::{Phase, TaskEvent, TreeLiveness};
use siding_model::limits::{Breach, Limits, OnLimit};
use siding_model::notice::{
    Consumer, Notice, NoticeEvent, NoticeId, NoticeKind, NoticeStatus, Priority, StallCertainty,
    TaskNotices,
};
use siding_model::outcome::{BackgroundReason, LeaderEnd, LimitKind, Outcome, Placement};
use siding_model::process::{BootId, MonotonicMs, UnixMs};
use siding_model::record::{AcceptedTask, FORMAT_WITH_EXPIRING, NEWEST_FORMAT, Record};
use siding_model::spec::TaskSpec;
use siding_model::terminal::{TerminalEvent, TerminalSize};

use crate::random_histories::any_history;
use crate::sample_records::{
    self, accepted_task, closed_record, event_record, exited_event, stop_event, takeover_record,
    task_spec,
};

pub(super) const SPAWNED: TaskEvent = TaskEvent::Spawned { leader: sample_records::LEADER };
const IN_BACKGROUND: Placement = Placement::Background { why: BackgroundReason::Asked };

pub(super) fn background_spec() -> TaskSpec {
    TaskSpec { placement: IN_BACKGROUND, ..task_spec() }
}

/// Writes a journal with the first record of a task and these records, and returns its notices.
pub(super) fn read_notices(spec: TaskSpec, rest: &[Record]) -> TaskNotices {
    let first = Record::Accepted(Box::new(accepted_task(spec)));
    let records: Vec<Record> = std::iter::once(first).chain(rest.iter().cloned()).collect();
    TaskNotices::from_journal(&sample_records::journal_lines(&records).concat())
        .expect("a valid sequence of records")
}

fn seqs_and_kinds(replayed: &TaskNotices) -> Vec<(u64, NoticeKind)> {
    replayed.notices.iter().map(|notice| (notice.id.seq, notice.event.kind())).collect()
}

#[test]
fn each_outcome_gives_one_notice() {
    let failed = TaskEvent::SpawnFailed { error: "no such file".to_owned(), errno: 2 };
    let vanished = TaskEvent::Vanished { why: "gone".to_owned() };
    let ways: [(&[TaskEvent], NoticeStatus); 7] = [
        (&[SPAWNED, exited_event(0, TreeLiveness::Empty)], NoticeStatus::Completed),
        (&[SPAWNED, exited_event(7, TreeLiveness::Empty)], NoticeStatus::Failed),
        (
            &[SPAWNED, stop_event("user"), exited_event(0, TreeLiveness::Empty)],
            NoticeStatus::Stopped,
        ),
        (
            &[SPAWNED, TaskEvent::DeadlinePassed, exited_event(0, TreeLiveness::Empty)],
            NoticeStatus::TimedOut,
        ),
        (
            &[
                SPAWNED,
                stop_event("session"),
                TaskEvent::GraceOver,
                TaskEvent::Swept { survivors: 0 },
            ],
            NoticeStatus::Stopped,
        ),
        (&[failed], NoticeStatus::Failed),
        (&[SPAWNED, vanished], NoticeStatus::Lost),
    ];
    for (events, status) in ways {
        let records: Vec<Record> =
            (1..).zip(events).map(|(n, one)| event_record(n * 60_000, one.clone())).collect();
        let last = records.len() as u64;
        let records = [records, vec![closed_record(last * 60_000)]].concat();
        let replayed = read_notices(background_spec(), &records);
        assert_eq!(seqs_and_kinds(&replayed), [(last, NoticeKind::Ended)], "{events:?}");
        assert_eq!(replayed.notices[0].event.status(), status, "{events:?}");
    }
}

/// Failure F19: a shell has ended while other processes of the task run. The notice about the
/// remaining processes expires at the task's end.
#[test]
fn a_lingering_notice_lasts_until_the_task_ends() {
    let records = [
        event_record(1, SPAWNED),
        event_record(9, exited_event(0, TreeLiveness::Alive)),
        takeover_record(20),
    ];
    let lingering = read_notices(background_spec(), &records);
    assert_eq!(seqs_and_kinds(&lingering), [(2, NoticeKind::Lingering)]);
    let moved = [
        &records[..],
        &[event_record(
            30,
            TaskEvent::Extended { deadline: MonotonicMs(1_090_000), by: None, job_limit: None },
        )],
    ]
    .concat();
    assert_eq!(
        seqs_and_kinds(&read_notices(background_spec(), &moved)),
        [(2, NoticeKind::Lingering)],
        "reported once"
    );
    let ended =
        [&records[..], &[event_record(40, TaskEvent::TreeEmpty), closed_record(40)]].concat();
    assert_eq!(seqs_and_kinds(&read_notices(background_spec(), &ended)), [(4, NoticeKind::Ended)]);
}

/// A stall has a notice while it lasts. From the second stall on, the text contains the number of
/// stalls so far.
#[test]
fn only_the_last_stall_is_reported_with_the_count() {
    let stall = |after_ms| Record::Stalled(Box::new(sample_records::stall_record(after_ms)));
    let says = |replayed: &TaskNotices| {
        let NoticeEvent::Stalled { text: says, .. } = &replayed.notices[0].event else {
            panic!("{replayed:?}")
        };
        says.clone()
    };
    let one = read_notices(background_spec(), &[event_record(1, SPAWNED), stall(50_000)]);
    assert_eq!(seqs_and_kinds(&one), [(2, NoticeKind::Stalled)]);
    assert!(!says(&one).contains("times"), "{}", says(&one));
    assert!(says(&one).contains(": waits for input. It "), "{}", says(&one));
    let three = [event_record(1, SPAWNED), stall(50_000), stall(150_000), stall(250_000)];
    let story_of_three = read_notices(background_spec(), &three);
    assert_eq!(seqs_and_kinds(&story_of_three), [(4, NoticeKind::Stalled)], "a notice of its own");
    assert!(says(&story_of_three).ends_with(". It has stalled 3 times so far."));
    // An answer ends the stall, which is still included in the number.
    let answered = [&three[..], &[sample_records::resumed_record(260_000)]].concat();
    assert_eq!(seqs_and_kinds(&read_notices(background_spec(), &answered)), []);
    let again = read_notices(background_spec(), &[&answered[..], &[stall(350_000)]].concat());
    assert_eq!(seqs_and_kinds(&again), [(6, NoticeKind::Stalled)]);
    assert!(says(&again).ends_with(". It has stalled 4 times so far."));
    let ended = [
        &three[..],
        &[event_record(300_000, exited_event(0, TreeLiveness::Empty)), closed_record(300_000)],
    ]
    .concat();
    assert_eq!(seqs_and_kinds(&read_notices(background_spec(), &ended)), [(5, NoticeKind::Ended)]);
}

/// Returns the specification of a background task whose deadline of 15 minutes is announced two
/// minutes in advance.
fn spec_with_deadline_notice() -> TaskSpec {
    TaskSpec {
        deadline_ms: 900_000,
        cap_ms: 3_600_000,
        deadline_notice_ms: 120_000,
        ..background_spec()
    }
}

/// Like [`read_notices`], with a journal in the newest format, which may contain `expiring`.
fn read_notices_with_format(spec: TaskSpec, rest: &[Record]) -> TaskNotices {
    let first = AcceptedTask { format: NEWEST_FORMAT, ..accepted_task(spec) };
    let first = Record::Accepted(Box::new(first));
    let records: Vec<Record> = std::iter::once(first).chain(rest.iter().cloned()).collect();
    TaskNotices::from_journal(&sample_records::journal_lines(&records).concat())
        .expect("a valid sequence of records")
}

fn expiring_record(after_ms: u64, deadline_ms: u64) -> Record {
    let after = |ms| sample_records::STARTED.plus_ms(ms);
    Record::Expiring { at: after(after_ms), deadline: after(deadline_ms) }
}

fn terminal_record(after_ms: u64, is_taken: bool) -> Record {
    let at = sample_records::STARTED.plus_ms(after_ms);
    Record::Terminal(if is_taken {
        TerminalEvent::Taken { at, by: "siding attach\u{1b}[2J".to_owned() }
    } else {
        TerminalEvent::Returned { at, offset: 9 }
    })
}

/// An agent receives one notice when a person takes the terminal, and one when it is given back.
#[test]
fn only_the_last_event_of_the_terminal_is_a_notice() {
    let spec = TaskSpec { terminal: Some(TerminalSize::DEFAULT), ..background_spec() };
    let taken = [event_record(1, SPAWNED), terminal_record(10, true)];
    let replayed = read_notices_with_format(spec.clone(), &taken);
    assert_eq!(seqs_and_kinds(&replayed), [(2, NoticeKind::Terminal)]);
    let news = &replayed.notices[0].event;
    assert_eq!((news.status(), news.priority()), (NoticeStatus::TerminalTaken, Priority::Later));
    let NoticeEvent::Terminal { text, .. } = news else { panic!("{news:?}") };
    assert!(text.contains("types into its terminal (siding attach\\e[2J)"), "{text}");
    let returned = [&taken[..], &[terminal_record(20, false)]].concat();
    let replayed = read_notices_with_format(spec.clone(), &returned);
    assert_eq!(seqs_and_kinds(&replayed), [(3, NoticeKind::Terminal)]);
    let news = &replayed.notices[0].event;
    assert_eq!((news.status(), news.priority()), (NoticeStatus::TerminalReturned, Priority::Next));
    let NoticeEvent::Terminal { text, .. } = news else { panic!("{news:?}") };
    assert!(text.contains(&format!("`siding screen {}`", sample_records::task_id())), "{text}");
    let again = [&returned[..], &[terminal_record(30, true)]].concat();
    let replayed = read_notices_with_format(spec.clone(), &again);
    assert_eq!(seqs_and_kinds(&replayed), [(4, NoticeKind::Terminal)]);
    let exit = event_record(40, exited_event(0, TreeLiveness::Empty));
    let ended = [&returned[..], &[exit]].concat();
    let replayed = read_notices_with_format(spec, &ended);
    assert_eq!(seqs_and_kinds(&replayed), [(4, NoticeKind::Ended)]);
}

/// Promise P65: the deadline is announced two minutes in advance, once for each deadline, and the
/// notice expires when the deadline moves or the task is stopped.
#[test]
fn an_expiring_notice_lasts_until_the_deadline_moves_or_a_stop() {
    let spec = spec_with_deadline_notice();
    let near = [event_record(1, SPAWNED), expiring_record(780_000, 900_000)];
    let replayed = read_notices_with_format(spec.clone(), &near);
    assert_eq!(seqs_and_kinds(&replayed), [(2, NoticeKind::Expiring)]);
    let news = &replayed.notices[0].event;
    assert_eq!((news.status(), news.priority()), (NoticeStatus::Expiring, Priority::Next));
    let NoticeEvent::Expiring { text: says, evidence, .. } = news else { panic!("{news:?}") };
    let id = sample_records::task_id();
    assert_eq!(
        *says,
        format!(
            "its deadline of 15m is 2m away; `siding extend {id} 15m` moves it to 30m; at its deadline \
             it is ended with everything it started"
        )
    );
    let numbers = ["left_ms", "deadline_ms", "cap_ms"].map(|name| evidence[name].as_u64());
    assert_eq!(numbers, [Some(120_000), Some(900_000), Some(3_600_000)]);

    let moved = event_record(
        790_000,
        TaskEvent::Extended {
            deadline: sample_records::STARTED.plus_ms(1_800_000),
            by: None,
            job_limit: None,
        },
    );
    let moved = [&near[..], &[moved]].concat();
    assert_eq!(seqs_and_kinds(&read_notices_with_format(spec.clone(), &moved)), []);
    let again = [&moved[..], &[expiring_record(1_680_000, 1_800_000)]].concat();
    assert_eq!(
        seqs_and_kinds(&read_notices_with_format(spec.clone(), &again)),
        [(4, NoticeKind::Expiring)]
    );
    let stopped = [&near[..], &[event_record(800_000, stop_event("user"))]].concat();
    assert_eq!(seqs_and_kinds(&read_notices_with_format(spec.clone(), &stopped)), []);
    let ended =
        [&near[..], &[event_record(800_000, exited_event(0, TreeLiveness::Empty))]].concat();
    assert_eq!(seqs_and_kinds(&read_notices_with_format(spec, &ended)), [(3, NoticeKind::Ended)]);
}

/// A watchdog stops no task, so its breach needs a notice even if the task's limits stop it.
#[test]
fn a_watchdog_breach_is_reported_even_when_limits_stop_the_task() {
    let limits = Limits { on_limit: OnLimit::Stop, ..task_spec().limits };
    let spec = TaskSpec { limits, ..background_spec() };
    let limit = sample_records::breach(5_000);
    let watchdog = Breach { watchdog: true, ..limit.clone() };
    let told_of = |breach: Breach| {
        read_notices(spec.clone(), &[event_record(1, SPAWNED), Record::Limit(Box::new(breach))])
    };
    assert_eq!(seqs_and_kinds(&told_of(limit)), [], "the notice of the end reports it");
    let replayed = told_of(watchdog);
    assert_eq!(seqs_and_kinds(&replayed), [(2, NoticeKind::Limit)]);
    let NoticeEvent::Limit { text: says, .. } = &replayed.notices[0].event else {
        panic!("{replayed:?}")
    };
    assert!(says.contains("; it continues: `siding why b-"), "{says}");
}

#[test]
fn a_notice_at_the_cap_says_the_deadline_cannot_move() {
    let says = |cap_ms| {
        let spec = TaskSpec { cap_ms, ..spec_with_deadline_notice() };
        let replayed = read_notices_with_format(
            spec,
            &[event_record(1, SPAWNED), expiring_record(780_000, 900_000)],
        );
        let NoticeEvent::Expiring { text: says, .. } = &replayed.notices[0].event else {
            panic!("{replayed:?}")
        };
        says.split("; ").nth(1).expect("three parts").to_owned()
    };
    assert_eq!(says(900_000), "it cannot be moved beyond the cap of 15m (max_elapsed_hard_cap)");
    let id = sample_records::task_id();
    assert_eq!(says(1_265_500), format!("`siding extend {id} 6m5s` moves it to 21m 5s"));
}

/// A deadline is announced once. A deadline of a short-lived task, or of a task with a waiting
/// caller, is not announced.
#[test]
fn a_deadline_notice_is_due_once_per_deadline() {
    let due = |spec: TaskSpec, rest: &[Record]| {
        let records = [&[event_record(1, SPAWNED)], rest].concat();
        read_notices_with_format(spec, &records).state.deadline_notice_at()
    };
    let after = |ms| Some(sample_records::STARTED.plus_ms(ms));
    let spec = spec_with_deadline_notice();
    assert_eq!(due(spec.clone(), &[]), after(780_000));
    assert_eq!(due(spec.clone(), &[expiring_record(780_000, 900_000)]), None, "already recorded");
    let rescue = [expiring_record(780_000, 900_000), takeover_record(781_000)];
    assert_eq!(due(spec.clone(), &rescue), None, "recorded for the next shim, too");
    let moved = |ms| {
        let deadline = sample_records::STARTED.plus_ms(ms);
        event_record(790_000, TaskEvent::Extended { deadline, by: None, job_limit: None })
    };
    let extended = [expiring_record(780_000, 900_000), moved(1_800_000)];
    assert_eq!(due(spec.clone(), &extended), after(1_680_000), "another deadline");
    assert_eq!(due(spec.clone(), &[event_record(5, stop_event("user"))]), None);
    let short = TaskSpec { deadline_ms: 599_999, ..spec.clone() };
    assert_eq!(due(short.clone(), &[]), None, "the lifetime is short");
    assert_eq!(due(short, &[moved(1_800_000)]), after(1_680_000), "the extension made it long");
    assert_eq!(due(TaskSpec { deadline_notice_ms: 0, ..spec.clone() }, &[]), None);
    let waited_for = TaskSpec { placement: Placement::Foreground, ..spec.clone() };
    assert_eq!(due(waited_for.clone(), &[]), None, "the caller waits for the end");
    let placed = event_record(15_000, TaskEvent::Placed { why: BackgroundReason::Budget });
    assert_eq!(due(waited_for, &[placed]), after(780_000));
    // A journal of an older format, which a shim of this build continues.
    let mut old = read_notices(spec, &[event_record(1, SPAWNED)]).state;
    assert_eq!(old.deadline_notice_at(), None);
    old.format = FORMAT_WITH_EXPIRING;
    assert_eq!(old.deadline_notice_at(), after(780_000));
}

#[test]
fn the_foreground_caller_has_priority_for_the_notice() {
    let end = [
        event_record(1, SPAWNED),
        event_record(9, exited_event(0, TreeLiveness::Empty)),
        closed_record(9),
    ];
    let boot = &accepted_task(task_spec()).boot;
    let turn = |replayed: &TaskNotices, boot: &BootId, ms: u64| {
        let now = sample_records::STARTED.plus_ms(ms);
        replayed.notices[0].caller_priority_until(&replayed.state, boot, now)
    };
    let foreground = read_notices(task_spec(), &end);
    assert_eq!(turn(&foreground, boot, 9), Some(sample_records::STARTED.plus_ms(5_009)));
    assert_eq!(turn(&foreground, boot, 5_009), None, "the caller was probably killed");
    assert_eq!(turn(&foreground, &BootId("the next".to_owned()), 9), None);
    assert_eq!(turn(&read_notices(background_spec(), &end), boot, 9), None);
    // After the hand-over no caller waits.
    let left = [
        end[0].clone(),
        event_record(5, TaskEvent::Placed { why: BackgroundReason::User }),
        end[1].clone(),
    ];
    assert_eq!(turn(&read_notices(task_spec(), &left), boot, 9), None);
}

#[test]
fn notice_times_are_the_event_times() {
    let records =
        [event_record(1, SPAWNED), event_record(9_000, exited_event(7, TreeLiveness::Empty))];
    let without = read_notices(background_spec(), &records).notices.remove(0);
    assert_eq!((without.elapsed_ms, without.wall), (9_000, UnixMs(1_763_764_881_345)));
    // The wall clock was set while the task ran, so the time in the closing record is used.
    let set = [&records[..], &[closed_record(100_000)]].concat();
    let with = read_notices(background_spec(), &set).notices.remove(0);
    assert_eq!((with.elapsed_ms, with.wall), (9_000, UnixMs(1_763_764_972_345)));
    assert_eq!(with.id, without.id, "the id does not depend on the time");
}

pub(super) fn stalled_event(certainty: StallCertainty) -> NoticeEvent {
    let evidence = [("verdict".to_owned(), "input_wait".into())].into_iter().collect();
    NoticeEvent::Stalled { certainty, text: "it waits for input".to_owned(), evidence }
}

pub(super) fn limit_event() -> NoticeEvent {
    NoticeEvent::Limit { limit_kind: LimitKind::CpuSpin, text: "it spins".to_owned() }
}

pub(super) fn notice_with(news: NoticeEvent, wall: i64, seq: u64) -> Notice {
    Notice {
        id: NoticeId { task: sample_records::task_id(), seq },
        at: sample_records::STARTED,
        wall: UnixMs(wall),
        elapsed_ms: 192_345,
        placement: IN_BACKGROUND,
        event: news,
    }
}

#[test]
fn notices_are_ordered_by_priority_then_time() {
    let ended = |outcome| NoticeEvent::Ended { outcome, note: None };
    let next = [
        stalled_event(StallCertainty::Hard),
        limit_event(),
        NoticeEvent::Ready { text: String::new(), evidence: Map::new() },
        NoticeEvent::Expiring {
            deadline: MonotonicMs(0),
            text: String::new(),
            evidence: Map::new(),
        },
        ended(Outcome::Deadline { limit_ms: 1 }),
        ended(Outcome::Limit { limit_kind: LimitKind::Memory }),
    ];
    let later = [
        stalled_event(StallCertainty::Soft),
        NoticeEvent::Matched { text: String::new() },
        NoticeEvent::Lingering { leader: LeaderEnd::Exited { code: 0 } },
        ended(Outcome::Exited { code: 1 }),
        ended(Outcome::Stopped { by: "user".to_owned() }),
        ended(Outcome::Lost { why: String::new() }),
    ];
    assert!(next.iter().all(|news| news.priority() == Priority::Next));
    assert!(later.iter().all(|news| news.priority() == Priority::Later));
    let mut notices = [
        notice_with(later[3].clone(), 1, 4),
        notice_with(next[0].clone(), 9, 3),
        notice_with(later[0].clone(), 1, 2),
        notice_with(next[1].clone(), 5, 1),
    ];
    notices.sort_by_key(Notice::sort_key);
    assert_eq!(notices.map(|notice| notice.id.seq), [1, 3, 2, 4]);
}

#[test]
fn only_valid_notice_ids_parse_and_round_trip() {
    let id = NoticeId { task: sample_records::task_id(), seq: 17 };
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
    let task = sample_records::task_id().to_string();
    let bad = [
        "",
        ".",
        "1",
        "x.1",
        &task,
        &format!("{task}."),
        &format!("{task}.+1"),
        &format!("{task}.1.1"),
        &format!("{task}.-1"),
        &format!("{task}.99999999999999999999"),
    ];
    for text in bad {
        assert!(text.parse::<NoticeId>().is_err(), "{text}");
    }
    assert_eq!("agent".parse(), Ok(Consumer::agent()));
    for text in ["", "a/b", ".", "-x", "a b"] {
        assert!(text.parse::<Consumer>().is_err(), "{text}");
    }
}

proptest! {
    /// In all histories, an ended task has exactly one notice of its end, whose id contains the
    /// number of the record that ended the task. A live task has no such notice.
    #[test]
    fn every_end_gives_exactly_one_notice(replayed in any_history()) {
        let mut at = sample_records::STARTED;
        let first = accepted_task(TaskSpec { task_id: sample_records::task_id(), ..replayed.spec.clone() });
        let mut state = TaskState::new(first.clone());
        let mut records = vec![Record::Accepted(Box::new(first))];
        let mut end = None;
        for one in &replayed.steps {
            at = at.plus_ms(one.wait_ms);
            let crate::random_histories::StepAction::Deliver(event) = &one.action else { continue };
            let record = Record::Event { at, event: event.clone() };
            if state.apply(record.clone()).is_ok() {
                if !state.is_live() && end.is_none() {
                    end = Some(records.len() as u64);
                }
                records.push(record);
            }
        }
        let lines = sample_records::journal_lines(&records).concat();
        let read = TaskNotices::from_journal(&lines).expect("a valid sequence of records");
        prop_assert_eq!(&read.state, &journal::replay(&lines).expect("readable").state);
        let ends: Vec<u64> = read.notices.iter()
            .filter(|notice| notice.event.kind() == NoticeKind::Ended).map(|notice| notice.id.seq).collect();
        prop_assert_eq!(ends, end.into_iter().collect::<Vec<_>>());
        let lingers = matches!(read.state.lifecycle.phase(), Phase::Lingering { .. });
        let is_told = read.notices.iter().any(|notice| notice.event.kind() == NoticeKind::Lingering);
        prop_assert!(is_told || !lingers, "a lingering task has a notice");
        prop_assert!(read.notices.len() <= 1 || end.is_none());
        // Ids are permanent: a further record leaves an existing notice unchanged or lets it
        // expire.
        for records in 1..=records.len() {
            let before = TaskNotices::from_journal(&sample_records::journal_lines(&first_records(&lines, records)).concat());
            let before = before.expect("a prefix is readable");
            for notice in &before.notices {
                let after = read.notices.iter().find(|after| after.id == notice.id);
                prop_assert!(after.is_none_or(|after| after.event == notice.event));
                prop_assert!(after.is_some() || notice.event.kind() == NoticeKind::Lingering);
            }
        }
    }
}

fn first_records(lines: &[u8], count: usize) -> Vec<Record> {
    let lines = lines.split(|byte| *byte == b'\n').take(count);
    lines.map(|line| siding_model::record::parse_line(line).expect("a record").1).collect()
}
