use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use siding_model::id::TaskKind;

use super::*;
use crate::recover::{Found, Recovery};
use crate::store::{Root, StoreError};
use crate::sys::process;

/// What statfs(2) says of NFS, ext4, and an overlay.
const NFS: u64 = 0x6969;
const EXT4: u64 = 0xef53;
const OVERLAY: u64 = 0x794c_7630;

/// A state directory of which a test says on what file system it is.
struct State {
    dir: tempfile::TempDir,
}

impl State {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Closed to others, as a runtime directory is.
        std::fs::create_dir(dir.path().join("run")).expect("own directory");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn root(&self, magic: u64) -> Root {
        self.root_with(magic, &["run/siding"]).expect("opens")
    }

    fn root_with(&self, magic: u64, candidates: &[&str]) -> Result<Root, StoreError> {
        let candidates = candidates.iter().map(|name| self.path(name)).collect();
        Root::open_on(&self.path("state"), |_| Ok(magic), || candidates)
    }

    fn names(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).expect("is there");
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("text")
        };
        entries.map(name).collect()
    }

    fn rewrite_record(&self, id: TaskId, from: &str, to: &str) {
        let path = self.path(&format!("state/tasks/{id}/{NAME}"));
        let text = std::fs::read_to_string(&path).expect("is there");
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, to)).expect("own file");
    }
}

fn create(root: &Root) -> (TaskId, crate::store::TaskDir) {
    let id = root.new_id(TaskKind::LocalBash).expect("an id");
    (id, root.create_task(id).expect("a directory"))
}

#[test]
fn only_a_network_file_system_needs_another_place() {
    for magic in [EXT4, OVERLAY, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0, u64::MAX] {
        let never = || panic!("nobody asks where the runtime directory is");
        assert!(Runtime::needed(magic, never).is_none(), "{magic:#x}");
    }
    for (magic, name) in
        [(NFS, "nfs"), (0x6573_5546, "fuse"), (0xff53_4d42, "cifs"), (0x0102_1997, "9p")]
    {
        let runtime = Runtime::needed(magic, Vec::new).expect("is one of the network");
        assert_eq!(runtime.file_system(), name);
    }
}

#[test]
fn a_file_system_that_does_not_say_what_it_is_is_taken_for_a_usual_one() {
    let state = State::new();
    let refused = |_: BorrowedFd<'_>| Err(io::ErrorKind::Unsupported.into());
    let root = Root::open_on(&state.path("state"), refused, Vec::new).expect("opens");
    assert!(root.runtime().is_none());
}

#[test]
fn a_directory_that_others_have_a_hand_in_is_refused() {
    assert_eq!(runtime::judge(7, 0o700, 7, EXT4), Ok(()));
    assert!(runtime::judge(8, 0o700, 7, EXT4).is_err_and(|why| why.contains("user 8")));
    for mode in [0o770, 0o710, 0o701, 0o777, 0o1777] {
        assert!(runtime::judge(7, mode, 7, EXT4).is_err(), "{mode:o}");
    }
    assert!(runtime::judge(7, 0o700, 7, NFS).is_err_and(|why| why.contains("nfs")));
}

#[test]
fn the_candidates_end_with_one_that_needs_nobody_to_be_logged_in() {
    let uid = process::effective_uid();
    let candidates = candidates();
    assert!(candidates.len() >= 2, "{candidates:?}");
    assert!(candidates.ends_with(&[
        PathBuf::from(format!("/run/user/{uid}/siding")),
        PathBuf::from(format!("/tmp/siding-{uid}")),
    ]));
}

#[test]
fn on_a_usual_file_system_nothing_is_anywhere_else() {
    let state = State::new();
    let root = state.root(EXT4);
    let (id, dir) = create(&root);
    assert!(dir.away().is_none() && dir.place().is_ok());
    assert_eq!(state.names(&format!("state/tasks/{id}")), Vec::<String>::new());
    assert_eq!(state.names("run"), Vec::<String>::new());
}

#[test]
fn a_place_is_found_by_its_record_whatever_the_environment_says_now() {
    let state = State::new();
    let (id, dir) = create(&state.root(NFS));
    file::make_fifo(dir.place().expect("a place"), output::FIFO).expect("made");
    assert!(state.path(&format!("run/siding/{id}/out.fifo")).exists());
    let other = state.root_with(NFS, &["elsewhere/siding"]).expect("opens");
    let found = other.task(id).expect("is there");
    assert!(file::facts_at(found.place().expect("found"), output::FIFO).is_ok());
    assert!(found.try_lock().expect("works").is_none(), "the first has the lock");
    drop(dir);
    let locked = other.task(id).expect("is there").try_lock().expect("works").expect("is free");
    other.remove_task(&locked).expect("removed");
    assert_eq!(state.names("run/siding"), Vec::<String>::new());
    assert_eq!(state.names("state/tasks"), Vec::<String>::new());
}

/// One that was started before there were places, or while the root was not on a network.
#[test]
fn a_task_without_a_record_has_everything_in_its_directory() {
    let state = State::new();
    let (id, dir) = create(&state.root(EXT4));
    file::make_fifo(&dir, output::FIFO).expect("made");
    let found = state.root(NFS).task(id).expect("is there");
    assert!(file::facts_at(found.place().expect("its own"), output::FIFO).is_ok());
    found.clear_place();
    assert_eq!(state.names(&format!("state/tasks/{id}")), Vec::<String>::new());
}

#[test]
fn the_first_directory_that_will_do_is_taken() {
    let state = State::new();
    std::fs::create_dir(state.path("open")).expect("own directory");
    std::fs::set_permissions(state.path("open"), std::fs::Permissions::from_mode(0o777))
        .expect("own directory");
    symlink(state.path("run"), state.path("link")).expect("a link");
    std::fs::write(state.path("file"), "").expect("written");
    let bad = ["missing/siding", "open", "link", "file"];
    let root = state.root_with(NFS, &[&bad[..], &["run/siding"]].concat()).expect("opens");
    let (id, _dir) = create(&root);
    assert_eq!(state.names("run/siding"), [id.to_string()]);
    let root = state.root_with(NFS, &bad).expect("opens, since reading needs no place");
    let error =
        root.create_task(root.new_id(TaskKind::LocalBash).expect("an id")).expect_err("no place");
    let text = error.to_string();
    for wanted in ["on nfs", "missing/siding", "mode 777", "link", "file", "XDG_RUNTIME_DIR"] {
        assert!(text.contains(wanted), "no {wanted} in {text}");
    }
    assert_eq!(state.names("state/tasks"), [id.to_string()], "nothing is left of it");
}

/// Logging out takes the runtime directory away.
#[test]
fn a_place_that_is_gone_is_made_again_for_whoever_takes_the_lock() {
    let state = State::new();
    let root = state.root(NFS);
    let (id, dir) = create(&root);
    drop(dir);
    std::fs::remove_dir_all(state.path("run/siding")).expect("own directory");
    let found = root.task(id).expect("is there");
    assert_eq!(found.place().expect_err("gone").kind(), io::ErrorKind::NotFound);
    let locked = found.try_lock().expect("works").expect("is free");
    assert!(locked.dir().place().is_ok());
    assert!(root.task(id).expect("is there").try_lock().expect("works").is_none());
    drop(locked);
    // Nor is the directory above there any more: the next best, and that is on record then.
    std::fs::remove_dir_all(state.path("run")).expect("own directory");
    std::fs::create_dir(state.path("other")).expect("own directory");
    let root = state.root_with(NFS, &["run/siding", "other/siding"]).expect("opens");
    let locked = root.task(id).expect("is there").try_lock().expect("works").expect("is free");
    assert!(locked.dir().place().is_ok());
    assert!(state.root(NFS).task(id).expect("is there").place().is_ok(), "found by its record");
    locked.dir().clear_place();
    assert_eq!(state.names("other/siding"), Vec::<String>::new());
    assert_eq!(state.names(&format!("state/tasks/{id}")), Vec::<String>::new());
}

#[test]
fn what_a_crash_left_of_a_start_is_removed() {
    let state = State::new();
    let root = state.root(NFS);
    let (id, dir) = create(&root);
    root.mark_live(id).expect("marked");
    drop(dir);
    let found = Recovery::new(&root, c"/nonexistent").expect("works").task(id).expect("works");
    assert!(matches!(found, Found::Unborn), "{found:?}");
    assert_eq!(state.names("run/siding"), Vec::<String>::new());
    assert_eq!(state.names("state/tasks"), Vec::<String>::new());
}

#[test]
fn a_task_of_another_machine_is_left_alone() {
    let state = State::new();
    let root = state.root(NFS);
    let (id, dir) = create(&root);
    root.mark_live(id).expect("marked");
    drop(dir);
    let boot = procfs::boot_id().expect("a boot").0;
    // Restarted since: still this machine.
    state.rewrite_record(id, &boot, "an-earlier-boot");
    assert_eq!(root.task(id).expect("is there").elsewhere(), None);
    state.rewrite_record(id, &machine::name(), "far-away 123");
    let found = root.task(id).expect("is there");
    assert_eq!(found.elsewhere(), Some("far-away 123"));
    assert_eq!(found.place().expect_err("not here").kind(), io::ErrorKind::NotFound);
    assert!(found.try_lock().expect("works").is_none());
    let found = Recovery::new(&root, c"/nonexistent").expect("works").task(id).expect("works");
    assert!(matches!(found, Found::Elsewhere { machine } if machine == "far-away 123"));
    assert_eq!(state.names("run/siding"), [id.to_string()]);
    assert_eq!(state.names(&format!("state/tasks/{id}")), [NAME]);
}

#[test]
fn a_torn_record_is_none() {
    let state = State::new();
    let root = state.root(NFS);
    let (id, dir) = create(&root);
    drop(dir);
    let path = state.path(&format!("state/tasks/{id}/{NAME}"));
    let whole = std::fs::read(&path).expect("is there");
    for len in 0..whole.len() - 2 {
        std::fs::write(&path, &whole[..len]).expect("own file");
        let found = root.task(id).expect("is there");
        assert!(found.elsewhere().is_none() && found.away().is_none(), "{len}");
    }
    let locked = root.task(id).expect("is there").try_lock().expect("works").expect("is free");
    root.remove_task(&locked).expect("removed");
    assert_eq!(state.names("run/siding"), Vec::<String>::new());
}

#[test]
fn sessions_are_written_under_a_lock_that_holds() {
    let state = State::new();
    let root = state.root(NFS);
    let dir = root.session_dir("s", true).expect("made");
    let lock = root.lock_session(&dir).expect("locked").expect("not that of the directory");
    let base = file::open_directory(&state.path("run/siding")).expect("is there");
    assert!(!file::try_lock(&base).expect("works"));
    drop(lock);
    assert!(file::try_lock(&base).expect("works"));
}
