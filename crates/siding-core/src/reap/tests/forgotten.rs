//! What goes when nobody needs it any more, and what stays.

use super::*;

/// A session's journal as it would be after its owner's end, `ago` before now, with its files as
/// old as that.
fn dead_session(place: &Place, name: &str, owner: ProcRef, ago: Duration) {
    let boot = procfs::boot_id().expect("is there");
    old_session(place, name, ago, serde_json::json!({ "boot": boot, "owner": owner }));
}

fn old_session(place: &Place, name: &str, ago: Duration, owner: serde_json::Value) {
    let dir = place.path(&format!("sessions/{name}"));
    std::fs::create_dir(&dir).expect("made");
    let wall = clock::wall().plus_ms(-i64::try_from(ago.as_millis()).expect("fits"));
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

const WEEKS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Liveness decides, and what a task still needs; age only comes on top.
#[test]
fn sessions_that_are_over_are_forgotten() {
    let place = Place::new();
    let own = procfs::own().expect("runs");
    for (name, owner, ago) in [
        ("old", GONE, WEEKS),
        ("lives", own, WEEKS),
        ("young", GONE, Duration::from_secs(60)),
        ("has-task", GONE, WEEKS),
        ("has-ended", GONE, WEEKS),
        ("resumed", GONE, WEEKS),
    ] {
        dead_session(&place, name, owner, ago);
    }
    let there = serde_json::json!({ "boot": "theirs", "machine": "theirs", "owner": GONE });
    // A third of that is longer than others are kept.
    old_session(&place, "elsewhere", WEEKS / 3, there.clone());
    old_session(&place, "never-heard-of", WEEKS, there);
    dead_session(&place, "damaged", GONE, WEEKS);
    std::fs::write(place.path("sessions/damaged/journal"), "x").expect("written");
    // It holds a record, and what it is about cannot be read.
    let (mut line, record) = (Vec::new(), serde_json::json!({"record": "opened", "format": 99}));
    siding_model::record::write_line(&mut line, 0, &record);
    std::fs::write(place.path("sessions/damaged/journal"), line).expect("written");
    std::fs::create_dir(place.path("sessions/cli")).expect("made");
    make_old(&place.path("sessions/cli"));
    place.task(own, None, "has-task");
    let ended = place.task(GONE, Some(clock::wall()), "has-ended");
    session::open(&place.root, &"resumed".parse().expect("a name"), own.pid).expect("opened");
    let name = |step: &Step| {
        let Step::SessionExpired { session_id, .. } = step else { return None };
        Some(session_id.to_string())
    };
    let before = contents(place.root.path());
    let foreseen: Vec<_> = place.foresee().iter().filter_map(name).collect();
    assert_eq!(
        (&foreseen[..], contents(place.root.path())),
        (&["never-heard-of".to_owned(), "old".to_owned()][..], before)
    );
    let done: Vec<_> = place.act().iter().filter_map(name).collect();
    assert_eq!(done, ["never-heard-of", "old"]);
    let left = place.root.sessions().expect("lists");
    let kept =
        ["cli", "damaged", "elsewhere", "has-ended", "has-task", "lives", "resumed", "young"];
    assert_eq!(left, kept);
    // It goes with its last task, and one that was forgotten can be opened again.
    let dir = place.root.task(ended).expect("is there").try_lock().expect("works").expect("free");
    place.root.remove_task(&dir).expect("removed");
    assert_eq!(place.act().iter().filter_map(name).collect::<Vec<_>>(), ["has-ended"]);
    session::open(&place.root, &"old".parse().expect("a name"), own.pid).expect("opened");
    assert!(place.act().iter().filter_map(name).next().is_none());
}

/// What was set aside goes by its age, and only what siding has put there.
#[test]
fn what_was_set_aside_is_removed_in_the_end() {
    let place = Place::new();
    let now = clock::wall().0;
    let then = now - i64::try_from(WEEKS.as_millis()).expect("fits");
    let id = place.root.new_id(TaskKind::LocalBash).expect("an id");
    let names = [
        format!("{id}.{then}"),
        format!("history.db.{then}"),
        format!("{id}.{now}"),
        format!("{id}.{}", now + 1_000_000),
        "notes.txt".to_owned(),
    ];
    for name in &names {
        std::fs::create_dir_all(place.path(&format!("aside/{name}/deep"))).expect("made");
    }
    let stray = Marked::start(id);
    let expired = |steps: Vec<Step>| {
        let path = |step: &Step| {
            let Step::AsideExpired { path, .. } = step else { return None };
            Some(path.clone())
        };
        let mut paths: Vec<_> = steps.iter().filter_map(path).collect();
        paths.sort_unstable();
        paths
    };
    let mut wanted = vec![format!("aside/{}", names[0]), format!("aside/{}", names[1])];
    wanted.sort_unstable();
    assert_eq!(expired(place.foresee()), wanted);
    assert_eq!(expired(place.act()), wanted, "its strays were ended first");
    assert!(!stray.runs());
    let left = std::fs::read_dir(place.path("aside")).expect("is there").count();
    assert_eq!(left, 3);
}
