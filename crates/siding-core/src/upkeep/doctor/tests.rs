use siding_model::id::{Birthmark, TaskId, TaskKind};

use super::*;

fn check_with(weight: CheckWeight, state: CheckState) -> Check {
    Check { name: "x", state, weight, found: String::new(), missing_guarantee: "" }
}

#[test]
fn the_verdict_depends_on_weight_and_state() {
    let fine = check_with(CheckWeight::Needed, CheckState::Ok);
    assert_eq!(verdict(&[]), DoctorVerdict::Whole);
    assert_eq!(
        verdict(&[fine.clone(), check_with(CheckWeight::Comfort, CheckState::Missing)]),
        DoctorVerdict::Whole
    );
    assert_eq!(
        verdict(&[fine.clone(), check_with(CheckWeight::Guarantee, CheckState::Limited)]),
        DoctorVerdict::Weaker
    );
    assert_eq!(
        verdict(&[fine, check_with(CheckWeight::Guarantee, CheckState::Missing)]),
        DoctorVerdict::Weaker
    );
    assert_eq!(
        verdict(&[check_with(CheckWeight::Needed, CheckState::Limited)]),
        DoctorVerdict::Weaker
    );
    let broken = [
        check_with(CheckWeight::Needed, CheckState::Missing),
        check_with(CheckWeight::Guarantee, CheckState::Limited),
    ];
    assert_eq!(verdict(&broken), DoctorVerdict::Broken);
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
fn a_network_file_system_is_reported() {
    assert_eq!(state_dir::classify_file_system(0x6969).0, CheckState::Limited);
    assert_eq!(state_dir::classify_file_system(0xef53), (CheckState::Ok, "ext4, local".to_owned()));
    assert_eq!(state_dir::classify_file_system(0x1234).0, CheckState::Ok);
}

#[test]
fn nesting_room_shrinks_with_the_birthmark() {
    let (state, found) = kernel::nesting_room(None);
    assert_eq!(state, CheckState::Ok);
    // A task is refused once at most 2^28 of the 2^60 ids are left, and ln(2^60 / 2^28) = 22.2.
    assert_eq!(found, "free; tasks may be nested about 22 deep");
    let task = TaskId::new(TaskKind::LocalBash, TaskId::MAX_BITS).expect("is one").birthmark();
    let (state, found) = kernel::nesting_room(Some(task));
    assert_eq!(state, CheckState::Ok);
    assert!(found.contains("inside task b-"), "{found}");
    assert_eq!(kernel::nesting_room(Some(Birthmark(TaskId::MIN_BITS * 4))).0, CheckState::Ok);
    for (remaining_ids, state) in [
        (TaskId::TOO_FEW_IDS * 8, CheckState::Limited),
        (TaskId::TOO_FEW_IDS + (1 << 12), CheckState::Limited),
        (TaskId::TOO_FEW_IDS, CheckState::Missing),
        (1 << 17, CheckState::Missing),
    ] {
        let mark = TaskId::MIN_BITS + remaining_ids;
        assert_eq!(kernel::nesting_room(Some(Birthmark(mark))).0, state, "{remaining_ids}");
        let id = TaskId::from_random(TaskKind::LocalBash, 7, mark);
        assert_eq!(id.is_none(), state == CheckState::Missing, "{remaining_ids}");
    }
    assert_eq!(kernel::nesting_room(Some(Birthmark(TaskId::MIN_BITS))).0, CheckState::Missing);
    assert_eq!(kernel::nesting_room(Some(Birthmark(200_000))).0, CheckState::Missing);
}

#[test]
fn checks_leave_no_files_and_fit_on_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let checks = run_checks(Some(&state), "sh");
    let names: Vec<_> = checks.iter().map(|check| check.name).collect();
    for wanted in ["pidfd_open", "hole punching", "flock", "unix socket", "file system", "Yama"] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    for check in &checks {
        assert!(check.missing_guarantee.len() <= 78, "{}", check.missing_guarantee);
    }
    let mut left: Vec<_> = std::fs::read_dir(&state)
        .expect("is there")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["dedup", "live", "quarantine", "sessions", "tasks"]);
}

#[test]
fn a_missing_state_directory_gives_the_broken_verdict() {
    assert_eq!(verdict(&run_checks(None, "sh")), DoctorVerdict::Broken);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("written");
    assert_eq!(verdict(&run_checks(Some(&file), "sh")), DoctorVerdict::Broken);
    let checks = run_checks(Some(dir.path()), "no-such-shell-anywhere");
    let shell = checks.iter().find(|check| check.name == "shell").expect("the shell is checked");
    assert_eq!(shell.state, CheckState::Limited);
}
