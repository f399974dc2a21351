//! Where the two programs of this package are, for whoever runs them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Whether the tests run as root, so that [`crate::Invocation::as_user`] can work.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Keeps the descriptors this test program was started with (a job server's, a terminal's) from
/// everything it starts, so that what a task holds beyond the standard streams came from siding.
pub(crate) fn set_cloexec_on_inherited_fds() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: takes only numbers; nothing is closed here, and Rust opens every descriptor
        // of its own with the same mark anyway.
        let marked = unsafe {
            libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        assert_eq!(marked, 0, "close_range: {}", std::io::Error::last_os_error());
    });
}

/// Finds a program of this package.
///
/// Cargo names it to a running test by a variable (Cargo 1.94 and later); a test program that
/// was started by hand finds it beside its own directory, `target/PROFILE/deps`.
///
/// # Panics
///
/// When it is in neither place, with the command that builds it.
pub(crate) fn find_program(name: &str) -> PathBuf {
    let cargo_path = std::env::var_os(format!("CARGO_BIN_EXE_{name}")).map(PathBuf::from);
    let own = std::env::current_exe().expect("a running program knows its own path");
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

/// Gives a path at which another user can execute `program`: the program itself where all
/// directories above allow it, else a link or copy in `dir`.
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
