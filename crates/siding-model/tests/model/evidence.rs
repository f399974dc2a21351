//! What two samples of the kernel prove about a quiet task, and what they do not.

use proptest::prelude::*;
use siding_model::evidence::prompt::Tail;
use siding_model::evidence::{
    Asleep, Call, Certainty, Doing, Judgement, Object, ProcessFacts, Sample, ThreadFacts, Verdict,
    Waited, WaitingOn, judge,
};
use siding_model::process::{Mono, ProcRef};
use siding_model::spec::Stdin;

use crate::sample as fixed;

const LEADER: i32 = 100;

fn asleep(call: Call, on: &[(Object, bool)]) -> Doing {
    let on = (0..).zip(on).map(|(fd, (object, to_read))| Waited {
        fd,
        object: *object,
        to_read: *to_read,
    });
    let (name, on) = ("some", on.collect());
    Doing::Asleep(Asleep { name, call, in_disk: false, on, is_endless: true, ran_ns: None })
}

fn reads(object: Object) -> Doing {
    asleep(Call::Read, &[(object, true)])
}

fn polls(objects: &[Object]) -> Doing {
    asleep(Call::Poll, &objects.iter().map(|object| (*object, true)).collect::<Vec<_>>())
}

fn with_limit(doing: Doing, ran_ns: Option<u64>) -> Doing {
    let Doing::Asleep(asleep) = doing else { panic!("it sleeps") };
    Doing::Asleep(Asleep { is_endless: false, ran_ns, ..asleep })
}

fn process(pid: i32, parent: i32, doing: Vec<Doing>) -> ProcessFacts {
    let threads = (pid..).zip(doing).map(|(tid, doing)| ThreadFacts { tid, doing }).collect();
    ProcessFacts {
        process: ProcRef { pid, start_ticks: 1 },
        parent,
        state: 'S',
        cpu_ns: Some(7),
        own_ticks: 3,
        reaped_ticks: 0,
        resident_bytes: 0,
        has_terminal: false,
        is_behind: false,
        echoes: None,
        threads,
    }
}

fn sample(at: u64, processes: &[ProcessFacts]) -> Sample {
    Sample { at: Mono(at), processes: processes.to_vec() }
}

/// A shell that waits for its children, and those.
fn tree(children: Vec<ProcessFacts>) -> Vec<ProcessFacts> {
    let mut all = vec![process(LEADER, 1, vec![asleep(Call::Child, &[])])];
    all.extend(children);
    all
}

fn judged(processes: &[ProcessFacts], output: &str) -> Judgement {
    let tail = Tail::read(output.as_bytes());
    judge(&sample(1_000, processes), &sample(3_000, processes), &tail)
}

fn child(doing: Doing) -> ProcessFacts {
    process(101, LEADER, vec![doing])
}

fn verdict(children: Vec<ProcessFacts>, output: &str) -> (Verdict, Option<WaitingOn>, Certainty) {
    let found = judged(&tree(children), output);
    (found.verdict, found.waiting_on, found.certainty)
}

/// PAINS E7: the comparison with the very object given as input is what finds readers.
#[test]
fn readers_of_the_input_are_found() {
    let hard = (Verdict::InputWait, None, Certainty::Hard);
    for doing in [
        reads(Object::Input),
        reads(Object::Terminal),
        // vim, whose standard error is the task's output.
        reads(Object::Capture),
        polls(&[Object::Terminal]),
        polls(&[Object::Input]),
        with_limit(polls(&[Object::Input]), Some(7)),
    ] {
        assert_eq!(verdict(vec![child(doing.clone())], ""), hard, "{doing:?}");
    }
    // A worker thread reads; the others wait for each other.
    let futex = || asleep(Call::Futex, &[]);
    let node = process(101, LEADER, vec![futex(), futex(), reads(Object::Input), futex()]);
    let found = judged(&tree(vec![node]), "");
    assert_eq!((found.verdict, found.thread), (Verdict::InputWait, Some(103)));
    assert_eq!(found.path, [LEADER, 101]);
    // The leader itself.
    let leader = process(LEADER, 1, vec![reads(Object::Input)]);
    assert_eq!(judged(&[leader], "").verdict, Verdict::InputWait);
}

/// PAINS E8: a thread that reads the keys of a server, or of a tool beside its build, holds nobody
/// up. One that only waits for the reader does.
#[test]
fn a_reader_beside_work_of_its_own_is_no_wait() {
    let reader = || reads(Object::Input);
    let accepts = || asleep(Call::Accept, &[(Object::Listener, true)]);
    let serving = (Verdict::Serving, None, Certainty::Hard);
    for threads in [vec![accepts(), reader()], vec![reader(), accepts()]] {
        assert_eq!(verdict(vec![process(101, LEADER, threads.clone())], ""), serving);
        // The shell's place was taken by it.
        let found = judged(&[process(LEADER, 1, threads)], "");
        assert_eq!((found.verdict, found.is_urgent()), (Verdict::Serving, false));
    }
    let beside = |work: Doing| {
        let tool = process(101, LEADER, vec![asleep(Call::Child, &[]), reader()]);
        vec![tool, process(102, 101, vec![work])]
    };
    let timer = (Verdict::Waiting, Some(WaitingOn::Timer), Certainty::Hard);
    assert_eq!(verdict(beside(asleep(Call::Sleep, &[])), ""), timer);
    assert_eq!(judged(&tree(beside(asleep(Call::Sleep, &[]))), "").aside, Some(101));
    let likely = (Verdict::InputLikely, None, Certainty::Soft);
    assert_eq!(verdict(beside(asleep(Call::Sleep, &[])), "Continue? [y/N] "), likely);
    let hard = (Verdict::InputWait, None, Certainty::Hard);
    assert_eq!(verdict(beside(asleep(Call::Futex, &[])), ""), hard);
    // A shell asks, with a job in its background: the command's own, or that of a script.
    let job = |parent| process(102, parent, vec![asleep(Call::Sleep, &[])]);
    let own = [process(LEADER, 1, vec![reader()]), job(LEADER)];
    assert_eq!(judged(&own, "").verdict, Verdict::InputWait);
    let script = vec![process(101, LEADER, vec![reader()]), job(101)];
    assert_eq!(verdict(script, ""), hard);
}

/// PAINS E8: what resembles a wait for input and is none.
#[test]
fn what_reads_something_else_is_no_reader_of_the_input() {
    use Object::{Fifo, File, FileWatch, Listener, Pipe, Socket, Waker};
    let waits = |on| (Verdict::Waiting, Some(on), Certainty::Hard);
    let quiet = (Verdict::Quiet, None, Certainty::None);
    let cases = [
        (asleep(Call::Sleep, &[]), waits(WaitingOn::Timer)),
        (reads(Pipe(7)), waits(WaitingOn::Pipe)),
        (reads(Fifo), waits(WaitingOn::Fifo)),
        (asleep(Call::Open, &[]), waits(WaitingOn::Fifo)),
        (reads(Socket), waits(WaitingOn::Network)),
        (asleep(Call::Transfer, &[(Socket, true)]), waits(WaitingOn::Network)),
        (asleep(Call::Connect, &[(Socket, false)]), waits(WaitingOn::Network)),
        (reads(File), waits(WaitingOn::Disk)),
        (asleep(Call::Sync, &[(File, false)]), waits(WaitingOn::Disk)),
        (asleep(Call::Lock, &[(File, true)]), waits(WaitingOn::Lock)),
        (asleep(Call::Write, &[(Pipe(7), false)]), waits(WaitingOn::Pipe)),
        (asleep(Call::Child, &[]), waits(WaitingOn::Child)),
        (asleep(Call::Futex, &[]), (Verdict::Waiting, Some(WaitingOn::Lock), Certainty::Soft)),
        (asleep(Call::Accept, &[(Listener, true)]), (Verdict::Serving, None, Certainty::Hard)),
        (polls(&[Waker, Listener, Object::Input]), (Verdict::Serving, None, Certainty::Hard)),
        (polls(&[Waker, Listener]), (Verdict::Serving, None, Certainty::Hard)),
        (reads(FileWatch), quiet),
        (polls(&[FileWatch]), quiet),
        (polls(&[Waker]), quiet),
        // A language server: it would take input and has not asked for any.
        (polls(&[Waker, Object::Input]), quiet),
    ];
    for (doing, expected) in cases {
        assert_eq!(verdict(vec![child(doing.clone())], "line\n"), expected, "{doing:?}");
    }
}

/// A loop that polls the input every now and then works; that it sleeps between is no proof.
#[test]
fn a_polling_loop_is_not_blocked() {
    let poll = |ran_ns| tree(vec![child(with_limit(polls(&[Object::Input]), ran_ns))]);
    let tail = Tail::read(b"");
    for (first, second) in [(Some(7), Some(8)), (None, None)] {
        let (first, second) = (sample(0, &poll(first)), sample(150, &poll(second)));
        assert_eq!(judge(&first, &second, &tail).verdict, Verdict::Quiet);
    }
}

#[test]
fn one_sample_or_any_processor_time_proves_no_wait_for_input() {
    let reader = tree(vec![child(reads(Object::Input))]);
    let tail = Tail::read(b"");
    let before = tree(vec![child(asleep(Call::Other, &[]))]);
    let found = judge(&sample(0, &before), &sample(2_000, &reader), &tail);
    assert_eq!((found.verdict, found.is_urgent()), (Verdict::Quiet, false));
    let mut ran = reader.clone();
    ran[1].own_ticks += 1;
    let found = judge(&sample(0, &reader), &sample(2_000, &ran), &tail);
    assert_eq!(found.verdict, Verdict::Quiet);
}

/// `cat | sleep 60`: who waits is named, and the task is not called stalled for it.
#[test]
fn a_reader_beside_work_is_named() {
    let sleep = || process(102, LEADER, vec![asleep(Call::Sleep, &[])]);
    let found = judged(&tree(vec![child(reads(Object::Input)), sleep()]), "");
    assert_eq!((found.verdict, found.waiting_on), (Verdict::Waiting, Some(WaitingOn::Timer)));
    assert_eq!((found.path, found.aside), (vec![LEADER, 102], Some(101)));
    // With a question at the end of the output the reader is the better guess.
    let found = judged(&tree(vec![child(reads(Object::Input)), sleep()]), "Continue? [y/N] ");
    assert_eq!((found.verdict, found.certainty), (Verdict::InputLikely, Certainty::Soft));
    // The leader is not held up by what it has started in the background.
    let mut all = vec![process(LEADER, 1, vec![reads(Object::Input)])];
    all.push(process(102, LEADER, vec![asleep(Call::Sleep, &[])]));
    assert_eq!(judged(&all, "").verdict, Verdict::InputWait);
    // Nor by those between it and the leader: script(1) around a shell.
    let outer = process(101, LEADER, vec![polls(&[Object::Input, Object::Other, Object::Waker])]);
    let inner = process(102, 101, vec![reads(Object::Terminal)]);
    let found = judged(&tree(vec![outer, inner]), "");
    assert_eq!((found.verdict, found.channel), (Verdict::InputWait, Some(Object::Input)));
}

/// PAINS E9: event loops need a question at the end of the output.
#[test]
fn an_event_loop_that_asks_is_likely_to_wait() {
    let soft = (Verdict::InputLikely, None, Certainty::Soft);
    let node = || vec![child(polls(&[Object::Waker, Object::Pipe(3), Object::Input]))];
    assert_eq!(verdict(node(), "package name: (work) "), soft);
    assert_eq!(verdict(node(), "? Pick one\n❯ a\n  b\n"), soft);
    assert_eq!(verdict(node(), "ready\n").0, Verdict::Quiet);
    let server = || vec![child(polls(&[Object::Waker, Object::Listener, Object::Input]))];
    assert_eq!(verdict(server(), "listening on 3000").0, Verdict::Serving);
    assert_eq!(verdict(server(), "Port 3000 is in use. Use 3001? (Y/n) "), soft);
}

#[test]
fn a_prompt_that_nobody_reads_is_no_wait_for_input() {
    for call in [Call::Sleep, Call::Connect, Call::Lock] {
        let found = verdict(vec![child(asleep(call, &[]))], "Continue? [y/N] ");
        assert_eq!(found.0, Verdict::Waiting, "{call:?}");
    }
}

#[test]
fn stopped_processes_are_told_from_each_other() {
    let stopped = |has_terminal, is_behind| {
        let mut one = child(reads(Object::Terminal));
        one.state = 'T';
        ProcessFacts { has_terminal, is_behind, ..one }
    };
    let hard = |verdict| (verdict, None, Certainty::Hard);
    assert_eq!(verdict(vec![stopped(true, true)], ""), hard(Verdict::TtyStopped));
    assert_eq!(verdict(vec![stopped(false, true)], ""), hard(Verdict::Stopped));
    assert_eq!(verdict(vec![stopped(true, false)], ""), hard(Verdict::Stopped));
}

/// LINUX fault 33: who may not be looked into is judged by the terminal and the last line.
#[test]
fn a_hidden_process_is_unknown_unless_it_asks_for_a_password() {
    let sudo = |echoes| ProcessFacts { echoes, has_terminal: true, ..child(Doing::Denied) };
    let asks = "[sudo] password for jane: ";
    assert_eq!(verdict(vec![sudo(Some(false))], asks).0, Verdict::PasswordLikely);
    assert_eq!(verdict(vec![sudo(None)], asks).0, Verdict::PasswordLikely);
    assert_eq!(verdict(vec![sudo(Some(false))], "PIN code, jane ").0, Verdict::PasswordLikely);
    assert_eq!(verdict(vec![sudo(Some(true))], "working\n").0, Verdict::Unknown);
    let found = judged(&tree(vec![sudo(None)]), asks);
    let advice = found.advice(fixed::task_id(), Stdin::Pipe);
    assert!(advice.contains("a person") && !advice.contains("siding input"), "{advice}");
}

#[test]
fn processor_time_is_that_of_the_whole_tree() {
    let busy = |ticks| {
        let mut all = tree(vec![child(Doing::Running)]);
        all[1].own_ticks = ticks;
        all
    };
    let tail = Tail::read(b"");
    let found = judge(&sample(0, &busy(0)), &sample(1_000, &busy(98)), &tail);
    assert_eq!((found.verdict, found.cpu_permille), (Verdict::Busy, 980));
    assert_eq!((found.certainty, found.path.last()), (Certainty::Hard, Some(&101)));
    // A loop of short programs: what they have used is their parent's when they have ended.
    let mut parent = tree(vec![child(asleep(Call::Child, &[]))]);
    let before = sample(0, &parent);
    parent[1].reaped_ticks = 50;
    assert_eq!(judge(&before, &sample(1_000, &parent), &tail).verdict, Verdict::Busy);
}

fn any_object() -> impl Strategy<Value = Object> {
    use Object::{Capture, Fifo, File, FileWatch, Input, Listener, Other, Pipe, Socket, Terminal};
    prop::sample::select(vec![
        Input,
        Capture,
        Terminal,
        Pipe(3),
        Fifo,
        Listener,
        Socket,
        FileWatch,
        File,
        Other,
    ])
}

fn any_doing() -> impl Strategy<Value = Doing> {
    let calls = [
        Call::Read,
        Call::Write,
        Call::Poll,
        Call::Accept,
        Call::Connect,
        Call::Transfer,
        Call::Child,
        Call::Sleep,
        Call::Futex,
        Call::Lock,
        Call::Open,
        Call::Signal,
        Call::Sync,
    ];
    let sleeping = (
        prop::sample::select(calls.to_vec()),
        prop::collection::vec((any_object(), any::<bool>()), 0..4),
        any::<bool>(),
    )
        .prop_map(|(call, on, endless)| {
            if endless { asleep(call, &on) } else { with_limit(asleep(call, &on), Some(1)) }
        });
    prop_oneof![8 => sleeping, 1 => Just(Doing::Running), 1 => Just(Doing::Denied)]
}

proptest! {
    #[test]
    fn no_verdict_says_more_than_was_seen(
        shapes in prop::collection::vec((0_usize..4, prop::collection::vec(any_doing(), 1..3)), 1..6),
        output in prop::sample::select(vec!["", "line\n", "half a", "Continue? [y/N] ", "Password: "]),
    ) {
        let mut all = tree(vec![]);
        for (parent, doing) in shapes {
            let parent = all[parent.min(all.len() - 1)].process.pid;
            let pid = all.last().map_or(LEADER, |last| last.process.pid) + 10;
            all.push(process(pid, parent, doing));
        }
        let found = judged(&all, output);
        let takes_input = |one: &ProcessFacts| one.threads.iter().any(|thread| {
            matches!(&thread.doing, Doing::Asleep(asleep) if asleep.on.iter().any(|on| on.to_read && on.object.is_input()))
        });
        // Input is waited for only where some process has it.
        if found.verdict == Verdict::InputWait {
            prop_assert!(all.iter().any(takes_input));
            prop_assert_eq!(found.certainty, Certainty::Hard);
        }
        prop_assert_eq!(found.waiting_on.is_some(), found.verdict == Verdict::Waiting);
        // The chain goes from a process without a parent in the tree down to the last one.
        for pair in found.path.windows(2) {
            let child = all.iter().find(|one| one.process.pid == pair[1]).expect("is in the tree");
            prop_assert_eq!(child.parent, pair[0]);
        }
        // One sentence, whatever was found.
        let advice = found.advice(fixed::task_id(), Stdin::Null);
        prop_assert!(advice.ends_with('.') && !advice.contains("siding input"));
        // A first sample in which nothing was there proves nothing.
        let alone = judge(&sample(0, &[]), &sample(1, &all), &Tail::read(b""));
        prop_assert!(!alone.is_urgent());
    }
}
