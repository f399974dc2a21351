//! Finds the programs of this package (`siding-under-test`, `puppet`), and prepares the test
//! program for running them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Returns whether the tests run as root, so that [`crate::Invocation::as_user`] can work.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Sets the close-on-exec flag of the descriptors that this test program inherited, for example
/// from a job server, so that a test can assume that siding opened every descriptor of a task
/// except the standard streams.
pub(crate) fn set_cloexec_on_inherited_fds() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the call takes only numbers. The call closes nothing; it sets a flag that Rust
        // already sets on its own descriptors.
        let marked = unsafe {
            libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        assert_eq!(marked, 0, "close_range: {}", std::io::Error::last_os_error());
    });
}

/// Finds a program of this package. Cargo 1.94 and later name the program's path in an environment
/// variable while they run a test. Otherwise, the program is in the directory of the test program
/// (`target/PROFILE/deps`) or in the parent of that directory.
///
/// # Panics
/// When the program is in none of these places; the message names the command that builds it.
pub(crate) fn find_program(name: &str) -> PathBuf {
    let cargo_path = std::env::var_os(format!("CARGO_BIN_EXE_{name}")).map(PathBuf::from);
    let own = std::env::current_exe().expect("the running program has a path");
    let sibling_paths = own.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    let mut tried = vec![];
    for candidate in cargo_path.into_iter().chain(sibling_paths) {
        if candidate.is_file() {
            return candidate;
        }
        tried.push(candidate);
    }
    panic!(
        "`{name}` is not built; looked for {tried:?}. \
         `cargo build -p siding-e2e --bins` builds it, `cargo test -p siding-e2e` does too"
    );
}

/// Returns a path at which another user can execute `program`: the program itself if all its parent
/// directories allow it, otherwise a link or copy in `dir`.
pub(crate) fn executable_by_others(program: &Path, dir: &Path) -> PathBuf {
    let open_to_all = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o1 != 0)
    };
    if program.ancestors().all(open_to_all) {
        return program.to_owned();
    }
    let copy = dir.join(program.file_name().expect("a program has a name"));
    if !copy.exists() && std::fs::hard_link(program, &copy).is_err() {
        std::fs::copy(program, &copy).expect("the program fits into the sandbox");
    }
    copy
}
