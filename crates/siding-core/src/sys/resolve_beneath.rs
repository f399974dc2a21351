//! Opens paths that must stay below a directory, whatever links they contain and whatever other
//! processes change meanwhile.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The errno for a path that leaves the directory: `EXDEV`, as in openat2(2).
pub const OUTSIDE_ERRNO: i32 = Errno::XDEV.raw_os_error();

/// Maximum number of calls of openat2(2) for one path. The call fails with `EAGAIN` if a directory
/// is renamed while the kernel resolves `..`.
const MAX_TRIES: usize = 100;

/// The flags for an opened directory. A descriptor with `O_PATH` is enough to look up and to change
/// names in the directory, but not to list them.
const DIRECTORY_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory by a path below `root`, for access to names in it. An empty path is `root`
/// itself. Links are followed as long as they stay below `root`.
///
/// One call of openat2(2) resolves the path and ensures that no component leaves `root`. The call
/// is missing before Linux 5.6, and behind a system call filter that does not know it. In that case
/// the components are opened one by one, and a path that contains a link or `..` is refused with
/// [`OUTSIDE_ERRNO`].
///
/// # Errors
///
/// The I/O error of the system call; [`OUTSIDE_ERRNO`] if the path leaves `root`, as every absolute
/// link does.
pub fn open_directory(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let given = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_TRIES {
        match rustix::fs::openat2(&root, given, DIRECTORY_FLAGS, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A system call filter that does not know openat2(2) makes it fail with one of these
            // two errors.
            Err(Errno::NOSYS | Errno::PERM) => return open_stepwise(&root, path),
            result => return Ok(result?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Opens a directory below `root` by a path that consists of plain names, none of them a link.
fn open_stepwise(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let mut here = rustix::fs::openat(root, ".", DIRECTORY_FLAGS, Mode::empty())?;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV.into());
            }
        };
        let opened =
            rustix::fs::openat(&here, name, DIRECTORY_FLAGS | OFlags::NOFOLLOW, Mode::empty());
        here = match opened {
            Err(Errno::LOOP | Errno::NOTDIR) if is_link(&here, name.as_ref()) => {
                return Err(Errno::XDEV.into());
            }
            result => result?,
        };
    }
    Ok(here)
}

fn is_link(dir: impl AsFd, name: &Path) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::sys::file;

    /// Creates `root/a/b`, a file, links that stay below the root, links that leave it, and
    /// `secret` next to the root.
    fn test_tree() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("root/a/b")).unwrap();
        std::fs::create_dir(at("secret")).unwrap();
        std::fs::write(at("root/file"), "").unwrap();
        symlink("a", at("root/inner")).unwrap();
        symlink("../../secret", at("root/a/outer")).unwrap();
        symlink(at("root/a"), at("root/absolute")).unwrap();
        symlink("turn", at("root/turn")).unwrap();
        let root = file::open_directory(&at("root")).unwrap();
        (dir, root)
    }

    fn identity(fd: &OwnedFd) -> (u64, u64) {
        file::metadata(fd).unwrap().identity
    }

    type OpenFn = fn(&OwnedFd, &Path) -> io::Result<OwnedFd>;
    const OPEN_FNS: [OpenFn; 2] =
        [|root, path| open_directory(root, path), |root, path| open_stepwise(root, path)];

    #[test]
    fn paths_below_the_root_open_with_and_without_openat2() {
        let (dir, root) = test_tree();
        for way in OPEN_FNS {
            for (path, real) in
                [("", "root"), (".", "root"), ("a", "root/a"), ("a/./b", "root/a/b")]
            {
                let wanted = file::open_directory(&dir.path().join(real)).unwrap();
                let found = way(&root, Path::new(path)).expect(path);
                assert_eq!(identity(&found), identity(&wanted), "{path}");
            }
            let missing = way(&root, Path::new("a/none")).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
            let file = way(&root, Path::new("file")).unwrap_err();
            assert_eq!(file.kind(), io::ErrorKind::NotADirectory);
        }
    }

    #[test]
    fn no_path_leaves_the_root_with_or_without_openat2() {
        let (dir, root) = test_tree();
        let whole = dir.path().join("secret");
        let whole = whole.to_str().unwrap();
        for way in OPEN_FNS {
            let out = [
                "..",
                "a/../..",
                "a/b/../../../secret",
                "a/outer",
                "absolute",
                whole,
                "/",
                "/proc",
            ];
            for path in out {
                let error = way(&root, Path::new(path)).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(OUTSIDE_ERRNO), "{path}: {error}");
            }
            assert!(way(&root, Path::new("turn")).is_err());
        }
    }

    #[test]
    fn openat2_follows_links_that_stay_below_the_root() {
        let (dir, root) = test_tree();
        let wanted = file::open_directory(&dir.path().join("root/a/b")).unwrap();
        for path in ["inner/b", "a/b/../../inner/b"] {
            let found = open_directory(&root, Path::new(path)).expect(path);
            assert_eq!(identity(&found), identity(&wanted), "{path}");
            let error = open_stepwise(&root, Path::new(path)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(OUTSIDE_ERRNO), "{path}");
        }
    }
}
