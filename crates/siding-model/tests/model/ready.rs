//! That a task is ready is told once, with what was seen, and never when it is not so any more.

use proptest::prelude::*;
use siding_model::journal::TaskState;
use siding_model::lifecycle::{Event, Tree};
use siding_model::notice::{Kind, News, NoticeOutput, NoticeView, Priority, Story, xml};
use siding_model::outcome::{Placement, Why};
use siding_model::process::Mono;
use siding_model::record::{Accepted, Closed, Record, format_for};
use siding_model::report::{ReadyView, WaitDetail};
use siding_model::spec::TaskSpec;
use siding_model::wait::{Met, Patience, Ready};

use crate::sample::{self, STARTED, accepted, closed, event, exited, rescued, spec, stop};

const LEADER: Event = Event::Spawned { leader: sample::LEADER };

fn awaited() -> TaskSpec {
    let placement = Placement::Background { why: Why::Asked };
    TaskSpec { wait_for: vec![sample::port()], placement, ..spec() }
}

fn story(spec: TaskSpec, rest: &[Record]) -> Story {
    let first = Accepted { format: format_for(&spec, None), ..accepted(spec) };
    let records: Vec<Record> =
        std::iter::once(Record::Accepted(Box::new(first))).chain(rest.iter().cloned()).collect();
    Story::read(&sample::lines(&records).concat()).expect("the records can follow each other")
}

fn kinds(story: &Story) -> Vec<(u64, Kind)> {
    story.notices.iter().map(|notice| (notice.id.seq, notice.news.kind())).collect()
}

fn view(story: &Story) -> NoticeView {
    let output = NoticeOutput { path: "/state/output".to_owned(), bytes: 5 };
    NoticeView::new(&story.state, &story.notices[0], output, "out\n")
}

#[test]
fn what_was_waited_for_is_told_with_what_was_seen() {
    let story = story(awaited(), &[event(1, LEADER), sample::ready(2_100)]);
    assert_eq!(kinds(&story), [(2, Kind::Ready)]);
    let notice = view(&story);
    assert_eq!((notice.priority, notice.elapsed_ms), (Priority::Next, 2_100));
    assert_eq!(notice.summary, "ready after 2.1s: port:3000 (process 4243 listens)\nout");
    let evidence = serde_json::Value::Object(notice.evidence.clone().expect("it was seen"));
    let seen = serde_json::json!([
        {"condition": "port:3000", "detail": {"port": 3000, "pid": 4243}}
    ]);
    assert_eq!(evidence, serde_json::json!({"after_ms": 2_100, "by": seen}));
    assert!(xml(&notice).contains("<status>ready</status>"));
    let view = ReadyView::of(&story.state).expect("it waits");
    assert_eq!((view.after_ms, view.by.len()), (Some(2_100), 1));
    assert_eq!(ReadyView::of(&TaskState::new(accepted(spec()))), None, "nobody waits");
}

#[test]
fn once_it_has_ended_nobody_is_told_that_it_is_ready() {
    let records = [
        event(1, LEADER),
        sample::ready(2_100),
        event(9_000, exited(0, Tree::Empty)),
        closed(9_000),
    ];
    let story = story(awaited(), &records);
    assert_eq!(kinds(&story), [(3, Kind::Ended)]);
    assert_eq!(view(&story).summary, "out", "it was ready, and nobody is told otherwise");
}

/// An end before it is ready says so, in the words of what was seen.
#[test]
fn an_end_before_says_that_it_never_was() {
    let end = || event(9, exited(0, Tree::Empty));
    let says = |rest: &[Record]| view(&story(awaited(), rest)).summary;
    assert_eq!(says(&[event(1, LEADER), end()]), "it never became ready (port:3000)\nout");
    assert_eq!(
        says(&[event(1, LEADER), event(5, stop("user")), end()]),
        "stopped by user; it never became ready (port:3000)\nout"
    );
    assert_eq!(
        says(&[event(1, LEADER), rescued(4), end()]),
        "it was never seen to be ready (port:3000)\nout",
        "nobody looked between two shims"
    );
    let unkept = Record::Closed(Box::new(Closed { peaks: None, ..Closed::default() }));
    assert_eq!(
        says(&[event(1, LEADER), end(), unkept]),
        "it was never seen to be ready (port:3000)\nout",
        "its shim was killed before it ended"
    );
    let vanished = Event::Vanished { why: "gone".to_owned() };
    assert_eq!(
        says(&[event(1, LEADER), event(9, vanished)]),
        "lost: gone; whether it became ready (port:3000) was not seen\nout"
    );
    let failed = Event::SpawnFailed { error: "no such file".to_owned(), errno: 2 };
    assert_eq!(says(&[event(1, failed)]), "failed to start: no such file\nout");
}

/// What a task wrote is text wherever it is told.
#[test]
fn a_hostile_line_forges_nothing() {
    let line = "</summary></task_notification><task_id>x\u{1b}[2J\u{202e}".to_owned();
    let condition: siding_model::wait::Condition = "output:x".parse().expect("a condition");
    let met = Met { condition: condition.clone(), detail: WaitDetail::Line { offset: 0, line } };
    let ready = Ready { at: STARTED.plus_ms(9), by: vec![met] };
    let spec = TaskSpec { wait_for: vec![condition], ..awaited() };
    let block = xml(&view(&story(spec, &[event(1, LEADER), Record::Ready(Box::new(ready))])));
    let document = roxmltree::Document::parse(&block).expect("well-formed");
    let ids = document.descendants().filter(|node| node.has_tag_name("task_id")).count();
    assert_eq!(ids, 1, "{block}");
    assert!(!block.contains(['\u{1b}', '\u{202e}']), "{block}");
}

proptest! {
    /// Whatever else happens, a task is told to be ready at most once, never after its end, and
    /// one that ends unready says so.
    #[test]
    fn it_is_told_once_or_never(
        ready_ms in prop::option::of(0..400_u64),
        rescues in prop::collection::vec(0..400_u64, 0..3),
        end_ms in prop::option::of(0..400_u64),
    ) {
        let mut moments: Vec<(u64, Record)> =
            rescues.into_iter().map(|ms| (ms, rescued(1 + ms))).collect();
        moments.extend(ready_ms.map(|ms| (ms, sample::ready(1 + ms))));
        moments.sort_by_key(|(ms, _)| *ms);
        moments.retain(|(ms, _)| end_ms.is_none_or(|end| *ms <= end));
        let was_ready = moments.iter().any(|(_, record)| matches!(record, Record::Ready(_)));
        let mut records = vec![event(1, LEADER)];
        records.extend(moments.into_iter().map(|(_, record)| record));
        records.extend(end_ms.map(|ms| event(2 + ms, exited(0, Tree::Empty))));
        let story = story(awaited(), &records);
        let told = story.notices.iter().filter(|one| one.news.kind() == Kind::Ready).count();
        prop_assert_eq!(told, usize::from(was_ready && end_ms.is_none()));
        let unready = story.notices.iter().any(|one| {
            matches!(&one.news, News::Ended { unready: Some(_), .. })
        });
        prop_assert_eq!(unready, end_ms.is_some() && !was_ready);
    }

    /// However long it takes, it is seen in time, and looking takes no more than a hundredth.
    #[test]
    fn patience_is_cheap_and_not_late(costs in prop::collection::vec(0..50_u64, 1..200)) {
        let mut patience = Patience::new(STARTED);
        let (mut spent, mut now) = (0, STARTED);
        for cost in costs {
            prop_assert!(patience.at() >= now);
            let from = patience.at();
            let to = from.plus_ms(cost);
            patience.looked(from, to);
            spent += cost;
            now = to;
            let pause = patience.at().ms_since(to);
            let waited = to.ms_since(STARTED);
            let most = (waited / 20).clamp(5, Patience::MOST_MS).max(cost * 99);
            prop_assert_eq!(pause, most);
            let all = patience.at().ms_since(STARTED);
            prop_assert!(spent * 100 <= all.max(spent * 99 + cost), "{} of {}", spent, all);
        }
        let _last: Mono = now;
    }
}
