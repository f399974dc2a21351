//! Tests which sessions are live, with real processes as owners, and which session inherits the
//! tasks of an ended one.

use std::process::{Command, Stdio};

use siding_model::process::UnixMs;

use super::*;

#[test]
fn a_session_that_was_resumed_meanwhile_is_not_closed() {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
    let id: SessionId = "chat".parse().expect("a name");
    let mut owner = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
    let pid = |owner: u32| i32::try_from(owner).expect("small");
    let opened = open(&root, &id, pid(owner.id())).expect("opened");
    drop(owner.stdin.take());
    let _already_ended = owner.wait().expect("its child");
    assert!(require_live(&root, &id).is_err(), "over");
    open(&root, &id, pid(std::process::id())).expect("resumed");
    assert!(!close_if_unchanged(&root, &opened).expect("asked"));
    let seen = require_live(&root, &id).expect("still open");
    assert!(close_if_unchanged(&root, &seen).expect("asked"));
    assert!(matches!(require_live(&root, &id), Err(SessionError::Ended { .. })));
    assert!(!close_if_unchanged(&root, &seen).expect("asked"), "once");
}

#[test]
fn every_owner_since_the_last_close_keeps_the_session_live() {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
    let id: SessionId = "chat".parse().expect("a name");
    let own = procfs::self_ref().expect("this process");
    let boot = procfs::boot_id().expect("this boot");
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
    let other_pid = i32::try_from(other.id()).expect("small");
    for pid in [own.pid, other_pid, own.pid, other_pid] {
        let opened = open(&root, &id, pid).expect("opened");
        assert_eq!(opened.owner(&boot).pid, pid, "the newest");
    }
    drop(other.stdin.take());
    let _already_ended = other.wait().expect("its child");
    let session = require_live(&root, &id).expect("an owner lives");
    assert!(session.is_owned_by(own, &boot) && session.owner(&boot) == own);
    assert_eq!(list_owned_by(&root, own).expect("read"), [session]);
    close(&root, &id).expect("closed");
    let mut last = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
    let last_pid = i32::try_from(last.id()).expect("small");
    let session = open(&root, &id, last_pid).expect("opened");
    assert!(!session.is_owned_by(own, &boot), "owners from before the close do not count");
    drop(last.stdin.take());
    let _already_ended = last.wait().expect("its child");
    assert!(require_live(&root, &id).is_err());
}

/// Returns a session with this owner; `place` is the text of the record's location fields, or
/// empty.
fn session_opened_by(own: ProcRef, boot: &str, place: &str) -> Session {
    let owner = serde_json::to_string(&own).expect("plain");
    let json = format!(
        r#"{{"record":"opened","format":1,"boot":"{boot}","owner":{owner},"wall":1{place}}}"#
    );
    let record: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let mut line = Vec::new();
    write_line(&mut line, 0, &record);
    replay(&"chat".parse().expect("a name"), &line).expect("whole").expect("opened")
}

#[test]
fn an_owner_on_another_machine_or_pid_namespace_may_live() {
    let own = procfs::self_ref().expect("this process");
    let boot = procfs::boot_id().expect("this boot");
    let namespace = procfs::pid_namespace().expect("this namespace");
    let here =
        format!(r#","machine":"{}","pid_ns":{namespace}"#, crate::sys::system_info::system_id());
    let inner = format!(r#","machine":"other","pid_ns":{}"#, namespace + 1);
    for (what, of, place, is_live, may_live) in [
        ("this boot, no location recorded", &boot.0[..], "", true, false),
        ("earlier boot, no location recorded", "earlier", "", false, false),
        ("this boot and location", &boot.0, &here, true, false),
        ("earlier boot, this location", "earlier", &here, false, false),
        ("another machine", "theirs", &inner, false, true),
        ("another PID namespace", &boot.0, &inner, false, true),
    ] {
        let session = session_opened_by(own, of, place);
        assert_eq!(session.is_live(&boot), is_live, "{what}");
        assert_eq!(session.is_owned_by(own, &boot), is_live, "{what}");
        assert_eq!(session.may_live_elsewhere(&boot), may_live, "{what}");
    }
}

/// A shim that takes over a task may be in a different PID namespace from the task's owner.
#[test]
fn tasks_of_an_owner_in_another_pid_namespace_are_not_ended() {
    let sandbox = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&sandbox.path().join("state")).expect("a state directory");
    let id: SessionId = "agent".parse().expect("a name");
    let boot = procfs::boot_id().expect("this boot");
    let gone = serde_json::json!({
        "record": "opened",
        "format": 1,
        "boot": boot,
        "owner": ProcRef { pid: 1 << 30, start_ticks: 1 },
        "pid_ns": procfs::pid_namespace().expect("this namespace") + 1,
        "wall": 1,
    });
    let record: SessionRecord = serde_json::from_value(gone).expect("a record");
    append_record(&root, &id, &record).expect("own directory");
    assert!(!is_ended(&root, &id, &boot));
    let unknown = inheriting_session(&root, &id, &boot).expect_err("its owner cannot be seen");
    assert!(matches!(unknown, SessionError::Elsewhere { .. }), "{unknown}");
    close(&root, &id).expect("closed");
    assert!(is_ended(&root, &id, &boot));
}

#[test]
fn a_turn_start_is_recorded_with_millisecond_precision() {
    let sandbox = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&sandbox.path().join("state")).expect("a state directory");
    let id: SessionId = "agent".parse().expect("a name");
    let own = i32::try_from(std::process::id()).expect("small");
    open(&root, &id, own).expect("opened");
    for before in 0..50 {
        let from = clock::unix_now();
        let turn = start_turn(&root, &id).expect("counted");
        assert_eq!(turn.previous_turns, before);
        let to = clock::unix_now();
        let dir = root.session_dir(id.as_str(), false).expect("its directory");
        let noted = UnixMs(file::modified_ms(&dir, "turns").expect("there"));
        assert!(from <= noted && noted <= to, "{from:?} {noted:?} {to:?}");
    }
}

#[test]
fn concurrent_turns_are_all_counted() {
    const THREADS: u64 = 8;
    const TURNS_PER_THREAD: u64 = 50;
    let sandbox = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&sandbox.path().join("state")).expect("a state directory");
    let id: SessionId = "agent".parse().expect("a name");
    open(&root, &id, procfs::self_ref().expect("this process").pid).expect("opened");
    let count_in_thread = || {
        let mut held = 0;
        for _ in 0..TURNS_PER_THREAD {
            start_turn(&root, &id).expect("counted");
            held += u64::from(count_hold(&root, &id, false, u64::MAX).expect("counted"));
        }
        held
    };
    let held: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(count_in_thread)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let total = THREADS * TURNS_PER_THREAD;
    assert_eq!(held, total);
    let dir = root.session_dir(id.as_str(), false).expect("its directory");
    for counter in ["turns", "held_turns"] {
        assert_eq!(file::metadata_at(&dir, counter).expect("there").len, total);
    }
}

#[test]
fn a_turn_lasts_from_its_start_to_the_next_recorded_end() {
    let sandbox = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&sandbox.path().join("state")).expect("a state directory");
    let id: SessionId = "agent".parse().expect("a name");
    open(&root, &id, procfs::self_ref().expect("this process").pid).expect("opened");
    let is_idle = || is_between_turns(&root, &id).expect("readable");
    assert!(is_idle(), "no turn has started");
    for _ in 0..2 {
        for _ in 0..2 {
            start_turn(&root, &id).expect("counted");
            assert!(!is_idle());
        }
        for _ in 0..2 {
            record_turn_end(&root, &id).expect("recorded");
            assert!(is_idle());
        }
    }
}

/// A process that exits when the value is dropped.
struct OwnerProcess(std::process::Child);

impl OwnerProcess {
    fn new() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts"))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("small")
    }
}

impl Drop for OwnerProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _already_ended = self.0.wait();
    }
}

fn holder_of(root: &StateDir, id: &SessionId) -> Option<String> {
    let boot = procfs::boot_id().expect("this boot");
    inheriting_session(root, id, &boot)
        .expect("all can be read")
        .map(|session| session.id.to_string())
}

fn inherited_by(root: &StateDir, id: &SessionId) -> Vec<String> {
    let boot = procfs::boot_id().expect("this boot");
    let mut names: Vec<String> = inherited_sessions(root, id, &boot)
        .expect("listed")
        .iter()
        .map(|session| {
            assert!(is_inherited_by(root, session, id, &boot), "{session}");
            session.to_string()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn tasks_of_an_ended_subagent_go_to_the_nearest_live_ancestor() {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
    let top: SessionId = "chat".parse().expect("a name");
    let agent =
        || subagent_session_id(root.new_id(siding_model::id::TaskKind::LocalAgent).expect("an id"));
    let (middle, low) = (agent(), agent());
    let owners = [OwnerProcess::new(), OwnerProcess::new(), OwnerProcess::new()];
    assert!(
        matches!(
            open_child(&root, &middle, owners[1].pid(), &top),
            Err(SessionError::Unknown { .. })
        ),
        "the parent session is not open"
    );
    open(&root, &top, owners[0].pid()).expect("opened");
    open_child(&root, &middle, owners[1].pid(), &top).expect("opened");
    open_child(&root, &low, owners[2].pid(), &middle).expect("opened");
    let name = |id: &SessionId| Some(id.to_string());
    assert_eq!((depth(&root, &top), depth(&root, &low)), (0, 2));
    assert_eq!(root_session(&root, &low), top);
    assert_eq!(session_tree(&root, &top).expect("listed").len(), 3);
    assert_eq!(session_tree(&root, &low).expect("listed"), [low.clone()].into());
    assert_eq!(holder_of(&root, &low), name(&low));
    assert!(inherited_by(&root, &top).is_empty());

    let [first, second, third] = owners;
    // The middle session ends; the lowest one keeps its own tasks.
    drop(second);
    assert_eq!(holder_of(&root, &middle), name(&top));
    assert_eq!(
        (holder_of(&root, &low), inherited_by(&root, &top)),
        (name(&low), vec![middle.to_string()])
    );
    drop(third);
    assert_eq!(holder_of(&root, &low), name(&top));
    let mut both = vec![middle.to_string(), low.to_string()];
    both.sort();
    assert_eq!(inherited_by(&root, &top), both);
    assert!(share_owner(&root, &top, &low), "the ancestor's owner is the owner of both");

    // The middle session is reopened: it owns its tasks again and keeps its parent.
    let again = OwnerProcess::new();
    open(&root, &middle, again.pid()).expect("opened");
    assert_eq!((holder_of(&root, &low), inherited_by(&root, &top)), (name(&middle), Vec::new()));
    assert_eq!(inherited_by(&root, &middle), [low.to_string()]);
    close(&root, &middle).expect("closed");
    assert_eq!(holder_of(&root, &low), name(&top), "a closed session has ended too");
    drop(first);
    let boot = procfs::boot_id().expect("this boot");
    assert_eq!(holder_of(&root, &low), None);
    assert!(is_ended(&root, &low, &boot) && is_ended(&root, &middle, &boot));

    // If the journal of the topmost session has a newer format or cannot be read, it is unknown
    // whether that session is live.
    let newer = SessionRecord::Opened {
        format: record::SESSION_FORMAT + 1,
        owner: super::SessionOwner::for_local_process(
            procfs::self_ref().expect("this process"),
            boot.clone(),
        ),
        parent_session: None,
        wall: clock::unix_now(),
    };
    append_record(&root, &top, &newer).expect("own directory");
    assert!(inheriting_session(&root, &low, &boot).is_err() && !is_ended(&root, &low, &boot));
    let journal = root.path().join("sessions").join(top.as_str()).join("journal");
    std::fs::remove_file(&journal).expect("own file");
    std::fs::create_dir(&journal).expect("own directory");
    assert!(inheriting_session(&root, &low, &boot).is_err() && !is_ended(&root, &low, &boot));
    std::fs::remove_dir(&journal).expect("own directory");
    std::fs::write(&journal, "damaged\n").expect("own directory");
    assert!(is_ended(&root, &low, &boot), "a damaged session owns nothing");
}

/// An earlier version does not know `parent_session` and must not read such a record.
#[test]
fn a_session_with_a_parent_has_a_format_of_its_own() {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
    let own = procfs::self_ref().expect("this process").pid;
    let (parent, child) = ("talk".parse().expect("a name"), "child".parse().expect("a name"));
    open(&root, &parent, own).expect("opened");
    let opened = open_child(&root, &child, own, &parent).expect("opened");
    assert_eq!(opened.parent, Some(parent.clone()));
    for (id, expected) in [(&parent, r#""format":1,"#), (&child, r#""format":2,"#)] {
        let path = root.path().join("sessions").join(id.as_str()).join("journal");
        let text = std::fs::read_to_string(path).expect("own file");
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.contains(r#""parent_session":"talk""#), *id == child, "{text}");
    }
}

/// The counter file of an earlier version, whose value is one in this test, is renamed and
/// incremented.
#[test]
fn held_turns_of_an_earlier_version_count() {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
    let id: SessionId = "talk".parse().expect("a name");
    open(&root, &id, procfs::self_ref().expect("this process").pid).expect("opened");
    let session_dir = root.path().join("sessions/talk");
    std::fs::write(session_dir.join("holds"), ".").expect("own directory");
    let hold = |is_first| count_hold(&root, &id, is_first, 2).expect("counted");
    assert_eq!([hold(false), hold(false), hold(true)], [true, false, true]);
    assert!(!session_dir.join("holds").exists());
}

/// Records of earlier versions have no parent, or have the parent in the field `under`.
#[test]
fn a_session_record_without_a_parent_has_no_parent() {
    let own = procfs::self_ref().expect("this process");
    let boot = procfs::boot_id().expect("this boot");
    assert_eq!(session_opened_by(own, &boot.0, "").parent, None);
    let parent_session = session_opened_by(own, &boot.0, r#","under":"talk""#).parent;
    assert_eq!(parent_session, Some("talk".parse().expect("a name")));
}
