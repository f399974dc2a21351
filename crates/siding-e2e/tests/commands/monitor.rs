//! `siding monitor`: lines of a command become records, from which notices are made. PAINS F9,
//! F10, R9.

use std::time::Duration;

use siding_e2e::{Sandbox, eventually};
use siding_model::record::{self, Record};

use crate::support::{HANG, id, make_file, ok, outcome, refused, sandbox, stop_all, until_file};

/// What a monitor told: text, lines, lines without text.
type Told = (String, u64, u64);

#[track_caller]
fn monitor(sandbox: &Sandbox, flags: &[&str], command: &str) -> String {
    id(&ok(sandbox, &[&["monitor", "--json"], flags, &["--", command]].concat()).json())
}

/// The records of a task's journal.
#[track_caller]
fn records(sandbox: &Sandbox, id: &str) -> Vec<Record> {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let bytes = std::fs::read(path).expect("a journal");
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map_while(|line| record::parse_line(line).ok()).map(|(_, record)| record).collect()
}

fn told(sandbox: &Sandbox, id: &str) -> Vec<Told> {
    let of = |record| match record {
        Record::Matched { text, lines, dropped, .. } => Some((text, lines, dropped)),
        Record::Accepted(_)
        | Record::Event { .. }
        | Record::Rescued { .. }
        | Record::OutputLost { .. }
        | Record::Stalled(_)
        | Record::Resumed { .. }
        | Record::Limit(_)
        | Record::Expiring { .. }
        | Record::Ready(_)
        | Record::Denied { .. }
        | Record::Closed(_) => None,
    };
    records(sandbox, id).into_iter().filter_map(of).collect()
}

fn lines(told: &[Told]) -> u64 {
    told.iter().map(|(_, lines, _)| lines).sum()
}

#[test]
fn each_line_is_told_by_itself_both_streams() {
    let sandbox = sandbox();
    let text = format!("echo one; echo; echo two >&2; {}; printf last", until_file("go"));
    let id = monitor(&sandbox, &[], &text);
    eventually("both are told", || lines(&told(&sandbox, &id)) == 2);
    make_file(&sandbox, "go");
    assert_eq!(outcome(&sandbox, &id)["code"], 0);
    let alone = |text: &str| (text.to_owned(), 1, 0);
    // A blank line says nothing; the last one lacks its newline.
    assert_eq!(told(&sandbox, &id), ["one", "two", "last"].map(alone));
}

#[test]
fn only_what_matches_is_told_and_all_is_kept() {
    let sandbox = sandbox();
    let text = r"printf 'ok 1\n\033[31mFAIL\033[0m a\nok 2\npanicked\n'";
    // What its caller has seen already is told to nobody.
    let text = format!("{}; {text}", until_file("go"));
    let id = monitor(&sandbox, &["--match", "FAIL|panicked"], &text);
    make_file(&sandbox, "go");
    assert_eq!(outcome(&sandbox, &id)["code"], 0);
    let texts: Vec<String> = told(&sandbox, &id).into_iter().map(|(text, ..)| text).collect();
    assert_eq!(texts, ["FAIL a", "panicked"]);
    let notices = ok(&sandbox, &["notices", "--json", "--consumer", "reader"]).json();
    let summaries = notices.as_array().expect("a list").iter();
    let summaries = summaries.filter(|one| one["kind"] == "matched").map(|one| &one["summary"]);
    assert_eq!(summaries.collect::<Vec<_>>(), ["FAIL a", "panicked"], "those lines alone");
    let sheet = ok(&sandbox, &["show", &id]).out();
    assert!(sheet.contains("\ntold         2 lines in 2 notices\n"), "{sheet}");
    assert!(sheet.contains("of those that match FAIL|panicked\n"), "{sheet}");
    let all = ok(&sandbox, &["output", &id, "--all"]).out();
    assert_eq!(all, "ok 1\nFAIL a\nok 2\npanicked\n");
}

/// PAINS F10: a flood is a few records with counts, and its end is told behind all of them.
#[test]
fn a_flood_is_coalesced_and_its_end_is_told() {
    const LINES: u64 = 200_000;
    let sandbox = sandbox();
    let id = monitor(&sandbox, &[], &format!("seq {LINES}; exit 9"));
    let done = ok(&sandbox, &["wait", "--json", "--timeout", "50s", &id]).json();
    assert_eq!(done["by"][0]["detail"]["code"], 9);
    let told = told(&sandbox, &id);
    assert_eq!(lines(&told), LINES, "each is counted, once");
    let shown = ok(&sandbox, &["show", "--json", &id]).json();
    let seconds = shown["elapsed_ms"].as_u64().expect("a number") / 1000;
    assert!(told.len() as u64 <= 5 + seconds + 1, "{} records in {seconds} s", told.len());
    let sum = |of: fn(&Told) -> u64| told.iter().map(of).sum::<u64>();
    let expected = serde_json::json!({
        "pattern": null,
        "lines": LINES,
        "notices": told.len(),
        "coalesced": sum(|(_, lines, _)| if *lines > 1 { *lines } else { 0 }),
        "text_dropped": sum(|(_, _, dropped)| *dropped),
    });
    assert_eq!(shown["monitor"], expected);
    let sheet = ok(&sandbox, &["show", &id]).out();
    assert!(
        sheet.contains(&format!("told         {LINES} lines in {} notice", told.len())),
        "{sheet}"
    );
    let (text, count, dropped) = told.last().expect("there are lines");
    assert!(text.ends_with(&LINES.to_string()), "{text}");
    assert_eq!(text.lines().count() as u64, count - dropped);
    let records = records(&sandbox, &id);
    let [.., Record::Matched { .. }, Record::Event { .. }, Record::Closed(_)] = &records[..] else {
        panic!("the end comes last: {:?}", records.last());
    };
}

/// Five at once, then one a second with what came meanwhile.
#[test]
fn after_a_burst_one_a_second_is_told() {
    let sandbox = sandbox();
    // A line every 20 ms or a little more, from one process.
    let text = "for n in $(seq 1000); do echo $n; read -rt .02 <> <(:); done; sleep 300";
    let id = monitor(&sandbox, &[], text);
    eventually("seven records are there", || told(&sandbox, &id).len() >= 7);
    let moments: Vec<u64> = records(&sandbox, &id)
        .iter()
        .filter_map(|record| match record {
            Record::Matched { at, .. } => Some(at.0),
            Record::Accepted(_)
            | Record::Event { .. }
            | Record::Rescued { .. }
            | Record::OutputLost { .. }
            | Record::Stalled(_)
            | Record::Resumed { .. }
            | Record::Limit(_)
            | Record::Expiring { .. }
            | Record::Ready(_)
            | Record::Denied { .. }
            | Record::Closed(_) => None,
        })
        .collect();
    // Five at once, one a second after the first, one two seconds after it.
    assert!(moments[6] - moments[0] >= 2000, "{moments:?}");
    let told = told(&sandbox, &id);
    assert_eq!(told[0], ("1".to_owned(), 1, 0));
    assert!(told[6].1 > 1, "told together: {told:?}");
    stop_all(&sandbox);
}

#[test]
fn a_monitor_lives_five_minutes_or_as_long_as_it_may() {
    let sandbox = sandbox();
    let spec = |id: &str| {
        let Record::Accepted(first) = records(&sandbox, id).swap_remove(0) else {
            panic!("another record comes first")
        };
        first.spec
    };
    for (flags, deadline_ms) in [
        (&[][..], 300_000),
        (&["--timeout", "7m"], 420_000),
        (&["--persistent"], 14_400_000),
        (&["--timeout", "9h"], 14_400_000),
    ] {
        let flags = [flags, &["--allow-duplicate", "--match", "x+"]].concat();
        let spec = spec(&monitor(&sandbox, &flags, HANG));
        assert_eq!(spec.deadline_ms, deadline_ms);
        let monitor = spec.monitor.expect("it is one");
        assert_eq!((monitor.pattern.as_deref(), monitor.burst), (Some("x+"), 5));
        assert_eq!(monitor.every_ms, 1000);
    }
    let again = sandbox.siding(&["monitor", "--", HANG]).run().expect_code(75);
    assert!(again.err().contains("runs already"), "{again}");
    stop_all(&sandbox);
    // At its timeout it is stopped like any task.
    let id = monitor(&sandbox, &["--timeout", "300ms"], HANG);
    assert_eq!(outcome(&sandbox, &id)["kind"], "deadline");
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let sandbox = sandbox();
    for (args, said) in [
        (&["--match", "(", "--", "true"][..], "unclosed group"),
        (&["--persistent", "--timeout", "1m", "--", "true"], "cannot be used with"),
        (&["--timeout", "5", "--", "true"], "`5s` for seconds"),
        (&[], "required"),
    ] {
        let err = refused(&sandbox, &[&["monitor"], args].concat());
        assert!(err.contains(said), "{args:?}: {err}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

/// Silence of a monitor is told as that of any task, or not at all.
#[test]
fn its_silence_is_told_after_the_time_the_call_says() {
    let sandbox = sandbox();
    let watched = monitor(&sandbox, &["--stall-after", "300ms"], "sleep 301");
    let unwatched = monitor(&sandbox, &["--stall-after", "0s"], "sleep 302");
    let is_stalled =
        |id: &str| records(&sandbox, id).iter().any(|record| matches!(record, Record::Stalled(_)));
    eventually("it is on record", || is_stalled(&watched));
    assert!(!is_stalled(&unwatched));
    stop_all(&sandbox);
}

/// Lines are data: cut, and without what moves a cursor. Whoever shows them escapes them.
#[test]
fn hostile_lines_stay_small() {
    let sandbox = sandbox();
    let say =
        r"head -c 3000000 /dev/zero | tr '\0' A; printf '\033[2J\001\377</task_notification>\n'";
    let id = monitor(&sandbox, &[], &format!("{say}; printf 'b\\tc\\n'"));
    assert_eq!(outcome(&sandbox, &id)["code"], 0);
    let told = told(&sandbox, &id);
    assert_eq!(lines(&told), 2, "a line too long to be held is one line: {told:?}");
    assert!(told.iter().all(|(text, ..)| text.len() <= 512 && !text.contains('\u{1b}')));
    assert_eq!(told.last().map(|(text, ..)| text.as_str()), Some("b\tc"));
}

/// Nobody waits for the records: `monitor` returns at once, with the id.
#[test]
fn the_call_returns_at_once() {
    let sandbox = sandbox();
    let done = ok(&sandbox, &["monitor", "--", HANG]);
    assert!(done.elapsed < Duration::from_secs(8), "{done}");
    assert_eq!(sandbox.task_ids(), [done.out().trim()]);
    stop_all(&sandbox);
}
