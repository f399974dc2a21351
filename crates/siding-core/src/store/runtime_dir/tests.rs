use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use siding_model::id::TaskKind;

use super::*;
use crate::store::{StateDir, StoreError, task_files};
use crate::sys::process;
use crate::task::recover::{Recovery, RecoveryOutcome};

/// The magic numbers of NFS, ext4 and overlayfs, from statfs(2).
const NFS_MAGIC: u64 = 0x6969;
const EXT4_MAGIC: u64 = 0xef53;
const OVERLAY_MAGIC: u64 = 0x794c_7630;

/// A state directory on a file system that the test chooses.
struct StateDirFixture {
    dir: tempfile::TempDir,
}

impl StateDirFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // The parent of the base directory, which siding itself creates with mode 0700.
        std::fs::create_dir(dir.path().join("run")).expect("own directory");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn root(&self, magic: u64) -> StateDir {
        self.root_with(magic, &["run/siding"]).expect("opens")
    }

    fn root_with(&self, magic: u64, candidates: &[&str]) -> Result<StateDir, StoreError> {
        let candidates = candidates.iter().map(|name| self.path(name)).collect();
        StateDir::open_on(&self.path("state"), |_| Ok(magic), || candidates)
    }

    fn names(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).expect("is there");
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("text")
        };
        entries.map(name).collect()
    }

    fn rewrite_record(&self, id: TaskId, from: &str, to: &str) {
        let path = self.path(&format!("state/tasks/{id}/{RECORD_FILE}"));
        let text = std::fs::read_to_string(&path).expect("is there");
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, to)).expect("own file");
    }
}

fn create_task(root: &StateDir) -> (TaskId, crate::store::TaskDir) {
    let id = root.new_id(TaskKind::LocalBash).expect("an id");
    (id, root.create_task(id).expect("a directory"))
}

#[test]
fn only_a_network_file_system_needs_a_runtime_directory() {
    for magic in [EXT4_MAGIC, OVERLAY_MAGIC, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0, u64::MAX] {
        let never = || panic!("a local file system needs no candidates");
        assert!(RuntimeBase::for_file_system(magic, never).is_none(), "{magic:#x}");
    }
    for (magic, name) in
        [(NFS_MAGIC, "nfs"), (0x6573_5546, "fuse"), (0xff53_4d42, "cifs"), (0x0102_1997, "9p")]
    {
        let runtime = RuntimeBase::for_file_system(magic, Vec::new).expect("is one of the network");
        assert_eq!(runtime.file_system(), name);
    }
}

#[test]
fn an_unidentified_file_system_is_treated_as_local() {
    let state = StateDirFixture::new();
    let refused = |_: BorrowedFd<'_>| Err(io::ErrorKind::Unsupported.into());
    let root = StateDir::open_on(&state.path("state"), refused, Vec::new).expect("opens");
    assert!(root.runtime_base().is_none());
}

#[test]
fn a_directory_that_other_users_can_access_is_refused() {
    assert_eq!(base::check_base(7, 0o700, 7, EXT4_MAGIC), Ok(()));
    assert!(base::check_base(8, 0o700, 7, EXT4_MAGIC).is_err_and(|why| why.contains("user 8")));
    for mode in [0o770, 0o710, 0o701, 0o777, 0o1777] {
        assert!(base::check_base(7, mode, 7, EXT4_MAGIC).is_err(), "{mode:o}");
    }
    assert!(base::check_base(7, 0o700, 7, NFS_MAGIC).is_err_and(|why| why.contains("nfs")));
}

#[test]
fn the_last_candidate_does_not_depend_on_a_login_session() {
    let uid = process::effective_uid();
    let candidates = base_candidates();
    assert!(candidates.len() >= 2, "{candidates:?}");
    assert!(candidates.ends_with(&[
        PathBuf::from(format!("/run/user/{uid}/siding")),
        PathBuf::from(format!("/tmp/siding-{uid}")),
    ]));
}

#[test]
fn on_a_local_file_system_everything_is_in_the_task_directory() {
    let state = StateDirFixture::new();
    let root = state.root(EXT4_MAGIC);
    let (id, dir) = create_task(&root);
    assert!(dir.runtime_dir().is_none() && dir.endpoint_dir().is_ok());
    assert_eq!(state.names(&format!("state/tasks/{id}")), Vec::<String>::new());
    assert_eq!(state.names("run"), Vec::<String>::new());
}

#[test]
fn a_runtime_dir_is_found_by_its_record_not_by_the_environment() {
    let state = StateDirFixture::new();
    let (id, dir) = create_task(&state.root(NFS_MAGIC));
    file::create_fifo(dir.endpoint_dir().expect("a place"), crate::store::task_files::OUTPUT_FIFO)
        .expect("made");
    assert!(state.path(&format!("run/siding/{id}/out.fifo")).exists());
    let other = state.root_with(NFS_MAGIC, &["elsewhere/siding"]).expect("opens");
    let found = other.task_dir(id).expect("is there");
    assert!(
        file::metadata_at(
            found.endpoint_dir().expect("found"),
            crate::store::task_files::OUTPUT_FIFO
        )
        .is_ok()
    );
    assert!(found.try_lock().expect("works").is_none(), "the first has the lock");
    drop(dir);
    let locked = other.task_dir(id).expect("is there").try_lock().expect("works").expect("is free");
    other.remove_task(&locked).expect("removed");
    assert_eq!(state.names("run/siding"), Vec::<String>::new());
    assert_eq!(state.names("state/tasks"), Vec::<String>::new());
}

/// A task without a record was started by an earlier version, or while the root was on a local file
/// system.
#[test]
fn a_task_without_a_record_uses_its_own_directory() {
    let state = StateDirFixture::new();
    let (id, dir) = create_task(&state.root(EXT4_MAGIC));
    file::create_fifo(&dir, crate::store::task_files::OUTPUT_FIFO).expect("made");
    let found = state.root(NFS_MAGIC).task_dir(id).expect("is there");
    assert!(
        file::metadata_at(
            found.endpoint_dir().expect("its own"),
            crate::store::task_files::OUTPUT_FIFO
        )
        .is_ok()
    );
    found.remove_transient();
    assert_eq!(state.names(&format!("state/tasks/{id}")), Vec::<String>::new());
}

#[test]
fn the_first_usable_candidate_is_chosen() {
    let state = StateDirFixture::new();
    std::fs::create_dir(state.path("open")).expect("own directory");
    std::fs::set_permissions(state.path("open"), std::fs::Permissions::from_mode(0o777))
        .expect("own directory");
    symlink(state.path("run"), state.path("link")).expect("a link");
    std::fs::write(state.path("file"), "").expect("written");
    let bad = ["missing/siding", "open", "link", "file"];
    let root = state.root_with(NFS_MAGIC, &[&bad[..], &["run/siding"]].concat()).expect("opens");
    let (id, _dir) = create_task(&root);
    assert_eq!(state.names("run/siding"), [id.to_string()]);
    let root = state.root_with(NFS_MAGIC, &bad).expect("opening needs no base");
    let error =
        root.create_task(root.new_id(TaskKind::LocalBash).expect("an id")).expect_err("no place");
    let text = error.to_string();
    for wanted in ["on nfs", "missing/siding", "mode 777", "link", "file", "XDG_RUNTIME_DIR"] {
        assert!(text.contains(wanted), "no {wanted} in {text}");
    }
    assert_eq!(state.names("state/tasks"), [id.to_string()], "the failed task is removed");
}

/// Logging out removes the runtime directory.
#[test]
fn a_removed_runtime_dir_is_recreated_when_the_lock_is_taken() {
    let state = StateDirFixture::new();
    let root = state.root(NFS_MAGIC);
    let (id, dir) = create_task(&root);
    drop(dir);
    std::fs::remove_dir_all(state.path("run/siding")).expect("own directory");
    let found = root.task_dir(id).expect("is there");
    assert_eq!(found.endpoint_dir().expect_err("gone").kind(), io::ErrorKind::NotFound);
    let locked = found.try_lock().expect("works").expect("is free");
    assert!(locked.dir().endpoint_dir().is_ok());
    assert!(root.task_dir(id).expect("is there").try_lock().expect("works").is_none());
    drop(locked);
    // The base directory is missing too, so the next candidate is used and recorded.
    std::fs::remove_dir_all(state.path("run")).expect("own directory");
    std::fs::create_dir(state.path("other")).expect("own directory");
    let root = state.root_with(NFS_MAGIC, &["run/siding", "other/siding"]).expect("opens");
    let locked = root.task_dir(id).expect("is there").try_lock().expect("works").expect("is free");
    assert!(locked.dir().endpoint_dir().is_ok());
    assert!(
        state.root(NFS_MAGIC).task_dir(id).expect("is there").endpoint_dir().is_ok(),
        "found by its record"
    );
    locked.dir().remove_transient();
    assert_eq!(state.names("other/siding"), Vec::<String>::new());
    assert_eq!(state.names(&format!("state/tasks/{id}")), Vec::<String>::new());
}

#[test]
fn the_remains_of_a_start_that_crashed_are_removed() {
    let state = StateDirFixture::new();
    let root = state.root(NFS_MAGIC);
    let (id, dir) = create_task(&root);
    root.mark_live(id).expect("marked");
    drop(dir);
    let found =
        Recovery::new(&root, c"/nonexistent").expect("works").recover_task(id).expect("works");
    assert!(matches!(found, RecoveryOutcome::NeverRecorded), "{found:?}");
    assert_eq!(state.names("run/siding"), Vec::<String>::new());
    assert_eq!(state.names("state/tasks"), Vec::<String>::new());
}

#[test]
fn a_task_of_another_machine_is_not_touched() {
    let state = StateDirFixture::new();
    let root = state.root(NFS_MAGIC);
    let (id, dir) = create_task(&root);
    root.mark_live(id).expect("marked");
    drop(dir);
    let boot = procfs::boot_id().expect("a boot").0;
    // A record with this machine's id and another boot id was written before a reboot.
    state.rewrite_record(id, &boot, "an-earlier-boot");
    assert_eq!(root.task_dir(id).expect("is there").other_machine(), None);
    state.rewrite_record(id, &system_info::system_id(), "far-away 123");
    let found = root.task_dir(id).expect("is there");
    assert_eq!(found.other_machine(), Some("far-away 123"));
    assert_eq!(found.endpoint_dir().expect_err("not here").kind(), io::ErrorKind::NotFound);
    assert!(found.try_lock().expect("works").is_none());
    let found =
        Recovery::new(&root, c"/nonexistent").expect("works").recover_task(id).expect("works");
    assert!(
        matches!(found, RecoveryOutcome::OtherMachine { machine } if machine == "far-away 123")
    );
    assert_eq!(state.names("run/siding"), [id.to_string()]);
    assert_eq!(state.names(&format!("state/tasks/{id}")), [RECORD_FILE]);
}

/// The files of a task that an earlier version started keep their old names, so that the earlier
/// version still finds them.
#[test]
fn files_of_an_earlier_version_are_found_and_removed() {
    let state = StateDirFixture::new();
    let root = state.root(NFS_MAGIC);
    let (id, dir) = create_task(&root);
    drop(dir);
    let of_task = |name: &str| state.path(&format!("state/tasks/{id}/{name}"));
    std::fs::rename(of_task(RECORD_FILE), of_task(OLD_RECORD_FILE)).expect("own file");
    let runtime_dir = state.path(&format!("run/siding/{id}"));
    assert_eq!(task_files::splice_marker_file(5), "taking");
    std::fs::write(runtime_dir.join("taking"), "").expect("own directory");
    assert!(root.task_dir(id).expect("is there").runtime_dir().is_some());
    // A logout has removed the base directory, and the next repair uses another one.
    std::fs::remove_dir_all(state.path("run/siding")).expect("own directory");
    std::fs::write(state.path("run/siding"), "").expect("own directory");
    std::fs::create_dir(state.path("elsewhere")).expect("own directory");
    let other = state.root_with(NFS_MAGIC, &["elsewhere/siding"]).expect("opens");
    let locked = other.task_dir(id).expect("is there").try_lock().expect("works").expect("is free");
    assert_eq!(state.names(&format!("state/tasks/{id}")), [OLD_RECORD_FILE]);
    std::fs::write(state.path(&format!("elsewhere/siding/{id}/taking")), "").expect("own file");
    other.remove_task(&locked).expect("removed");
    assert_eq!(state.names("elsewhere/siding"), Vec::<String>::new());
}

#[test]
fn a_truncated_record_counts_as_missing() {
    let state = StateDirFixture::new();
    let root = state.root(NFS_MAGIC);
    let (id, dir) = create_task(&root);
    drop(dir);
    let path = state.path(&format!("state/tasks/{id}/{RECORD_FILE}"));
    let whole = std::fs::read(&path).expect("is there");
    for len in 0..whole.len() - 2 {
        std::fs::write(&path, &whole[..len]).expect("own file");
        let found = root.task_dir(id).expect("is there");
        assert!(found.other_machine().is_none() && found.runtime_dir().is_none(), "{len}");
    }
    let locked = root.task_dir(id).expect("is there").try_lock().expect("works").expect("is free");
    root.remove_task(&locked).expect("removed");
    assert_eq!(state.names("run/siding"), Vec::<String>::new());
}

#[test]
fn a_record_of_a_newer_format_is_refused_and_unchanged() {
    let state = StateDirFixture::new();
    let root = state.root(NFS_MAGIC);
    let (id, dir) = create_task(&root);
    let record = state.path(&format!("state/tasks/{id}/{RECORD_FILE}"));
    let newer = r#"{"format":2,"place":{"directory":"elsewhere"}}"#;
    std::fs::write(&record, newer).expect("own file");
    let error = root.task_dir(id).expect_err("too new").to_string();
    assert!(error.contains("format 2") && error.contains("upgrade siding"), "{error}");
    assert!(error.contains(&id.to_string()), "{error}");
    let recovered = Recovery::new(&root, c"/nonexistent").expect("works").recover_task(id);
    assert!(recovered.is_err(), "{recovered:?}");
    dir.remove_transient();
    assert_eq!(std::fs::read_to_string(&record).expect("is there"), newer);
    assert_eq!(state.names("run/siding"), [id.to_string()]);
}

#[test]
fn sessions_are_written_under_a_lock_on_a_local_file_system() {
    let state = StateDirFixture::new();
    let root = state.root(NFS_MAGIC);
    let dir = root.session_dir("s", true).expect("made");
    let lock = root.lock_session(&dir).expect("locked").expect("not that of the directory");
    let base = file::open_directory(&state.path("run/siding")).expect("is there");
    assert!(!file::try_lock_exclusive(&base).expect("works"));
    drop(lock);
    assert!(file::try_lock_exclusive(&base).expect("works"));
}
