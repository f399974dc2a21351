use siding_model::id::{Birthmark, TaskId, TaskKind};

use super::*;

fn check(weight: Weight, state: State) -> Check {
    Check { name: "x", state, weight, found: String::new(), without: "" }
}

#[test]
fn the_verdict_follows_the_weights() {
    let fine = check(Weight::Needed, State::Ok);
    assert_eq!(verdict(&[]), Verdict::Whole);
    assert_eq!(verdict(&[fine.clone(), check(Weight::Comfort, State::Missing)]), Verdict::Whole);
    assert_eq!(verdict(&[fine.clone(), check(Weight::Guarantee, State::Limited)]), Verdict::Weaker);
    assert_eq!(verdict(&[fine, check(Weight::Guarantee, State::Missing)]), Verdict::Weaker);
    assert_eq!(verdict(&[check(Weight::Needed, State::Limited)]), Verdict::Weaker);
    let broken = [check(Weight::Needed, State::Missing), check(Weight::Guarantee, State::Limited)];
    assert_eq!(verdict(&broken), Verdict::Broken);
}

#[test]
fn hidepid_is_read_from_the_last_mount_on_proc() {
    let plain = "22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n";
    assert_eq!(kernel::hidepid(plain), None);
    let over = format!("{plain}99 22 0:50 / /proc rw - proc proc rw,gid=5,hidepid=invisible\n");
    assert_eq!(kernel::hidepid(&over).as_deref(), Some("invisible"));
    assert_eq!(kernel::hidepid("1 2 0:1 / /proc/sys rw - proc proc rw,hidepid=2"), None);
}

#[test]
fn a_network_file_system_is_told() {
    assert_eq!(place::judge(0x6969).0, State::Limited);
    assert_eq!(place::judge(0xef53), (State::Ok, "ext4, local".to_owned()));
    assert_eq!(place::judge(0x1234).0, State::Ok);
}

#[test]
fn room_for_nested_tasks_shrinks() {
    assert_eq!(kernel::room(None).0, State::Ok);
    let task = TaskId::new(TaskKind::LocalBash, TaskId::MAX_BITS).expect("is one").birthmark();
    let (state, found) = kernel::room(Some(task));
    assert_eq!(state, State::Ok);
    assert!(found.contains("inside task b-"), "{found}");
    assert_eq!(kernel::room(Some(Birthmark(TaskId::MIN_BITS * 4))).0, State::Limited);
    assert_eq!(kernel::room(Some(Birthmark(TaskId::MIN_BITS))).0, State::Missing);
    assert_eq!(kernel::room(Some(Birthmark(200_000))).0, State::Missing);
}

#[test]
fn looking_leaves_nothing_behind_and_fits_a_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let checks = examine(Some(&state), "sh");
    let names: Vec<_> = checks.iter().map(|check| check.name).collect();
    for wanted in ["pidfd_open", "hole punching", "flock", "unix socket", "file system", "Yama"] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    for check in &checks {
        assert!(check.without.len() <= 78, "{}", check.without);
    }
    let mut left: Vec<_> = std::fs::read_dir(&state)
        .expect("is there")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["aside", "live", "same", "sessions", "tasks"]);
}

#[test]
fn without_a_place_for_state_it_cannot_work() {
    assert_eq!(verdict(&examine(None, "sh")), Verdict::Broken);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("written");
    assert_eq!(verdict(&examine(Some(&file), "sh")), Verdict::Broken);
    let checks = examine(Some(dir.path()), "no-such-shell-anywhere");
    let shell = checks.iter().find(|check| check.name == "shell").expect("is looked for");
    assert_eq!(shell.state, State::Limited);
}
