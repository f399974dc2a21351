//! The entries in the journal of systemd, with the setting `log_journald`.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use siding_e2e::processes::{self, Process};
use siding_e2e::{Sandbox, eventually, mounts, words};

use crate::support::{HANG_COMMAND, run_ok, run_to_end, sandbox, show_task, start_task};

/// Receives the entries that siding sends in the mount namespace of this test.
struct SystemJournal(UnixDatagram);

impl SystemJournal {
    /// Binds the journal's socket in a private `/run`; `None` without root's rights.
    fn start() -> Option<Self> {
        let made = mounts::unshare_mounts()
            .and_then(|()| mounts::mount_tmpfs(Path::new("/run"), 0, None))
            .and_then(|()| std::fs::create_dir_all("/run/systemd/journal"));
        if let Err(error) = made {
            eprintln!("skipped: no private /run: {error}");
            return None;
        }
        let socket = UnixDatagram::bind("/run/systemd/journal/socket").expect("binds");
        socket.set_read_timeout(Some(siding_e2e::POLL_DEADLINE)).expect("a timeout");
        Some(Self(socket))
    }

    /// Returns the fields of the next entry, in the simple form of the native protocol.
    #[track_caller]
    fn next(&self) -> BTreeMap<String, String> {
        let mut bytes = [0; 4096];
        let count = self.0.recv(&mut bytes).expect("an entry within the deadline");
        let text = std::str::from_utf8(&bytes[..count]).expect("UTF-8");
        let line = |line: &str| {
            let (name, value) = line.split_once('=').expect("NAME=value");
            assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{name}");
            (name.to_owned(), value.to_owned())
        };
        let fields: BTreeMap<String, String> = text.lines().map(line).collect();
        assert_eq!(fields["SYSLOG_IDENTIFIER"], "siding");
        assert_eq!(fields["MESSAGE_ID"].len(), 32);
        assert!(fields["MESSAGE"].len() > 10, "{text}");
        fields
    }

    #[track_caller]
    fn assert_empty(&self) {
        self.0.set_nonblocking(true).expect("a socket");
        let mut bytes = [0; 4096];
        let received = self.0.recv(&mut bytes).map(|count| bytes[..count].to_vec());
        assert!(received.is_err(), "{received:?}");
        self.0.set_nonblocking(false).expect("a socket");
    }
}

fn logging_sandbox() -> Sandbox {
    let sandbox = sandbox();
    let _set = run_ok(&sandbox, &["config", "set", "log_journald", "true"]);
    sandbox
}

#[test]
fn starts_stops_and_ends_are_logged_without_commands() {
    let Some(journal) = SystemJournal::start() else { return };
    let quiet = sandbox();
    let _id = run_to_end(&quiet, "true");
    journal.assert_empty();

    let sandbox = logging_sandbox();
    let id = run_to_end(&sandbox, "exit 7 # secret");
    let (started, ended) = (journal.next(), journal.next());
    assert_eq!(started["SIDING_TASK_ID"], id);
    assert_eq!(started["PRIORITY"], "6");
    assert_eq!(ended["SIDING_TASK_ID"], id);
    assert_eq!((&*ended["SIDING_OUTCOME"], &*ended["SIDING_EXIT_CODE"]), ("failed", "7"));
    assert_eq!((&*ended["PRIORITY"], &*ended["SIDING_SESSION"]), ("4", "cli"));
    assert_ne!(started["MESSAGE_ID"], ended["MESSAGE_ID"]);

    let id = start_task(&sandbox, &[], HANG_COMMAND);
    assert!(journal.next()["MESSAGE"].contains("started"));
    let _stopped = run_ok(&sandbox, &["stop", &id]);
    let (stopping, ended) = (journal.next(), journal.next());
    assert_eq!(stopping["SIDING_CAUSE"], "user");
    assert_eq!((&*ended["SIDING_OUTCOME"], &*ended["SIDING_TASK_ID"]), ("stopped", &*id));

    let _failed = sandbox.siding(&["run", "--", "/absent/secret", "word"]).run();
    let ended = journal.next();
    assert_eq!(ended["SIDING_OUTCOME"], "failed_to_start");
    for entry in [&started, &stopping, &ended] {
        assert!(!format!("{entry:?}").contains("secret"), "{entry:?}");
    }
    journal.assert_empty();
}

/// The end of a task whose shim was killed is logged by the command that records the end.
#[test]
fn a_recorded_end_is_logged() {
    let Some(journal) = SystemJournal::start() else { return };
    let sandbox = logging_sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let _started = journal.next();
    // The shim is killed first: otherwise it would record the end.
    let shim = show_task(&sandbox, &id)["shim_pid"].as_u64().expect("a live task");
    let shim = Process::from_pid(u32::try_from(shim).expect("a pid")).expect("the shim is alive");
    shim.kill();
    processes::with_birthmark(&id).into_iter().for_each(Process::kill);
    eventually("no process is left", || processes::with_birthmark(&id).is_empty());
    let _repaired = run_ok(&sandbox, &["ps"]);
    let ended = journal.next();
    assert_eq!(ended["SIDING_TASK_ID"], id);
    // A kernel that keeps the exit status for a pidfd lets the repair find the signal.
    let outcome = &*ended["SIDING_OUTCOME"];
    assert!(["signaled", "lost"].contains(&outcome), "{ended:?}");
}

/// A process that the reaper terminated is logged with its task. A dry run logs
/// nothing.
#[test]
fn a_reaped_process_is_logged() {
    let Some(journal) = SystemJournal::start() else { return };
    let sandbox = logging_sandbox();
    let id = run_to_end(&sandbox, "true");
    let (_started, _ended) = (journal.next(), journal.next());
    let mark = processes::birthmark_from_id(&id).expect("a task's id");
    let limit = format!("--rttime={mark}:{mark}");
    let argv = sandbox.puppet_argv(&words("--quiet mark stray hang"));
    let stray = sandbox.host("prlimit", &[vec![limit], argv].concat()).spawn();
    let _announced = sandbox.wait_for_mark("stray");
    let _foretold = run_ok(&sandbox, &["reap", "--dry-run"]);
    journal.assert_empty();
    let _reaped = run_ok(&sandbox, &["reap"]);
    let entry = journal.next();
    assert_eq!(entry["SIDING_PID"], stray.process().pid.to_string());
    assert_eq!((&*entry["SIDING_TASK_ID"], &*entry["PRIORITY"]), (&*id, "5"), "{entry:?}");
    assert_eq!(entry["SIDING_RULE"], "its task has ended");
    let _ended = stray.wait().expect_signal(15);
    journal.assert_empty();
}

/// A journal that does not read its socket delays no task.
#[test]
fn a_journal_that_does_not_read_delays_nothing() {
    let Some(journal) = SystemJournal::start() else { return };
    let sandbox = logging_sandbox();
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.set_nonblocking(true).expect("a socket");
    while sender.send_to(b"MESSAGE=full\n", "/run/systemd/journal/socket").is_ok() {}
    let id = run_to_end(&sandbox, "exit 3");
    assert_eq!(show_task(&sandbox, &id)["outcome"]["code"], 3);
    drop(journal);
    let _id = run_to_end(&sandbox, "true");
}
