//! Tests of the diagnosis of a quiet task from two samples: which samples prove a wait for input,
//! and which only resemble one.

use proptest::prelude::*;
use siding_model::evidence::prompt::OutputTail;
use siding_model::evidence::{
    BlockedOn, BlockedSyscall, BlockingCall, Certainty, Diagnosis, FdObject, ProcessFacts,
    TaskSample, TerminalReader, ThreadFacts, ThreadState, WaitingOn, WhyVerdict, diagnose,
    find_terminal_reader,
};
use siding_model::process::{MonotonicMs, ProcRef};
use siding_model::spec::StdinMode;
use siding_model::terminal::{AwaitedInput, ReaderFact, TerminalInput};

use crate::sample_records as fixed;

const LEADER_PID: i32 = 100;

fn blocked_in(call: BlockingCall, on: &[(FdObject, bool)]) -> ThreadState {
    let on = (0..).zip(on).map(|(fd, (object, to_read))| BlockedOn {
        fd,
        object: *object,
        for_reading: *to_read,
    });
    let (name, on) = ("some", on.collect());
    ThreadState::Blocked(BlockedSyscall {
        name,
        call,
        is_uninterruptible: false,
        blocked_on: on,
        has_no_timeout: true,
        thread_cpu_ns: None,
    })
}

fn blocked_read(object: FdObject) -> ThreadState {
    blocked_in(BlockingCall::Read, &[(object, true)])
}

fn blocked_poll(objects: &[FdObject]) -> ThreadState {
    blocked_in(
        BlockingCall::Poll,
        &objects.iter().map(|object| (*object, true)).collect::<Vec<_>>(),
    )
}

fn with_timeout(doing: ThreadState, ran_ns: Option<u64>) -> ThreadState {
    let ThreadState::Blocked(asleep) = doing else { panic!("the thread is not blocked") };
    ThreadState::Blocked(BlockedSyscall { has_no_timeout: false, thread_cpu_ns: ran_ns, ..asleep })
}

fn process(pid: i32, parent: i32, doing: Vec<ThreadState>) -> ProcessFacts {
    let threads =
        (pid..).zip(doing).map(|(tid, doing)| ThreadFacts { tid, state: doing }).collect();
    ProcessFacts {
        process: ProcRef { pid, start_ticks: 1 },
        parent,
        state: 'S',
        cpu_ns: Some(7),
        self_ticks: 3,
        reaped_children_ticks: 0,
        resident_bytes: 0,
        has_terminal: false,
        has_task_terminal: false,
        is_in_terminal_background: false,
        terminal_echo: None,
        threads,
    }
}

fn sample(at: u64, processes: &[ProcessFacts]) -> TaskSample {
    TaskSample { taken_at: MonotonicMs(at), processes: processes.to_vec() }
}

/// Returns the processes of a task: a shell that waits for its children, and the children.
fn tree(children: Vec<ProcessFacts>) -> Vec<ProcessFacts> {
    let mut all = vec![process(LEADER_PID, 1, vec![blocked_in(BlockingCall::Child, &[])])];
    all.extend(children);
    all
}

fn diagnose_processes(processes: &[ProcessFacts], output: &str) -> Diagnosis {
    let tail = OutputTail::from_bytes(output.as_bytes());
    diagnose(&sample(1_000, processes), &sample(3_000, processes), &tail)
}

fn child(doing: ThreadState) -> ProcessFacts {
    process(101, LEADER_PID, vec![doing])
}

fn diagnose_children(
    children: Vec<ProcessFacts>,
    output: &str,
) -> (WhyVerdict, Option<WaitingOn>, Certainty) {
    let found = diagnose_processes(&tree(children), output);
    (found.verdict, found.waiting_on, found.certainty)
}

/// Failure F37: a process waits for input if the object behind its descriptor is the task's input,
/// a terminal or the output pipe.
#[test]
fn processes_blocked_on_stdin_are_found() {
    let hard = (WhyVerdict::InputWait, None, Certainty::Hard);
    for doing in [
        blocked_read(FdObject::TaskStdin),
        blocked_read(FdObject::Terminal),
        blocked_read(FdObject::OtherTerminal),
        // vim may read the keyboard from standard error, which is the task's output pipe.
        blocked_read(FdObject::OutputPipe),
        blocked_poll(&[FdObject::Terminal]),
        blocked_poll(&[FdObject::TaskStdin]),
        with_timeout(blocked_poll(&[FdObject::TaskStdin]), Some(7)),
    ] {
        assert_eq!(diagnose_children(vec![child(doing.clone())], ""), hard, "{doing:?}");
    }
    // One thread reads; the other threads wait for each other.
    let futex = || blocked_in(BlockingCall::Futex, &[]);
    let node = process(
        101,
        LEADER_PID,
        vec![futex(), futex(), blocked_read(FdObject::TaskStdin), futex()],
    );
    let found = diagnose_processes(&tree(vec![node]), "");
    assert_eq!((found.verdict, found.thread), (WhyVerdict::InputWait, Some(103)));
    assert_eq!(found.process_path, [LEADER_PID, 101]);
    // The leader itself is the reader if the shell has executed the program in its own process.
    let leader = process(LEADER_PID, 1, vec![blocked_read(FdObject::TaskStdin)]);
    assert_eq!(diagnose_processes(&[leader], "").verdict, WhyVerdict::InputWait);
}

/// An editor or a pager waits for keys as long as it is open. Only a line, a secret, or keys outside
/// of the alternate screen are a question.
#[test]
fn a_full_screen_program_that_reads_keys_is_idle() {
    let diagnose_at = |output: &str, canonical, echo, is_alternate| {
        let input = TerminalInput { echo, canonical, reader: None };
        let tail = OutputTail::from_bytes(output.as_bytes()).with_terminal(input, is_alternate);
        let processes = tree(vec![child(blocked_poll(&[FdObject::Terminal]))]);
        let found = diagnose(&sample(1_000, &processes), &sample(3_000, &processes), &tail);
        (found.verdict, found.awaited_input)
    };
    let asks = |awaited| (WhyVerdict::InputWait, Some(awaited));
    let idle = (WhyVerdict::Quiet, Some(AwaitedInput::Keys));
    assert_eq!(diagnose_at("text", false, false, true), idle);
    assert_eq!(diagnose_at("Password: ", false, false, true), idle, "a file with this text");
    assert_eq!(diagnose_at("> ", false, false, false), asks(AwaitedInput::Keys));
    assert_eq!(diagnose_at("name? ", true, true, false), asks(AwaitedInput::Line));
    assert_eq!(diagnose_at("name? ", true, true, true), asks(AwaitedInput::Line));
    assert_eq!(diagnose_at("", true, false, false), asks(AwaitedInput::Secret));
    assert_eq!(diagnose_at("Password: ", false, false, false), asks(AwaitedInput::Secret));
}

/// Failure F38: a thread that reads the keyboard commands of a server or a build tool does not
/// block the work of other threads and processes. A process that waits for the reader does no work.
#[test]
fn a_reader_with_concurrent_work_is_not_waiting_for_input() {
    let reader = || blocked_read(FdObject::TaskStdin);
    let accepts = || blocked_in(BlockingCall::Accept, &[(FdObject::Listener, true)]);
    let serving = (WhyVerdict::Serving, None, Certainty::Hard);
    for threads in [vec![accepts(), reader()], vec![reader(), accepts()]] {
        assert_eq!(diagnose_children(vec![process(101, LEADER_PID, threads.clone())], ""), serving);
        // The verdict is the same if the shell executed the server in its own process.
        let found = diagnose_processes(&[process(LEADER_PID, 1, threads)], "");
        assert_eq!((found.verdict, found.is_urgent()), (WhyVerdict::Serving, false));
    }
    let beside = |work: ThreadState| {
        let tool = process(101, LEADER_PID, vec![blocked_in(BlockingCall::Child, &[]), reader()]);
        vec![tool, process(102, 101, vec![work])]
    };
    let timer = (WhyVerdict::Waiting, Some(WaitingOn::Timer), Certainty::Hard);
    assert_eq!(diagnose_children(beside(blocked_in(BlockingCall::Sleep, &[])), ""), timer);
    assert_eq!(
        diagnose_processes(&tree(beside(blocked_in(BlockingCall::Sleep, &[]))), "")
            .concurrent_reader,
        Some(101)
    );
    let likely = (WhyVerdict::InputLikely, None, Certainty::Soft);
    assert_eq!(
        diagnose_children(beside(blocked_in(BlockingCall::Sleep, &[])), "Continue? [y/N] "),
        likely
    );
    let hard = (WhyVerdict::InputWait, None, Certainty::Hard);
    assert_eq!(diagnose_children(beside(blocked_in(BlockingCall::Futex, &[])), ""), hard);
    // A shell or a script may prompt while its background job runs.
    let job = |parent| process(102, parent, vec![blocked_in(BlockingCall::Sleep, &[])]);
    let own = [process(LEADER_PID, 1, vec![reader()]), job(LEADER_PID)];
    assert_eq!(diagnose_processes(&own, "").verdict, WhyVerdict::InputWait);
    let script = vec![process(101, LEADER_PID, vec![reader()]), job(101)];
    assert_eq!(diagnose_children(script, ""), hard);
}

/// Failure F38: a blocking call on an object other than the input is not a wait for input.
#[test]
fn reading_another_object_is_not_waiting_for_input() {
    use FdObject::{Fifo, File, FileWatch, Listener, Pipe, Socket, WakeupFd};
    let waits = |on| (WhyVerdict::Waiting, Some(on), Certainty::Hard);
    let quiet = (WhyVerdict::Quiet, None, Certainty::None);
    let cases = [
        (blocked_in(BlockingCall::Sleep, &[]), waits(WaitingOn::Timer)),
        (blocked_read(Pipe(7)), waits(WaitingOn::Pipe)),
        (blocked_read(Fifo), waits(WaitingOn::Fifo)),
        (blocked_in(BlockingCall::Open, &[]), waits(WaitingOn::Fifo)),
        (blocked_read(Socket), waits(WaitingOn::Network)),
        (blocked_in(BlockingCall::Transfer, &[(Socket, true)]), waits(WaitingOn::Network)),
        (blocked_in(BlockingCall::Connect, &[(Socket, false)]), waits(WaitingOn::Network)),
        (blocked_read(File), waits(WaitingOn::Disk)),
        (blocked_in(BlockingCall::Sync, &[(File, false)]), waits(WaitingOn::Disk)),
        (blocked_in(BlockingCall::Lock, &[(File, true)]), waits(WaitingOn::Lock)),
        (blocked_in(BlockingCall::Write, &[(Pipe(7), false)]), waits(WaitingOn::Pipe)),
        (blocked_in(BlockingCall::Child, &[]), waits(WaitingOn::Child)),
        (
            blocked_in(BlockingCall::Futex, &[]),
            (WhyVerdict::Waiting, Some(WaitingOn::Lock), Certainty::Soft),
        ),
        (
            blocked_in(BlockingCall::Accept, &[(Listener, true)]),
            (WhyVerdict::Serving, None, Certainty::Hard),
        ),
        (
            blocked_poll(&[WakeupFd, Listener, FdObject::TaskStdin]),
            (WhyVerdict::Serving, None, Certainty::Hard),
        ),
        (blocked_poll(&[WakeupFd, Listener]), (WhyVerdict::Serving, None, Certainty::Hard)),
        (blocked_read(FileWatch), quiet),
        (blocked_poll(&[FileWatch]), quiet),
        (blocked_poll(&[WakeupFd]), quiet),
        // A language server polls its input, but has not asked for any.
        (blocked_poll(&[WakeupFd, FdObject::TaskStdin]), quiet),
    ];
    for (doing, expected) in cases {
        assert_eq!(diagnose_children(vec![child(doing.clone())], "line\n"), expected, "{doing:?}");
    }
}

/// A loop that polls the input with a timeout may do work between the polls: only unchanged
/// processor time proves a single long wait.
#[test]
fn a_polling_loop_is_not_blocked_on_input() {
    let poll =
        |ran_ns| tree(vec![child(with_timeout(blocked_poll(&[FdObject::TaskStdin]), ran_ns))]);
    let tail = OutputTail::from_bytes(b"");
    for (first, second) in [(Some(7), Some(8)), (None, None)] {
        let (first, second) = (sample(0, &poll(first)), sample(150, &poll(second)));
        assert_eq!(diagnose(&first, &second, &tail).verdict, WhyVerdict::Quiet);
    }
}

#[test]
fn one_sample_or_any_cpu_time_proves_no_input_wait() {
    let reader = tree(vec![child(blocked_read(FdObject::TaskStdin))]);
    let tail = OutputTail::from_bytes(b"");
    let before = tree(vec![child(blocked_in(BlockingCall::Other, &[]))]);
    let found = diagnose(&sample(0, &before), &sample(2_000, &reader), &tail);
    assert_eq!((found.verdict, found.is_urgent()), (WhyVerdict::Quiet, false));
    let mut ran = reader.clone();
    ran[1].self_ticks += 1;
    let found = diagnose(&sample(0, &reader), &sample(2_000, &ran), &tail);
    assert_eq!(found.verdict, WhyVerdict::Quiet);
}

/// `cat | sleep 60`: the diagnosis names the reader, but the verdict is the wait of `sleep`.
#[test]
fn a_concurrent_reader_is_reported() {
    let sleep = || process(102, LEADER_PID, vec![blocked_in(BlockingCall::Sleep, &[])]);
    let found =
        diagnose_processes(&tree(vec![child(blocked_read(FdObject::TaskStdin)), sleep()]), "");
    assert_eq!((found.verdict, found.waiting_on), (WhyVerdict::Waiting, Some(WaitingOn::Timer)));
    assert_eq!((found.process_path, found.concurrent_reader), (vec![LEADER_PID, 102], Some(101)));
    // A question at the end of the output makes the reader the probable cause of the silence.
    let found = diagnose_processes(
        &tree(vec![child(blocked_read(FdObject::TaskStdin)), sleep()]),
        "Continue? [y/N] ",
    );
    assert_eq!((found.verdict, found.certainty), (WhyVerdict::InputLikely, Certainty::Soft));
    // The leader's background jobs do not prevent the verdict.
    let mut all = vec![process(LEADER_PID, 1, vec![blocked_read(FdObject::TaskStdin)])];
    all.push(process(102, LEADER_PID, vec![blocked_in(BlockingCall::Sleep, &[])]));
    assert_eq!(diagnose_processes(&all, "").verdict, WhyVerdict::InputWait);
    // Processes between the reader and the leader do not prevent the verdict either: script(1)
    // around a shell.
    let outer = process(
        101,
        LEADER_PID,
        vec![blocked_poll(&[FdObject::TaskStdin, FdObject::Other, FdObject::WakeupFd])],
    );
    let inner = process(102, 101, vec![blocked_read(FdObject::Terminal)]);
    let found = diagnose_processes(&tree(vec![outer, inner]), "");
    assert_eq!(
        (found.verdict, found.input_channel),
        (WhyVerdict::InputWait, Some(FdObject::TaskStdin))
    );
}

/// Failure F39: an event loop is diagnosed as waiting for input only after a prompt or an
/// incomplete line in the output.
#[test]
fn an_event_loop_after_a_prompt_likely_waits_for_input() {
    let soft = (WhyVerdict::InputLikely, None, Certainty::Soft);
    let node =
        || vec![child(blocked_poll(&[FdObject::WakeupFd, FdObject::Pipe(3), FdObject::TaskStdin]))];
    assert_eq!(diagnose_children(node(), "package name: (work) "), soft);
    assert_eq!(diagnose_children(node(), "? Pick one\n❯ a\n  b\n"), soft);
    assert_eq!(diagnose_children(node(), "ready\n").0, WhyVerdict::Quiet);
    let server = || {
        vec![child(blocked_poll(&[FdObject::WakeupFd, FdObject::Listener, FdObject::TaskStdin]))]
    };
    assert_eq!(diagnose_children(server(), "listening on 3000").0, WhyVerdict::Serving);
    assert_eq!(diagnose_children(server(), "Port 3000 is in use. Use 3001? (Y/n) "), soft);
}

#[test]
fn a_prompt_without_a_reader_is_not_an_input_wait() {
    for call in [BlockingCall::Sleep, BlockingCall::Connect, BlockingCall::Lock] {
        let found = diagnose_children(vec![child(blocked_in(call, &[]))], "Continue? [y/N] ");
        assert_eq!(found.0, WhyVerdict::Waiting, "{call:?}");
    }
}

#[test]
fn only_a_foreground_reader_of_the_tasks_terminal_is_its_reader() {
    let reader = |one: &ProcessFacts| find_terminal_reader(&sample(0, std::slice::from_ref(one)));
    let reads =
        |doing| ProcessFacts { has_terminal: true, has_task_terminal: true, ..child(doing) };
    let found_in = |is_in_read, timed_wait_cpu_ns| {
        let process = ProcRef { pid: 101, start_ticks: 1 };
        TerminalReader::Found(ReaderFact { process, is_in_read, timed_wait_cpu_ns })
    };
    let found = |is_in_read| found_in(is_in_read, None);
    let shell = reads(blocked_read(FdObject::Terminal));
    assert_eq!(reader(&shell), found(true));
    let editor = reads(blocked_poll(&[FdObject::WakeupFd, FdObject::Terminal]));
    assert_eq!(reader(&editor), found(false));
    let polls = with_timeout(blocked_poll(&[FdObject::Terminal]), Some(7));
    assert_eq!(reader(&reads(polls)), found_in(false, Some(7)));
    let none = [
        // A job in the background.
        ProcessFacts { is_in_terminal_background: true, ..shell.clone() },
        // A shell in tmux: `/dev/tty`, for example, is its own terminal.
        ProcessFacts { has_task_terminal: false, ..shell.clone() },
        ProcessFacts { state: 'T', ..shell },
        // The descriptor of another terminal, or of no terminal.
        reads(blocked_read(FdObject::OtherTerminal)),
        reads(blocked_poll(&[FdObject::WakeupFd, FdObject::OtherTerminal])),
        reads(blocked_read(FdObject::TaskStdin)),
    ];
    for process in none {
        assert_eq!(reader(&process), TerminalReader::None, "{process:?}");
    }
    assert_eq!(reader(&reads(ThreadState::Denied)), TerminalReader::Hidden);
    let elsewhere = ProcessFacts { has_task_terminal: false, ..reads(ThreadState::Denied) };
    assert_eq!(reader(&elsewhere), TerminalReader::None);
}

#[test]
fn tty_stops_and_other_stops_are_distinguished() {
    let stopped = |has_terminal, is_behind| {
        let mut one = child(blocked_read(FdObject::Terminal));
        one.state = 'T';
        ProcessFacts { has_terminal, is_in_terminal_background: is_behind, ..one }
    };
    let hard = |verdict| (verdict, None, Certainty::Hard);
    assert_eq!(diagnose_children(vec![stopped(true, true)], ""), hard(WhyVerdict::TtyStopped));
    assert_eq!(diagnose_children(vec![stopped(false, true)], ""), hard(WhyVerdict::Stopped));
    assert_eq!(diagnose_children(vec![stopped(true, false)], ""), hard(WhyVerdict::Stopped));
}

/// Kernel fact K18: a process that cannot be inspected is diagnosed from its terminal and the last
/// line of output.
#[test]
fn a_hidden_process_is_unknown_without_a_password_prompt() {
    let sudo = |echoes| ProcessFacts {
        terminal_echo: echoes,
        has_terminal: true,
        ..child(ThreadState::Denied)
    };
    let asks = "[sudo] password for jane: ";
    assert_eq!(diagnose_children(vec![sudo(Some(false))], asks).0, WhyVerdict::PasswordLikely);
    assert_eq!(diagnose_children(vec![sudo(None)], asks).0, WhyVerdict::PasswordLikely);
    assert_eq!(
        diagnose_children(vec![sudo(Some(false))], "PIN code, jane ").0,
        WhyVerdict::PasswordLikely
    );
    assert_eq!(diagnose_children(vec![sudo(Some(true))], "working\n").0, WhyVerdict::Unknown);
    let found = diagnose_processes(&tree(vec![sudo(None)]), asks);
    let advice = found.advice(fixed::task_id(), StdinMode::Pipe);
    assert!(advice.contains("only the user") && !advice.contains("siding input"), "{advice}");
}

#[test]
fn cpu_time_covers_the_whole_tree() {
    let busy = |ticks| {
        let mut all = tree(vec![child(ThreadState::Running)]);
        all[1].self_ticks = ticks;
        all
    };
    let tail = OutputTail::from_bytes(b"");
    let found = diagnose(&sample(0, &busy(0)), &sample(1_000, &busy(98)), &tail);
    assert_eq!((found.verdict, found.cpu_permille), (WhyVerdict::Busy, 980));
    assert_eq!((found.certainty, found.process_path.last()), (Certainty::Hard, Some(&101)));
    // The kernel adds the time of ended programs to their parent, so a loop of short programs is
    // busy, too.
    let mut parent = tree(vec![child(blocked_in(BlockingCall::Child, &[]))]);
    let before = sample(0, &parent);
    parent[1].reaped_children_ticks = 50;
    assert_eq!(diagnose(&before, &sample(1_000, &parent), &tail).verdict, WhyVerdict::Busy);
}

fn any_object() -> impl Strategy<Value = FdObject> {
    use FdObject::{
        Fifo, File, FileWatch, Listener, Other, OtherTerminal, OutputPipe, Pipe, Socket, TaskStdin,
        Terminal,
    };
    prop::sample::select(vec![
        TaskStdin,
        OutputPipe,
        Terminal,
        OtherTerminal,
        Pipe(3),
        Fifo,
        Listener,
        Socket,
        FileWatch,
        File,
        Other,
    ])
}

fn any_doing() -> impl Strategy<Value = ThreadState> {
    let calls = [
        BlockingCall::Read,
        BlockingCall::Write,
        BlockingCall::Poll,
        BlockingCall::Accept,
        BlockingCall::Connect,
        BlockingCall::Transfer,
        BlockingCall::Child,
        BlockingCall::Sleep,
        BlockingCall::Futex,
        BlockingCall::Lock,
        BlockingCall::Open,
        BlockingCall::Signal,
        BlockingCall::Sync,
    ];
    let sleeping = (
        prop::sample::select(calls.to_vec()),
        prop::collection::vec((any_object(), any::<bool>()), 0..4),
        any::<bool>(),
    )
        .prop_map(|(call, on, endless)| {
            if endless {
                blocked_in(call, &on)
            } else {
                with_timeout(blocked_in(call, &on), Some(1))
            }
        });
    prop_oneof![8 => sleeping, 1 => Just(ThreadState::Running), 1 => Just(ThreadState::Denied)]
}

proptest! {
    #[test]
    fn no_verdict_claims_more_than_was_sampled(
        shapes in prop::collection::vec((0_usize..4, prop::collection::vec(any_doing(), 1..3)), 1..6),
        output in prop::sample::select(vec!["", "line\n", "half a", "Continue? [y/N] ", "Password: "]),
    ) {
        let mut all = tree(vec![]);
        for (parent, doing) in shapes {
            let parent = all[parent.min(all.len() - 1)].process.pid;
            let pid = all.last().map_or(LEADER_PID, |last| last.process.pid) + 10;
            all.push(process(pid, parent, doing));
        }
        let found = diagnose_processes(&all, output);
        let takes_input = |one: &ProcessFacts| one.threads.iter().any(|thread| {
            matches!(&thread.state, ThreadState::Blocked(asleep) if asleep.blocked_on.iter().any(|on| on.for_reading && on.object.accepts_typed_input()))
        });
        // A wait for input requires a process with access to input.
        if found.verdict == WhyVerdict::InputWait {
            prop_assert!(all.iter().any(takes_input));
            prop_assert_eq!(found.certainty, Certainty::Hard);
        }
        prop_assert_eq!(found.waiting_on.is_some(), found.verdict == WhyVerdict::Waiting);
        // Each process in the path is the parent of the next process.
        for pair in found.process_path.windows(2) {
            let child = all.iter().find(|one| one.process.pid == pair[1]).expect("in the tree");
            prop_assert_eq!(child.parent, pair[0]);
        }
        // The advice is one sentence for every diagnosis.
        let advice = found.advice(fixed::task_id(), StdinMode::Null);
        prop_assert!(advice.ends_with('.') && !advice.contains("siding input"));
        // Without a first sample there is no interval over which a process could be seen to wait.
        let alone = diagnose(&sample(0, &[]), &sample(1, &all), &OutputTail::from_bytes(b""));
        prop_assert!(!alone.is_urgent());
    }
}
