//! Tests the expiry of sessions and of data that was set aside.

use super::*;
use crate::store::{OLD_QUARANTINE_DIR, QUARANTINE_DIR};

/// Writes a session that this owner opened `ago` before now, and sets the age of its directory to
/// the same time.
fn dead_session(place: &ReapFixture, name: &str, owner: ProcRef, ago: Duration) {
    let boot = procfs::boot_id().expect("is there");
    old_session(place, name, ago, serde_json::json!({ "boot": boot, "owner": owner }));
}

fn old_session(place: &ReapFixture, name: &str, ago: Duration, owner: serde_json::Value) {
    let dir = place.path(&format!("sessions/{name}"));
    std::fs::create_dir(&dir).expect("made");
    let wall = clock::unix_now().plus_ms(-i64::try_from(ago.as_millis()).expect("fits"));
    let mut record = owner;
    record["record"] = "opened".into();
    record["format"] = 1.into();
    record["wall"] = wall.0.into();
    let mut line = Vec::new();
    siding_model::record::write_line(&mut line, 0, &record);
    std::fs::write(dir.join("journal"), line).expect("written");
    std::fs::write(dir.join("acks"), "").expect("written");
    let then = SystemTime::now() - ago;
    std::fs::File::open(&dir).and_then(|dir| dir.set_modified(then)).expect("is ours");
}

const THIRTY_DAYS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An old session is removed only if its owner is dead and no task belongs to the session.
#[test]
fn ended_sessions_without_tasks_are_removed() {
    let place = ReapFixture::new();
    let own = procfs::self_ref().expect("runs");
    for (name, owner, ago) in [
        ("old", DEAD_PROCESS, THIRTY_DAYS),
        ("lives", own, THIRTY_DAYS),
        ("young", DEAD_PROCESS, Duration::from_secs(60)),
        ("has-task", DEAD_PROCESS, THIRTY_DAYS),
        ("has-ended", DEAD_PROCESS, THIRTY_DAYS),
        ("resumed", DEAD_PROCESS, THIRTY_DAYS),
    ] {
        dead_session(&place, name, owner, ago);
    }
    let there = serde_json::json!({ "boot": "theirs", "machine": "theirs", "owner": DEAD_PROCESS });
    // Ten days are longer than a session of this machine is kept, and shorter than one of another
    // machine.
    old_session(&place, "elsewhere", THIRTY_DAYS / 3, there.clone());
    old_session(&place, "never-heard-of", THIRTY_DAYS, there);
    dead_session(&place, "damaged", DEAD_PROCESS, THIRTY_DAYS);
    std::fs::write(place.path("sessions/damaged/journal"), "x").expect("written");
    // A valid record of a newer format, whose content cannot be read.
    let (mut line, record) = (Vec::new(), serde_json::json!({"record": "opened", "format": 99}));
    siding_model::record::write_line(&mut line, 0, &record);
    std::fs::write(place.path("sessions/damaged/journal"), line).expect("written");
    std::fs::create_dir(place.path("sessions/cli")).expect("made");
    make_old(&place.path("sessions/cli"));
    place.add_task(own, None, "has-task");
    let ended = place.add_task(DEAD_PROCESS, Some(clock::unix_now()), "has-ended");
    session::open(&place.root, &"resumed".parse().expect("a name"), own.pid).expect("opened");
    let name = |step: &ReapStep| {
        let ReapStep::SessionExpired { session_id, .. } = step else { return None };
        Some(session_id.to_string())
    };
    let before = directory_contents(place.root.path());
    let foreseen: Vec<_> = place.plan_all().iter().filter_map(name).collect();
    assert_eq!(
        (&foreseen[..], directory_contents(place.root.path())),
        (&["never-heard-of".to_owned(), "old".to_owned()][..], before)
    );
    let done: Vec<_> = place.reap_all().iter().filter_map(name).collect();
    assert_eq!(done, ["never-heard-of", "old"]);
    let left = place.root.session_names().expect("lists");
    let kept =
        ["cli", "damaged", "elsewhere", "has-ended", "has-task", "lives", "resumed", "young"];
    assert_eq!(left, kept);
    // The session is removed after its last task, and a removed session can be opened again.
    let dir =
        place.root.task_dir(ended).expect("is there").try_lock().expect("works").expect("free");
    place.root.remove_task(&dir).expect("removed");
    assert_eq!(place.reap_all().iter().filter_map(name).collect::<Vec<_>>(), ["has-ended"]);
    session::open(&place.root, &"old".parse().expect("a name"), own.pid).expect("opened");
    assert!(place.reap_all().iter().filter_map(name).next().is_none());
}

/// Data that was set aside is removed by the time in its name. Entries without such a name were not
/// created by siding and are kept.
#[test]
fn data_set_aside_is_removed_after_retention() {
    // Earlier versions set data aside in the second directory.
    for directory in [QUARANTINE_DIR, OLD_QUARANTINE_DIR] {
        assert_expired_entries_are_removed(directory);
    }
}

fn assert_expired_entries_are_removed(directory: &str) {
    let place = ReapFixture::new();
    let now = clock::unix_now().0;
    let then = now - i64::try_from(THIRTY_DAYS.as_millis()).expect("fits");
    let id = place.root.new_id(TaskKind::LocalBash).expect("an id");
    let names = [
        format!("{id}.{then}"),
        format!("history.db.{then}"),
        format!("{id}.{now}"),
        format!("{id}.{}", now + 1_000_000),
        "notes.txt".to_owned(),
    ];
    for name in &names {
        std::fs::create_dir_all(place.path(&format!("{directory}/{name}/deep"))).expect("made");
    }
    let stray = MarkedChild::start(id);
    let expired = |steps: Vec<ReapStep>| {
        let path = |step: &ReapStep| {
            let ReapStep::QuarantineExpired { path, .. } = step else { return None };
            Some(path.clone())
        };
        let mut paths: Vec<_> = steps.iter().filter_map(path).collect();
        paths.sort_unstable();
        paths
    };
    let mut wanted = vec![format!("{directory}/{}", names[0]), format!("{directory}/{}", names[1])];
    wanted.sort_unstable();
    assert_eq!(expired(place.plan_all()), wanted);
    assert_eq!(expired(place.reap_all()), wanted, "its strays were ended first");
    assert!(!stray.runs());
    let left = std::fs::read_dir(place.path(directory)).expect("is there").count();
    assert_eq!(left, 3);
}
