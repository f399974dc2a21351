//! The translation of remote records into records of the mirror's journal.

use crate::executor::RemoteExecutor;
use crate::lifecycle::TaskEvent;
use crate::mirror::{RemoteClock, RemoteEvent};
use crate::process::LeaderRef;
use crate::protocol::{ShimMessage, ShimRequest};
use crate::record::Record;
use crate::terminal::{TerminalEvent, TerminalFacts};

/// Returns the local record of a remote one. `None` for the first record of the journal, which
/// [`RemoteMessage::Accepted`](super::RemoteMessage::Accepted) replaces.
#[must_use]
pub fn local_record(clock: RemoteClock, record: Record) -> Option<Record> {
    Some(match record {
        Record::Accepted(_) => return None,
        // The caller waits on this machine, so the mirror records the placement itself. A takeover
        // on the remote machine does not concern the local shim. The deadline counts from either
        // record on.
        Record::Event { at, event: TaskEvent::Placed { .. } } | Record::Rescued { at, .. } => {
            Record::Remote(RemoteEvent::DeadlineCounted { at: clock.to_local(at) })
        }
        Record::Event { at, event } => {
            Record::Event { at: clock.to_local(at), event: local_event(clock, event) }
        }
        Record::OutputLost { at, from, error } => {
            Record::OutputLost { at: clock.to_local(at), from, error }
        }
        Record::Matched { at, text, lines, dropped, to } => {
            Record::Matched { at: clock.to_local(at), text, lines, dropped, to }
        }
        Record::Stalled(mut stall) => {
            stall.at = clock.to_local(stall.at);
            Record::Stalled(stall)
        }
        Record::Resumed { at, by } => Record::Resumed { at: clock.to_local(at), by },
        Record::Limit(mut breach) => {
            breach.at = clock.to_local(breach.at);
            Record::Limit(breach)
        }
        Record::Expiring { at, deadline } => {
            Record::Expiring { at: clock.to_local(at), deadline: clock.to_local(deadline) }
        }
        Record::Ready(mut ready) => {
            ready.at = clock.to_local(ready.at);
            Record::Ready(ready)
        }
        Record::Denied { at, host } => Record::Denied { at: clock.to_local(at), host },
        Record::Terminal(event) => {
            let at = clock.to_local(event.time());
            Record::Terminal(event.with_time(at))
        }
        Record::Closed(mut closed) => {
            closed.at = clock.to_local(closed.at);
            closed.wall = clock.to_local_wall(closed.wall);
            Record::Closed(closed)
        }
        // Only a mirror writes these records, and a remote task is no mirror.
        Record::Remote(event) => Record::Remote(event),
    })
}

/// Returns a record with offsets in the whole output of a job, which begins with `earlier` bytes of
/// interrupted attempts.
pub(super) fn with_earlier_output(mut record: Record, earlier: u64) -> Record {
    if let Record::Matched { to: offset, .. }
    | Record::OutputLost { from: offset, .. }
    | Record::Terminal(
        TerminalEvent::Resized { offset, .. } | TerminalEvent::Returned { offset, .. },
    ) = &mut record
    {
        *offset = offset.saturating_add(earlier);
    }
    record
}

/// Returns a request of a local client with an offset in the output of the current attempt. On this
/// machine, `earlier` bytes of interrupted attempts precede that output.
#[must_use]
pub fn remote_request(mut request: ShimRequest, earlier: u64) -> ShimRequest {
    if let ShimRequest::TerminalWrite { if_output: Some(offset), .. } = &mut request {
        // An offset in an earlier attempt differs from every length of the current output.
        *offset = offset.checked_sub(earlier).unwrap_or(u64::MAX);
    }
    request
}

/// Returns a message of the remote shim with an offset in the whole output of a job, which begins
/// with `earlier` bytes of interrupted attempts.
pub(super) fn local_message(mut message: ShimMessage, earlier: u64) -> ShimMessage {
    if let ShimMessage::OutputDiffers { bytes }
    | ShimMessage::Terminal { facts: TerminalFacts { output_bytes: bytes, .. } } = &mut message
    {
        *bytes = bytes.saturating_add(earlier);
    }
    message
}

/// Adds the machine and the next steps to a record that says that the working directory of the task
/// cannot be used on the remote machine. Only this machine has the settings that map directories.
/// `machine` is the remote machine's own name.
pub(super) fn with_directory_advice(
    mut record: Record,
    executor: &RemoteExecutor,
    machine: Option<&str>,
    directory: &str,
) -> Record {
    if let Record::Event { event: TaskEvent::SpawnFailed { error, .. }, .. } = &mut record
        && error.starts_with(format!("directory `{directory}`: ").as_str())
    {
        let name = &executor.name;
        let machine = machine.map_or_else(String::new, |machine| format!(" ({machine})"));
        // The nodes of a cluster without a destination share the files of this machine.
        let copy = if executor.destination.is_some() {
            "copy the project there with `--sync`, "
        } else {
            ""
        };
        *error = format!(
            "{name}{machine}: {error}; {copy}map the directory with `paths` of `[executor.{name}]`, \
             or name one that exists on both machines with `--cwd`"
        );
    }
    record
}

fn local_event(clock: RemoteClock, event: TaskEvent) -> TaskEvent {
    match event {
        // The pid belongs to a process of the remote machine. Without a start time it is never
        // taken for a local process.
        TaskEvent::Spawned { leader } => {
            TaskEvent::Spawned { leader: LeaderRef::Unidentified { pid: leader.pid() } }
        }
        TaskEvent::Extended { deadline, by, job_limit } => {
            TaskEvent::Extended { deadline: clock.to_local(deadline), by, job_limit }
        }
        TaskEvent::SpawnFailed { .. }
        | TaskEvent::LeaderEnded { .. }
        | TaskEvent::TreeEmpty
        | TaskEvent::StopAsked { .. }
        | TaskEvent::DeadlinePassed
        | TaskEvent::LimitPassed { .. }
        | TaskEvent::GraceOver
        | TaskEvent::Placed { .. }
        | TaskEvent::Swept { .. }
        | TaskEvent::Released { .. }
        | TaskEvent::Vanished { .. } => event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{MonotonicMs, ProcRef};
    use crate::terminal::TerminalUser;

    #[test]
    fn a_remote_pid_is_not_taken_for_a_local_process() {
        let clock = RemoteClock { monotonic_ahead_ms: 1, wall_ahead_ms: 0 };
        let leader = LeaderRef::Identified(ProcRef { pid: 7, start_ticks: 9 });
        let spawned = Record::Event { at: MonotonicMs(3), event: TaskEvent::Spawned { leader } };
        let event = TaskEvent::Spawned { leader: LeaderRef::Unidentified { pid: 7 } };
        let local = Record::Event { at: MonotonicMs(2), event };
        assert_eq!(local_record(clock, spawned), Some(local));
    }

    #[test]
    fn offsets_count_the_output_of_interrupted_attempts() {
        let matched = |to| {
            let text = "ready".to_owned();
            Record::Matched { at: MonotonicMs(1), text, lines: 1, dropped: 0, to }
        };
        assert_eq!(with_earlier_output(matched(6), 480), matched(486));
        let resumed = Record::Resumed { at: MonotonicMs(1), by: None };
        assert_eq!(with_earlier_output(resumed.clone(), 480), resumed);
        let returned =
            |offset| Record::Terminal(TerminalEvent::Returned { at: MonotonicMs(1), offset });
        assert_eq!(with_earlier_output(returned(6), 480), returned(486));
    }

    #[test]
    fn keys_name_the_output_of_the_present_attempt() {
        let keys = |if_output| ShimRequest::TerminalWrite {
            bytes: b"y".to_vec(),
            user: TerminalUser::Agent,
            by: "test".to_owned(),
            if_output,
            is_secret: false,
        };
        assert_eq!(remote_request(keys(Some(486)), 480), keys(Some(6)));
        assert_eq!(remote_request(keys(Some(6)), 480), keys(Some(u64::MAX)));
        assert_eq!(remote_request(keys(None), 480), keys(None));
        let differs = |bytes| ShimMessage::OutputDiffers { bytes };
        assert_eq!(local_message(differs(6), 480), differs(486));
        assert_eq!(local_message(ShimMessage::Done, 480), ShimMessage::Done);
    }

    #[test]
    fn a_missing_directory_is_reported_with_the_machine_and_the_ways_out() {
        let failed = |error: &str| {
            let event = TaskEvent::SpawnFailed { error: error.to_owned(), errno: 0 };
            Record::Event { at: MonotonicMs(1), event }
        };
        let mut executor = RemoteExecutor {
            name: "build".to_owned(),
            destination: Some("me@build".to_owned()),
            slurm: None,
            program: None,
            ssh_variables: Vec::new(),
        };
        let missing = failed("directory `/home/me/src`: no such directory");
        let advised = |executor: &RemoteExecutor, record: Record| {
            with_directory_advice(record, executor, Some("build07"), "/home/me/src")
        };
        let expected = "build (build07): directory `/home/me/src`: no such directory; copy the \
            project there with `--sync`, map the directory with `paths` of `[executor.build]`, or \
            name one that exists on both machines with `--cwd`";
        assert_eq!(advised(&executor, missing.clone()), failed(expected));
        let other = failed("directory `/other`: no such directory");
        assert_eq!(advised(&executor, other.clone()), other);
        executor.destination = None;
        let Record::Event { event: TaskEvent::SpawnFailed { error, .. }, .. } =
            advised(&executor, missing)
        else {
            panic!("it stays an event");
        };
        assert!(error.contains("`paths`") && !error.contains("--sync"), "{error}");
    }

    /// The mirror counts the copied records to know where to continue, so each remote record after
    /// the first must become exactly one record that counts.
    #[test]
    fn each_remote_record_counts_once() {
        let clock = RemoteClock { monotonic_ahead_ms: 0, wall_ahead_ms: 0 };
        let at = MonotonicMs(5);
        let why = crate::outcome::BackgroundReason::Budget;
        let shim = ProcRef { pid: 1, start_ticks: 1 };
        for remote in [
            Record::Rescued { at, shim },
            Record::Event { at, event: TaskEvent::Placed { why } },
            Record::Event { at, event: TaskEvent::TreeEmpty },
            Record::Closed(Box::default()),
        ] {
            let local = local_record(clock, remote.clone()).expect("it is not the first");
            assert!(local.is_copied(), "{remote:?}");
        }
    }
}
