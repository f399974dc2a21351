//! Foreign orphans: who goes, and above all who never does.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use siding_model::foreign::{Process, Rule, Verdicts, Viewer, Why, decide, may_fit_built_in};
use siding_model::process::ProcRef;

const OWN: u32 = 1000;
const CAP: Duration = Duration::from_secs(4 * 3600);
const OLD: Duration = Duration::from_secs(5 * 3600);
/// The one who asks, in every table below.
const VIEWER: i32 = 2;

fn process(pid: i32, ppid: i32, line: &str) -> Process {
    let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let name = argv[0].rsplit('/').next().unwrap_or_default().to_owned();
    let process = ProcRef { pid, start_ticks: 100 + u64::from(pid.unsigned_abs()) };
    let uid = Some(OWN);
    Process { process, ppid, uid, age: OLD, name, argv, has_terminal: false, is_marked: false }
}

/// Init, the viewer below it, and others.
fn table(others: Vec<Process>) -> Vec<Process> {
    let mut init = process(1, 0, "/sbin/init");
    init.uid = Some(0);
    let mut all = vec![init, process(VIEWER, 1, "siding reap --foreign")];
    all.extend(others);
    all
}

/// What anthropics/claude-code#51932 found: below a shell two relays and the shell it was invoked
/// again in, and below that one blocked on its input, with a helper.
fn six(parent: i32) -> Vec<Process> {
    vec![
        process(10, parent, "/bin/bash -c socat-and-eval"),
        process(11, 10, "socat TCP-LISTEN:3128,fork UNIX-CONNECT:/tmp/claude-http-1a2b.sock"),
        process(12, 10, "socat TCP-LISTEN:1080,fork UNIX-CONNECT:/tmp/claude-socks-1a2b.sock"),
        process(13, 10, "/bin/bash -c eval"),
        process(14, 13, "bash"),
        process(15, 14, "cat"),
    ]
}

fn look(processes: &[Process]) -> Verdicts {
    decide(processes, &Rule::built_in(), Viewer { pid: VIEWER, uid: OWN, min_age: CAP })
}

fn chosen(verdicts: &Verdicts) -> Vec<i32> {
    let mut all: Vec<i32> =
        verdicts.trees.iter().flat_map(|tree| &tree.members).map(|member| member.pid).collect();
    all.sort_unstable();
    all
}

/// Returns why everything stays.
#[track_caller]
fn spared(processes: &[Process]) -> Vec<Why> {
    let verdicts = look(processes);
    assert!(verdicts.trees.is_empty(), "{verdicts:?}");
    verdicts.spared.into_iter().map(|spared| spared.why).collect()
}

fn find(processes: &mut [Process], pid: i32) -> &mut Process {
    processes.iter_mut().find(|one| one.process.pid == pid).expect("it is there")
}

#[test]
fn an_orphaned_tree_goes_whole_and_once() {
    let verdicts = look(&table(six(1)));
    assert_eq!(chosen(&verdicts), [10, 11, 12, 13, 14, 15]);
    let [tree] = verdicts.trees.as_slice() else { panic!("{verdicts:?}") };
    assert_eq!(tree.rule, "claude-sandbox");
    assert_eq!((tree.cause.pid, tree.members[0].pid), (11, 10));
    assert_eq!(verdicts.spared, []);
}

/// PAINS B11: under `systemd --user` or `tini` an orphan's parent is not 1.
#[test]
fn those_below_another_reaper_are_orphans_too() {
    for reaper in ["/usr/lib/systemd/systemd --user", "tini -- sleep"] {
        let mut all = table(six(5));
        all.push(process(5, 1, reaper));
        assert_eq!(chosen(&look(&all)), [10, 11, 12, 13, 14, 15], "{reaper}");
    }
}

#[test]
fn a_live_host_above_spares_its_helpers() {
    for host in ["claude --resume", "node /usr/local/bin/claude", "/home/u/.local/bin/claude"] {
        let mut all = table(six(7));
        all.push(process(7, 1, host));
        let why = spared(&all);
        assert!(matches!(why.as_slice(), [Why::LiveHost { pid: 7, .. }, _]), "{why:?}");
    }
    // Also from above a reaper, and as a container's first process.
    let mut all = table(six(8));
    all.extend([process(7, 1, "claude"), process(8, 7, "tini -- bash")]);
    assert!(matches!(spared(&all)[0], Why::LiveHost { pid: 7, .. }));
    let mut all = table(six(1));
    find(&mut all, 1).argv = vec!["claude".to_owned()];
    assert!(matches!(spared(&all)[0], Why::LiveHost { pid: 1, .. }));
}

#[test]
fn a_host_in_the_tree_spares_all_of_it() {
    let mut all = table(six(1));
    all.push(process(20, 14, "claude -p"));
    assert!(matches!(spared(&all)[0], Why::LiveHost { pid: 20, .. }));
}

#[test]
fn whatever_is_in_doubt_stays() {
    type Case = (fn(&mut Vec<Process>), fn(&Why) -> bool);
    let cases: [Case; 9] = [
        (|all| find(all, 14).is_marked = true, |why| matches!(why, Why::Marked { pid: 14 })),
        (|all| find(all, 10).has_terminal = true, |why| matches!(why, Why::Terminal { pid: 10 })),
        (|all| find(all, 15).uid = Some(0), |why| matches!(why, Why::OtherUser { pid: 15 })),
        (|all| find(all, 15).uid = None, |why| matches!(why, Why::OtherUser { pid: 15 })),
        (|all| find(all, VIEWER).ppid = 14, |why| matches!(why, Why::Caller)),
        (|all| find(all, 10).ppid = 0, |why| matches!(why, Why::Unseen)),
        (|all| find(all, 10).ppid = 99, |why| matches!(why, Why::Unseen)),
        (
            |all| {
                all.push(process(9, 1, "emacs --daemon"));
                find(all, 10).ppid = 9;
            },
            |why| matches!(why, Why::Below { pid: 9, .. }),
        ),
        // A circle, from numbers that changed hands.
        (|all| find(all, 10).ppid = 14, |why| matches!(why, Why::Unseen)),
    ];
    for (number, (change, is_right)) in cases.into_iter().enumerate() {
        let mut all = table(six(1));
        change(&mut all);
        let why = spared(&all);
        assert!(!why.is_empty() && why.iter().all(is_right), "case {number}: {why:?}");
    }
}

#[test]
fn nobody_goes_for_being_an_orphan_alone() {
    let all = table(vec![
        process(30, 1, "npm run dev"),
        process(31, 1, "bash -c sleep"),
        process(32, 1, "vim /tmp/claude-http-1.sock"),
        process(33, 1, "socat TCP-LISTEN:80 UNIX-CONNECT:/run/mine.sock"),
        process(34, 1, "bash /tmp/claude-http-1.sock"),
    ]);
    assert_eq!(look(&all), Verdicts::default());
}

/// On a shared machine there are many, and they are not even mentioned.
#[test]
fn another_users_relays_are_passed_over() {
    for uid in [Some(0), Some(OWN + 1), None] {
        let mut all = table(six(1));
        all.iter_mut().for_each(|one| one.uid = uid);
        assert_eq!(look(&all), Verdicts::default());
    }
}

#[test]
fn the_shells_around_the_relays_fit_by_themselves() {
    for line in [
        "/bin/bash -c socat TCP-LISTEN:1 UNIX-CONNECT:/tmp/claude-http-1.sock &\n sleep",
        "/usr/bin/socat UNIX-LISTEN:/tmp/x/claude-socks-9f.sock,fork TCP:localhost:1",
        "bwrap --bind /tmp/claude-http-1.sock /tmp/claude-http-1.sock -- bash",
        "socat UNIX-LISTEN:/tmp/srt-mux-8085-0.sock,fork TCP:localhost:1",
    ] {
        assert_eq!(chosen(&look(&table(vec![process(40, 1, line)]))), [40], "{line}");
        assert!(may_fit_built_in(line), "{line}");
    }
}

#[test]
fn a_young_one_waits_and_a_young_child_goes_with_its_parents() {
    let mut all = table(six(1));
    find(&mut all, 15).age = Duration::ZERO;
    assert_eq!(chosen(&look(&all)).len(), 6);
    for pid in [11, 12] {
        find(&mut all, pid).age = CAP - Duration::from_secs(1);
    }
    let why = spared(&all);
    assert!(matches!(why.as_slice(), [Why::TooYoung { pid: 11, .. }, _]), "{why:?}");
    let own = Rule { min_age: Some(Duration::from_secs(60)), ..Rule::built_in().remove(0) };
    let viewer = Viewer { pid: VIEWER, uid: OWN, min_age: CAP };
    assert_eq!(chosen(&decide(&all, &[own], viewer)).len(), 6);
}

/// Seen after `kill -9` of Claude Code 2.1.330: the relay outside of the sandbox, alone.
const RELAY: &str = "socat UNIX-LISTEN:/tmp/claude-http-3126da26c2ffdd25.sock,fork,reuseaddr \
    TCP:localhost:41211,keepalive,keepidle=10,keepintvl=5,keepcnt=3";

#[test]
fn the_relay_that_outlives_its_host_goes_also_at_the_terminal_of_the_host() {
    let mut all = table(vec![process(50, 1, RELAY)]);
    assert_eq!(chosen(&look(&all)), [50]);
    find(&mut all, 50).has_terminal = true;
    assert_eq!(chosen(&look(&all)), [50], "a relay reads no terminal");
    // By a rule of a user's own, a terminal is a reason to stay.
    let own = Rule { name: "own".to_owned(), ..Rule::built_in().remove(0) };
    let viewer = Viewer { pid: VIEWER, uid: OWN, min_age: CAP };
    assert!(decide(&all, &[own], viewer).trees.is_empty());
    // Young, or below a host that lives, whatever that is called.
    find(&mut all, 50).age = CAP - Duration::from_secs(1);
    assert!(matches!(spared(&all)[0], Why::TooYoung { pid: 50, .. }));
    for host in ["claude", "node /x/cli.js", "/versions/2.1.330 -p"] {
        let mut all = table(vec![process(50, 60, RELAY)]);
        all.push(process(60, 1, host));
        let _stays = spared(&all);
    }
}

/// A relay whose parent has gone may still serve a sandbox of a live session.
#[test]
fn a_relay_stays_while_a_live_process_names_its_socket() {
    let mut all = table(vec![process(50, 1, RELAY)]);
    all.push(process(60, 1, "claude"));
    let bind = "bwrap --bind /tmp/claude-http-3126da26c2ffdd25.sock /tmp/x -- bash";
    all.push(process(61, 60, bind));
    let verdicts = look(&all);
    assert!(verdicts.trees.is_empty(), "{verdicts:?}");
    let why = verdicts.spared.iter().find(|spared| spared.process.pid == 50);
    let why = &why.expect("a reason").why;
    assert!(matches!(why, Why::InUse { pid: 61, .. }), "{why}");
    // Once that session is over too, both go, although each names the socket.
    all.retain(|one| one.process.pid != 60);
    find(&mut all, 61).ppid = 1;
    assert_eq!(chosen(&look(&all)), [50, 61]);
    // Another socket is none of its business.
    find(&mut all, 61).argv[2] = "/tmp/claude-http-0000.sock".to_owned();
    find(&mut all, 61).age = Duration::ZERO;
    assert_eq!(chosen(&look(&all)), [50]);
}

/// Any machine: each process below an earlier one, an unseen one or itself later.
fn any_table() -> impl Strategy<Value = Vec<Process>> {
    let line = prop::sample::select(vec![
        "socat A UNIX-CONNECT:/tmp/claude-http-1.sock",
        "socat A UNIX-CONNECT:/tmp/claude-socks-1.sock",
        "bash -c x",
        "bash",
        "claude",
        "node /bin/claude",
        "systemd --user",
        "emacs",
        "sleep 9",
    ]);
    let uid = prop::sample::select(vec![Some(OWN), Some(OWN), Some(OWN), Some(0), None]);
    let age = prop::sample::select(vec![OLD, OLD, OLD, CAP, CAP - Duration::from_secs(1)]);
    let flag = || prop::bool::weighted(0.05);
    let one = (line, uid, age, any::<prop::sample::Index>(), flag(), flag(), flag());
    prop::collection::vec(one, 1..24).prop_map(|drawn| {
        let mut all = table(Vec::new());
        for (number, (line, uid, age, parent, terminal, mark, loose)) in
            drawn.into_iter().enumerate()
        {
            let pid = 10 + i32::try_from(number).expect("few");
            // Half of them are below init.
            let above = parent.index(2 * all.len());
            let ppid = all.get(above).map_or(1, |one| one.process.pid);
            let mut one = process(pid, if loose { pid + 1 } else { ppid }, line);
            (one.uid, one.age, one.has_terminal, one.is_marked) = (uid, age, terminal, mark);
            all.push(one);
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_tree_that_must_stay_is_ever_chosen(all in any_table()) {
        let by_pid: HashMap<i32, &Process> =
            all.iter().map(|one| (one.process.pid, one)).collect();
        let above = |pid: i32| {
            let up = |pid: &i32| by_pid.get(pid).map(|one| one.ppid);
            std::iter::successors(Some(pid), up).take(all.len() + 1).collect::<Vec<_>>()
        };
        let verdicts = look(&all);
        let chosen = chosen(&verdicts);
        let mut once = chosen.clone();
        once.dedup();
        prop_assert_eq!(&once, &chosen, "twice");
        for tree in &verdicts.trees {
            prop_assert!(by_pid[&tree.cause.pid].age >= CAP);
            prop_assert!(by_pid[&tree.members[0].pid].age >= CAP);
            for member in &tree.members {
                let one = by_pid[&member.pid];
                let reads_terminal = one.has_terminal && one.argv[0] != "socat";
                prop_assert!(one.uid == Some(OWN) && !one.is_marked && !reads_terminal);
                prop_assert!(!above(VIEWER).contains(&member.pid));
                for pid in above(member.pid) {
                    let is_host = |one: &&Process| one.argv.iter().any(|word| word.ends_with("claude"));
                    prop_assert!(!by_pid.get(&pid).is_some_and(is_host), "{} is a host", pid);
                }
                // A tree goes whole: nobody is left below one that goes.
                let is_below = |one: &&Process| above(one.process.pid).contains(&member.pid);
                for child in all.iter().filter(is_below) {
                    prop_assert!(chosen.contains(&child.process.pid));
                }
            }
        }
    }

    /// What fits and is not chosen has a reason.
    #[test]
    fn nothing_that_fits_is_passed_over_in_silence(all in any_table()) {
        let verdicts = look(&all);
        let chosen = chosen(&verdicts);
        let fits = |one: &&Process| one.uid == Some(OWN) && one.argv[0] == "socat";
        for one in all.iter().filter(fits) {
            let spared = verdicts.spared.iter().any(|spared| spared.process == one.process);
            prop_assert!(spared != chosen.contains(&one.process.pid));
        }
    }
}
