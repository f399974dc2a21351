//! Tasks that damage their own directory or descriptors still end, and no siding command hangs or
//! crashes because of the damage.

use siding_e2e::processes::{is_heartbeat_running, is_heartbeat_stopped};
use siding_e2e::{Sandbox, eventually, is_root, words};

use crate::{OTHER_UID, Task, assert_no_crash_or_hang, assert_task_exits, gate, live_shim, shell};

/// The end of a task after its action: by `siding stop`, or at its deadline if the action can make
/// `siding stop` fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedEnd {
    ByStop,
    ByDeadline,
}

/// Actions of a task on its own directory `$D` and on its inherited descriptors.
const DESTRUCTIVE_ACTIONS: &[(&str, ExpectedEnd)] = &[
    ("rm -f $D/*", ExpectedEnd::ByDeadline),
    ("rm -rf $D", ExpectedEnd::ByDeadline),
    ("mv $D $D.away", ExpectedEnd::ByDeadline),
    ("rm -f $D/journal", ExpectedEnd::ByDeadline),
    (": > $D/journal", ExpectedEnd::ByDeadline),
    ("head -c 9999 /dev/urandom > $D/journal", ExpectedEnd::ByDeadline),
    ("head -c 9999 /dev/urandom >> $D/journal", ExpectedEnd::ByDeadline),
    ("rm -f $D/ctl", ExpectedEnd::ByDeadline),
    ("rm -f $D/ctl; mkfifo $D/ctl", ExpectedEnd::ByDeadline),
    ("rm -f $D/out.fifo $D/output", ExpectedEnd::ByStop),
    ("rm -f $D/output; mkfifo $D/output", ExpectedEnd::ByStop),
    ("rm -f $D/output; ln -s /etc/passwd $D/output", ExpectedEnd::ByStop),
    ("rm -f $D/../../live/$SIDING_TASK", ExpectedEnd::ByStop),
    ("rm -rf $D/../../live $D/../../dedup", ExpectedEnd::ByStop),
    ("mkdir $D/$'\\377'; : > $D/$'\\377'/$'\\377'", ExpectedEnd::ByStop),
    ("exec 60<&- 61>&-", ExpectedEnd::ByStop),
    ("head -c 300000 /dev/zero >&61; printf 'exit\\0x\\0/\\0' >&61", ExpectedEnd::ByStop),
    ("truncate -s 10G /proc/self/fd/61", ExpectedEnd::ByStop),
    ("ulimit -n 9", ExpectedEnd::ByStop),
];

/// Further actions, which have an effect only for users other than root.
const CHMOD_ACTIONS: &[(&str, ExpectedEnd)] = &[
    ("chmod 000 $D", ExpectedEnd::ByDeadline),
    ("chmod 000 $D/*", ExpectedEnd::ByDeadline),
    ("chmod 000 $D/ctl $D/out.fifo", ExpectedEnd::ByDeadline),
    ("chmod 500 $D/../..; chmod 500 $D", ExpectedEnd::ByStop),
    ("chmod 000 $D/../..", ExpectedEnd::ByDeadline),
];

/// Runs a task that performs `act`, calls commands that read or stop the task, and waits until all
/// processes of the task have exited.
fn run_destructive_task(mut sandbox: Sandbox, act: &str, ends: ExpectedEnd) {
    sandbox.expect_clean();
    let gate = gate(&sandbox);
    let hang = sandbox.puppet_line(&words("mark done fork setsid hang -- hang"));
    let text = format!(
        "D=$SIDING_STATE_DIR/tasks/$SIDING_TASK; read -r x < {}; {act}; exec {hang}",
        gate.display()
    );
    let life = if ends == ExpectedEnd::ByStop { "50s" } else { "2s" };
    let args = ["run", "--background", "--json", "--timeout", life, "--grace", "0s", "--", &text];
    let task = Task::of(&sandbox.siding(&args).run().expect_code(0));
    let (id, shim) = (task.id(), live_shim(&task));
    // The task waits for this line before its action, so that the `run` call above reads an intact
    // task.
    std::fs::write(gate, "\n").expect("the task reads the FIFO");
    let _done = sandbox.wait_for_mark("done");
    // Many threads of this test fork concurrently, so a forked copy of the test program may briefly
    // hold the pipes of this call.
    let call = |args: &[&str]| sandbox.siding(args).allow_held_output();
    for args in [&["show", id][..], &["ps"], &["output", "--all", id], &["reap", "--dry-run"]] {
        assert_no_crash_or_hang(&call(args).run());
    }
    // An action can make the task look as if its creation had not finished. Both calls then wait
    // for up to ten seconds, so they run concurrently.
    let waiting = call(&["wait", "--timeout", "10ms", id]).spawn();
    let stopped = call(&["stop", id]).run();
    for done in [&stopped, &waiting.wait()] {
        assert_no_crash_or_hang(done);
    }
    assert!(ends == ExpectedEnd::ByDeadline || stopped.code == Some(0), "{act}: {stopped}");
    eventually(&format!("the shim has exited: {act}"), || !shim.is_alive());
    assert_task_exits(id);
    if act == "chmod 000 $D/../.." {
        return;
    }
    // The damage does not affect later tasks.
    let next = shell(&sandbox, "echo fine").run();
    assert!(next.code == Some(0) && Task::of(&next).file() == b"fine\n", "{act}: {next}");
}

/// Runs all actions concurrently, because the test spends most of its time waiting for deadlines.
fn run_all_destructive_tasks(all: &[(&str, ExpectedEnd)], sandbox: impl Fn(u32) -> Sandbox + Sync) {
    std::thread::scope(|scope| {
        for (number, (act, ends)) in (0..).zip(all) {
            let sandbox = &sandbox;
            scope.spawn(move || run_destructive_task(sandbox(number), act, *ends));
        }
    });
}

#[test]
fn task_that_damages_its_own_directory_is_ended() {
    run_all_destructive_tasks(DESTRUCTIVE_ACTIONS, |_| Sandbox::new());
}

#[test]
fn task_that_removes_permissions_is_ended() {
    if !is_root() {
        eprintln!("skipped: only root can run programs as another user");
        return;
    }
    run_all_destructive_tasks(CHMOD_ACTIONS, |number| {
        Sandbox::new_for_uid(OTHER_UID + 10 + number)
    });
}

#[test]
fn task_cannot_escape_a_stop_by_changing_itself() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for script in [
        "closefds beat BEAT",
        "lower-rttime beat BEAT",
        "lower-rttime fork daemon beat BEAT -- hang",
        "closefds lower-rttime clearenv rename init daemon beat BEAT",
        "leader-exits lower-rttime closefds beat BEAT",
    ] {
        let beat = sandbox.path("beat");
        let script = script.replace("BEAT", &beat.display().to_string());
        let argv = sandbox.puppet_argv(&words(&script));
        let args = ["run", "--background", "--json", "--grace", "0s", "--"].map(str::to_owned);
        let started = sandbox.siding(&[&args[..], &argv].concat()).run();
        let task = Task::of(&started);
        assert!(is_heartbeat_running(&beat), "{script}");
        let stopped = sandbox.siding(&["stop", "--json", task.id()]).run().expect_code(0);
        assert!(is_heartbeat_stopped(&beat), "{script}: {stopped}");
        assert_eq!(Task::of(&stopped).text("/phase"), "ended");
        assert_task_exits(task.id());
    }
}

/// The shell reports its final directory and pipeline statuses through a memory file
/// (memfd_create(2)) that the command can also write to. A forged report does not change the
/// outcome, because the shim gets the outcome from the kernel.
#[test]
fn forged_shell_report_does_not_change_the_outcome() {
    let sandbox = Sandbox::new();
    for garbage in [
        "head -c 300000 /dev/urandom >&61",
        "printf 'exit\\0000\\000/forged\\0001\\0002\\000\\000' >&61",
        "printf 'return0\\0007\\000\\033[31m\\0007\\000\\000' >&61 | cat",
        "for i in 1 2 3 4 5 6 7 8 9; do printf 'exit\\000' >&61; done",
        "truncate -s 0 /proc/self/fd/61",
        "truncate -s 20G /proc/self/fd/61",
        "exec 61>&-",
        "exec 60>&- 61>/dev/null",
        "head -c 100000 /dev/urandom >&60",
    ] {
        let text = format!("{{ {garbage}; }} 2>/dev/null; echo words; exit 3");
        let done = shell(&sandbox, &text).run();
        assert_no_crash_or_hang(&done);
        let task = Task::of(&done.expect_code(3));
        assert_eq!(task.number("/outcome/code"), 3, "{garbage}");
        assert_eq!(task.file(), b"words\n", "{garbage}");
        let shown = sandbox.siding(&["show", task.id()]).run().expect_code(0);
        assert!(!shown.stdout_text().contains('\u{1b}'), "{garbage}: {shown}");
    }
}
