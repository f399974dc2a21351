//! Tests which trees of unowned processes the reaper terminates and which it keeps. A wrong
//! selection would destroy a user's work.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use siding_model::process::ProcRef;
use siding_model::unowned::{
    KeepReason, OrphanRule, ProcessInfo, ReapDecision, Requester, may_match_built_in,
    select_orphan_trees,
};

const USER_UID: u32 = 1000;
const MIN_AGE: Duration = Duration::from_secs(4 * 3600);
const OLD_AGE: Duration = Duration::from_secs(5 * 3600);
/// Pid of the process that requests the selection, in all process tables.
const REQUESTER_PID: i32 = 2;

fn process(pid: i32, ppid: i32, line: &str) -> ProcessInfo {
    let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let name = argv[0].rsplit('/').next().unwrap_or_default().to_owned();
    let process = ProcRef { pid, start_ticks: 100 + u64::from(pid.unsigned_abs()) };
    let uid = Some(USER_UID);
    ProcessInfo {
        process,
        ppid,
        uid,
        age: OLD_AGE,
        name,
        argv,
        has_terminal: false,
        has_birthmark: false,
    }
}

/// Returns a process table with init, the requester as a child of init, and `others`.
fn process_table(others: Vec<ProcessInfo>) -> Vec<ProcessInfo> {
    let mut init = process(1, 0, "/sbin/init");
    init.uid = Some(0);
    let mut all = vec![init, process(REQUESTER_PID, 1, "siding reap --foreign")];
    all.extend(others);
    all
}

/// Returns the tree of anthropics/claude-code#51932: a shell with two relays and a nested shell,
/// which has a child shell with a helper that is blocked on its input.
fn sandbox_tree(parent: i32) -> Vec<ProcessInfo> {
    vec![
        process(10, parent, "/bin/bash -c socat-and-eval"),
        process(11, 10, "socat TCP-LISTEN:3128,fork UNIX-CONNECT:/tmp/claude-http-1a2b.sock"),
        process(12, 10, "socat TCP-LISTEN:1080,fork UNIX-CONNECT:/tmp/claude-socks-1a2b.sock"),
        process(13, 10, "/bin/bash -c eval"),
        process(14, 13, "bash"),
        process(15, 14, "cat"),
    ]
}

fn select(processes: &[ProcessInfo]) -> ReapDecision {
    select_orphan_trees(
        processes,
        &OrphanRule::built_in(),
        Requester { pid: REQUESTER_PID, uid: USER_UID, min_age: MIN_AGE },
    )
}

fn selected_pids(verdicts: &ReapDecision) -> Vec<i32> {
    let mut all: Vec<i32> =
        verdicts.trees.iter().flat_map(|tree| &tree.members).map(|member| member.pid).collect();
    all.sort_unstable();
    all
}

/// Asserts that no tree is selected, and returns the reasons.
#[track_caller]
fn keep_reasons(processes: &[ProcessInfo]) -> Vec<KeepReason> {
    let verdicts = select(processes);
    assert!(verdicts.trees.is_empty(), "{verdicts:?}");
    verdicts.kept.into_iter().map(|spared| spared.reason).collect()
}

fn find_mut(processes: &mut [ProcessInfo], pid: i32) -> &mut ProcessInfo {
    processes.iter_mut().find(|one| one.process.pid == pid).expect("a process of the table")
}

#[test]
fn an_orphaned_tree_is_selected_whole_and_once() {
    let verdicts = select(&process_table(sandbox_tree(1)));
    assert_eq!(selected_pids(&verdicts), [10, 11, 12, 13, 14, 15]);
    let [tree] = verdicts.trees.as_slice() else { panic!("{verdicts:?}") };
    assert_eq!(tree.rule, "claude-sandbox");
    assert_eq!((tree.matched_process.pid, tree.members[0].pid), (11, 10));
    assert_eq!(verdicts.kept, []);
}

/// Failure F15: under `systemd --user` or `tini` the parent of an orphan is not process 1.
#[test]
fn children_of_another_subreaper_are_orphans() {
    for reaper in ["/usr/lib/systemd/systemd --user", "tini -- sleep"] {
        let mut all = process_table(sandbox_tree(5));
        all.push(process(5, 1, reaper));
        assert_eq!(selected_pids(&select(&all)), [10, 11, 12, 13, 14, 15], "{reaper}");
    }
}

#[test]
fn a_live_host_ancestor_keeps_its_helpers() {
    for host in ["claude --resume", "node /usr/local/bin/claude", "/home/u/.local/bin/claude"] {
        let mut all = process_table(sandbox_tree(7));
        all.push(process(7, 1, host));
        let why = keep_reasons(&all);
        assert!(matches!(why.as_slice(), [KeepReason::LiveHost { pid: 7, .. }, _]), "{why:?}");
    }
    // A host also protects its helpers if a subreaper is between them, and if the host is the first
    // process of a container.
    let mut all = process_table(sandbox_tree(8));
    all.extend([process(7, 1, "claude"), process(8, 7, "tini -- bash")]);
    assert!(matches!(keep_reasons(&all)[0], KeepReason::LiveHost { pid: 7, .. }));
    let mut all = process_table(sandbox_tree(1));
    find_mut(&mut all, 1).argv = vec!["claude".to_owned()];
    assert!(matches!(keep_reasons(&all)[0], KeepReason::LiveHost { pid: 1, .. }));
}

#[test]
fn a_host_in_the_tree_keeps_the_whole_tree() {
    let mut all = process_table(sandbox_tree(1));
    all.push(process(20, 14, "claude -p"));
    assert!(matches!(keep_reasons(&all)[0], KeepReason::LiveHost { pid: 20, .. }));
}

#[test]
fn doubtful_processes_are_kept() {
    type KeepCase = (fn(&mut Vec<ProcessInfo>), fn(&KeepReason) -> bool);
    let cases: [KeepCase; 9] = [
        (
            |all| find_mut(all, 14).has_birthmark = true,
            |why| matches!(why, KeepReason::OwnedByTask { pid: 14 }),
        ),
        (
            |all| find_mut(all, 10).has_terminal = true,
            |why| matches!(why, KeepReason::HasTerminal { pid: 10 }),
        ),
        (
            |all| find_mut(all, 15).uid = Some(0),
            |why| matches!(why, KeepReason::OtherUser { pid: 15 }),
        ),
        (
            |all| find_mut(all, 15).uid = None,
            |why| matches!(why, KeepReason::OtherUser { pid: 15 }),
        ),
        (
            |all| find_mut(all, REQUESTER_PID).ppid = 14,
            |why| matches!(why, KeepReason::ContainsRequester),
        ),
        (|all| find_mut(all, 10).ppid = 0, |why| matches!(why, KeepReason::HiddenAncestor)),
        (|all| find_mut(all, 10).ppid = 99, |why| matches!(why, KeepReason::HiddenAncestor)),
        (
            |all| {
                all.push(process(9, 1, "emacs --daemon"));
                find_mut(all, 10).ppid = 9;
            },
            |why| matches!(why, KeepReason::LiveParent { pid: 9, .. }),
        ),
        // A cycle of parents, which reused pids can cause.
        (|all| find_mut(all, 10).ppid = 14, |why| matches!(why, KeepReason::HiddenAncestor)),
    ];
    for (number, (change, is_right)) in cases.into_iter().enumerate() {
        let mut all = process_table(sandbox_tree(1));
        change(&mut all);
        let why = keep_reasons(&all);
        assert!(!why.is_empty() && why.iter().all(is_right), "case {number}: {why:?}");
    }
}

#[test]
fn an_orphan_without_a_matching_rule_is_kept() {
    let all = process_table(vec![
        process(30, 1, "npm run dev"),
        process(31, 1, "bash -c sleep"),
        process(32, 1, "vim /tmp/claude-http-1.sock"),
        process(33, 1, "socat TCP-LISTEN:80 UNIX-CONNECT:/run/mine.sock"),
        process(34, 1, "bash /tmp/claude-http-1.sock"),
    ]);
    assert_eq!(select(&all), ReapDecision::default());
}

/// A shared machine may have many relays of other users, so they are not even listed as kept.
#[test]
fn relays_of_other_users_are_ignored() {
    for uid in [Some(0), Some(USER_UID + 1), None] {
        let mut all = process_table(sandbox_tree(1));
        all.iter_mut().for_each(|one| one.uid = uid);
        assert_eq!(select(&all), ReapDecision::default());
    }
}

#[test]
fn shells_around_the_relays_match_the_rule() {
    for line in [
        "/bin/bash -c socat TCP-LISTEN:1 UNIX-CONNECT:/tmp/claude-http-1.sock &\n sleep",
        "/usr/bin/socat UNIX-LISTEN:/tmp/x/claude-socks-9f.sock,fork TCP:localhost:1",
        "bwrap --bind /tmp/claude-http-1.sock /tmp/claude-http-1.sock -- bash",
        "socat UNIX-LISTEN:/tmp/srt-mux-8085-0.sock,fork TCP:localhost:1",
    ] {
        assert_eq!(
            selected_pids(&select(&process_table(vec![process(40, 1, line)]))),
            [40],
            "{line}"
        );
        assert!(may_match_built_in(line), "{line}");
    }
}

#[test]
fn young_matches_are_kept_and_young_children_follow_their_parents() {
    let mut all = process_table(sandbox_tree(1));
    find_mut(&mut all, 15).age = Duration::ZERO;
    assert_eq!(selected_pids(&select(&all)).len(), 6);
    for pid in [11, 12] {
        find_mut(&mut all, pid).age = MIN_AGE - Duration::from_secs(1);
    }
    let why = keep_reasons(&all);
    assert!(matches!(why.as_slice(), [KeepReason::TooYoung { pid: 11, .. }, _]), "{why:?}");
    let own =
        OrphanRule { min_age: Some(Duration::from_secs(60)), ..OrphanRule::built_in().remove(0) };
    let viewer = Requester { pid: REQUESTER_PID, uid: USER_UID, min_age: MIN_AGE };
    assert_eq!(selected_pids(&select_orphan_trees(&all, &[own], viewer)).len(), 6);
}

/// The relay outside of the sandbox, as it remained after `kill -9` of Claude Code 2.1.330.
const RELAY_COMMAND_LINE: &str = "socat UNIX-LISTEN:/tmp/claude-http-3126da26c2ffdd25.sock,fork,reuseaddr \
    TCP:localhost:41211,keepalive,keepidle=10,keepintvl=5,keepcnt=3";

#[test]
fn an_orphaned_relay_is_selected_despite_a_terminal() {
    let mut all = process_table(vec![process(50, 1, RELAY_COMMAND_LINE)]);
    assert_eq!(selected_pids(&select(&all)), [50]);
    find_mut(&mut all, 50).has_terminal = true;
    assert_eq!(selected_pids(&select(&all)), [50], "a relay reads no terminal");
    // The exception for terminals holds only for the built-in rule.
    let own = OrphanRule { name: "own".to_owned(), ..OrphanRule::built_in().remove(0) };
    let viewer = Requester { pid: REQUESTER_PID, uid: USER_UID, min_age: MIN_AGE };
    assert!(select_orphan_trees(&all, &[own], viewer).trees.is_empty());
    // The relay is kept if it is too young, or below a living host of any name.
    find_mut(&mut all, 50).age = MIN_AGE - Duration::from_secs(1);
    assert!(matches!(keep_reasons(&all)[0], KeepReason::TooYoung { pid: 50, .. }));
    for host in ["claude", "node /x/cli.js", "/versions/2.1.330 -p"] {
        let mut all = process_table(vec![process(50, 60, RELAY_COMMAND_LINE)]);
        all.push(process(60, 1, host));
        let _stays = keep_reasons(&all);
    }
}

/// An orphaned relay may still serve a sandbox of a live session.
#[test]
fn a_relay_is_kept_while_a_live_process_names_its_socket() {
    let mut all = process_table(vec![process(50, 1, RELAY_COMMAND_LINE)]);
    all.push(process(60, 1, "claude"));
    let bind = "bwrap --bind /tmp/claude-http-3126da26c2ffdd25.sock /tmp/x -- bash";
    all.push(process(61, 60, bind));
    let verdicts = select(&all);
    assert!(verdicts.trees.is_empty(), "{verdicts:?}");
    let why = verdicts.kept.iter().find(|spared| spared.process.pid == 50);
    let why = &why.expect("a reason").reason;
    assert!(matches!(why, KeepReason::SocketInUse { pid: 61, .. }), "{why}");
    // Once the host of the `bwrap` process has also ended, both the relay and `bwrap` are selected:
    // two orphans do not protect each other.
    all.retain(|one| one.process.pid != 60);
    find_mut(&mut all, 61).ppid = 1;
    assert_eq!(selected_pids(&select(&all)), [50, 61]);
    // A process that refers to another socket does not protect the relay.
    find_mut(&mut all, 61).argv[2] = "/tmp/claude-http-0000.sock".to_owned();
    find_mut(&mut all, 61).age = Duration::ZERO;
    assert_eq!(selected_pids(&select(&all)), [50]);
}

/// Generates process tables in which the parent of a process is an earlier process or, rarely, a
/// later or invisible one.
fn any_table() -> impl Strategy<Value = Vec<ProcessInfo>> {
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
    let uid =
        prop::sample::select(vec![Some(USER_UID), Some(USER_UID), Some(USER_UID), Some(0), None]);
    let age = prop::sample::select(vec![
        OLD_AGE,
        OLD_AGE,
        OLD_AGE,
        MIN_AGE,
        MIN_AGE - Duration::from_secs(1),
    ]);
    let flag = || prop::bool::weighted(0.05);
    let one = (line, uid, age, any::<prop::sample::Index>(), flag(), flag(), flag());
    prop::collection::vec(one, 1..24).prop_map(|drawn| {
        let mut all = process_table(Vec::new());
        for (number, (line, uid, age, parent, terminal, mark, loose)) in
            drawn.into_iter().enumerate()
        {
            let pid = 10 + i32::try_from(number).expect("few");
            // At least half of the processes, on average, are children of init.
            let above = parent.index(2 * all.len());
            let ppid = all.get(above).map_or(1, |one| one.process.pid);
            let mut one = process(pid, if loose { pid + 1 } else { ppid }, line);
            (one.uid, one.age, one.has_terminal, one.has_birthmark) = (uid, age, terminal, mark);
            all.push(one);
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_tree_that_must_be_kept_is_selected(all in any_table()) {
        let by_pid: HashMap<i32, &ProcessInfo> =
            all.iter().map(|one| (one.process.pid, one)).collect();
        let above = |pid: i32| {
            let up = |pid: &i32| by_pid.get(pid).map(|one| one.ppid);
            std::iter::successors(Some(pid), up).take(all.len() + 1).collect::<Vec<_>>()
        };
        let verdicts = select(&all);
        let chosen = selected_pids(&verdicts);
        let mut once = chosen.clone();
        once.dedup();
        prop_assert_eq!(&once, &chosen, "a process is selected twice");
        for tree in &verdicts.trees {
            prop_assert!(by_pid[&tree.matched_process.pid].age >= MIN_AGE);
            prop_assert!(by_pid[&tree.members[0].pid].age >= MIN_AGE);
            for member in &tree.members {
                let one = by_pid[&member.pid];
                let reads_terminal = one.has_terminal && one.argv[0] != "socat";
                prop_assert!(one.uid == Some(USER_UID) && !one.has_birthmark && !reads_terminal);
                prop_assert!(!above(REQUESTER_PID).contains(&member.pid));
                for pid in above(member.pid) {
                    let is_host = |one: &&ProcessInfo| one.argv.iter().any(|word| word.ends_with("claude"));
                    prop_assert!(!by_pid.get(&pid).is_some_and(is_host), "{} is a host", pid);
                }
                // A tree is selected as a whole: every descendant of a member is selected, too.
                let is_below = |one: &&ProcessInfo| above(one.process.pid).contains(&member.pid);
                for child in all.iter().filter(is_below) {
                    prop_assert!(chosen.contains(&child.process.pid));
                }
            }
        }
    }

    /// Every process of the requester's user that matches a rule and is not selected has a
    /// [`KeepReason`].
    #[test]
    fn every_unselected_match_has_a_keep_reason(all in any_table()) {
        let verdicts = select(&all);
        let chosen = selected_pids(&verdicts);
        let fits = |one: &&ProcessInfo| one.uid == Some(USER_UID) && one.argv[0] == "socat";
        for one in all.iter().filter(fits) {
            let spared = verdicts.kept.iter().any(|spared| spared.process == one.process);
            prop_assert!(spared != chosen.contains(&one.process.pid));
        }
    }
}
