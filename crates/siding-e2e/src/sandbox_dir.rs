//! Creates the directory of a sandbox, assigns it to the sandbox's user, and removes it even if a
//! test has changed permissions in it.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Creates the directory with a short path, because the path of a socket in it must fit into 108
/// bytes (unix(7)).
pub(crate) fn create() -> PathBuf {
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix("s").rand_bytes(6).tempdir_in("/tmp");
    made.expect("/tmp can be written").keep()
}

/// Sets the mode of a file or directory, and its owner and group unless `owner` is `None`.
pub(crate) fn set_mode_and_owner(path: &Path, mode: u32, owner: Option<u32>) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("test path");
    std::os::unix::fs::chown(path, owner, owner).expect("changing the owner succeeded");
}

/// Removes the directory, even if a test has removed the permissions of directories in it.
pub(crate) fn remove(root: &Path) {
    if std::fs::remove_dir_all(root).is_err() {
        make_writable(root);
        if let Err(error) = std::fs::remove_dir_all(root)
            && error.kind() != io::ErrorKind::NotFound
        {
            eprintln!("the sandbox `{}` stays: {error}", root.display());
        }
    }
}

fn make_writable(dir: &Path) {
    let _best_effort = std::fs::set_permissions(dir, Permissions::from_mode(0o700));
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}
