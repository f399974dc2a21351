//! The script that prepares the directory of a project on a remote machine.

use siding_model::shell_words::single_quote;

use super::SyncDestination;
use crate::remote::rsync;

/// The exit status of the script if the directory contains the files of another project.
pub(super) const OWNED_STATUS: i32 = 78;

/// Returns the script that creates the directory, removes the files that its input names, each with
/// a NUL byte at its end, and prints the path of the directory. If the directory is mapped and
/// contains the files of a project other than `owner`, the script removes nothing. It then prints
/// the path of the marker file and the other project as its last lines, and exits with
/// [`OWNED_STATUS`].
pub(super) fn prepare_script(destination: &SyncDestination, owner: &str, removes: bool) -> String {
    let (directory, own) = match destination {
        SyncDestination::Mapped(directory) => (single_quote(directory), own_script(owner)),
        // The name of a directory in the cache is unique to one project of one machine.
        SyncDestination::Cache(name) => {
            (format!("\"${{XDG_CACHE_HOME:-$HOME/.cache}}/siding/sync/{name}\""), String::new())
        }
    };
    let remove = if removes {
        format!("xargs -0 sh -c {} siding \"$top\" || exit 1; ", single_quote(REMOVE_SCRIPT))
    } else {
        String::new()
    };
    // The shell removes line breaks at the end of a printed path, so a letter follows the path. A
    // symbolic link may point to a path with a line break, and the last line of that path would be
    // another path.
    format!(
        "umask 077; LC_ALL=C; export LC_ALL; \
         command -v rsync >/dev/null 2>&1 || exit {missing}; \
         d={directory}; mkdir -p -- \"$d\" && cd -- \"$d\" || exit 1; \
         top=$(pwd -P; echo x); top=${{top%?x}}; \
         case $top in *[[:cntrl:]]*) \
         echo 'the path of the directory there contains a control character' >&2; exit 1;; esac; \
         {own}{remove}printf '%s\\n' \"$top\"",
        missing = rsync::NOT_FOUND_STATUS
    )
}

/// Returns the part of the script that records the owner of the directory `$top`, unless another
/// owner is recorded. The marker is in the cache of the account, because a file in the directory
/// would become part of the project.
///
/// Two calls may record an owner at the same time: a hard link fails if the name exists. On a file
/// system without hard links, there is a short time in which the later call wins.
fn own_script(owner: &str) -> String {
    let owner = single_quote(owner);
    format!(
        "o=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/siding/sync-owners\"; mkdir -p -- \"$o\" || exit 1; \
         m=$o/$(printf %s \"$top\" | cksum | tr ' ' -); \
         [ -e \"$m\" ] || {{ printf '%s\\n' {owner} > \"$m.$$\" && \
         {{ ln -- \"$m.$$\" \"$m\" 2>/dev/null || [ -e \"$m\" ] || mv -f -- \"$m.$$\" \"$m\"; }}; \
         rm -f -- \"$m.$$\"; }}; \
         IFS= read -r w < \"$m\" || exit 1; \
         [ \"x$w\" = x{owner} ] || {{ printf '%s\\n' \"$m\" \"$w\"; exit {OWNED_STATUS}; }}; "
    )
}

/// Removes the files below the working directory that the arguments after the first name, and then
/// empty directories. The first argument is the path of the working directory. A file behind a
/// symbolic link is outside the directory, and a directory in place of a file was not sent; both
/// remain.
///
/// The script is one line, because a login shell may accept no line break within quotes.
const REMOVE_SCRIPT: &str = "top=$1; shift; last=; own=; \
    prune() { e=$1; while [ \"$e\" != . ] && rmdir \"./$e\" 2>/dev/null; do \
    case $e in */*) e=${e%/*} ;; *) e=. ;; esac; done; }; \
    for f do case $f in */*) d=${f%/*} ;; *) d=. ;; esac; \
    if [ \"$d\" != \"$last\" ]; then [ -z \"$own\" ] || prune \"$last\"; last=$d; own=; \
    real=$(cd -P \"./$d\" 2>/dev/null && pwd -P; echo x); \
    case $d in .) want=$top ;; *) want=${top%/}/$d ;; esac; \
    [ \"${real%?x}\" != \"$want\" ] || own=1; fi; \
    [ -n \"$own\" ] || continue; \
    if [ -d \"./$f\" ] && [ ! -L \"./$f\" ]; then continue; fi; \
    rm -f \"./$f\" || exit 1; done; \
    [ -z \"$own\" ] || prune \"$last\"";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::process::{Command, Output, Stdio};

    use super::super::tests::write;
    use super::*;

    const OWNER: &str = "laptop:/home/me/it's";

    /// Runs the script as a remote machine with a program `rsync` would. Returns the printed path.
    fn prepare(destination: &SyncDestination, home: &Path, removed: &[u8]) -> Option<String> {
        let output = prepare_as(OWNER, destination, home, removed);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        output.status.success().then(|| text.trim_end().to_owned())
    }

    fn prepare_as(
        owner: &str,
        destination: &SyncDestination,
        home: &Path,
        removed: &[u8],
    ) -> Output {
        let input = rsync::input_file(removed).expect("a file");
        let script = prepare_script(destination, owner, !removed.is_empty());
        let programs = home.join("bin");
        write(&programs.join("rsync"));
        let executable = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(programs.join("rsync"), executable).expect("own directory");
        let path = format!("{}:/usr/bin:/bin", programs.display());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).env("HOME", home).env("PATH", path);
        shell.env_remove("XDG_CACHE_HOME");
        shell.stdin(Stdio::from(input)).output().expect("sh")
    }

    #[test]
    fn only_named_files_are_removed_and_nothing_outside() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path().canonicalize().expect("it exists");
        let (top, outside) = (home.join("it's"), home.join("outside"));
        for name in ["gone", "-rf", "a\nb", "deep/er/file", "kept/sent", "kept/built", "now/dir"] {
            write(&top.join(name));
        }
        write(&outside.join("file"));
        symlink(&outside, top.join("link")).expect("own directory");
        let removed = b"-rf\0a\nb\0deep/er/file\0gone\0kept/sent\0link/file\0never\0now\0";
        let mapped = SyncDestination::Mapped(top.to_str().expect("UTF-8").to_owned());
        let printed = prepare(&mapped, &home, removed);
        assert_eq!(printed.as_deref(), top.to_str());
        for name in ["gone", "-rf", "a\nb", "deep", "kept/sent"] {
            assert!(!top.join(name).exists(), "{name}");
        }
        assert!(top.join("kept/built").exists() && top.join("now/dir").exists());
        assert!(outside.join("file").exists() && top.join("link").exists());
    }

    #[test]
    fn a_link_to_a_path_with_a_line_break_redirects_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let (target, other) = (home.path().join("a\n"), home.path().join("other"));
        write(&target.join("other/file"));
        write(&other.join("file"));
        symlink(&target, home.path().join("link")).expect("own directory");
        let link = home.path().join("link").to_str().expect("UTF-8").to_owned();
        assert_eq!(prepare(&SyncDestination::Mapped(link), home.path(), b"other/file\0"), None);
        assert!(target.join("other/file").exists() && other.join("file").exists());
    }

    #[test]
    fn a_mapped_directory_belongs_to_the_project_that_was_copied_first() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path().canonicalize().expect("it exists");
        let top = home.join("srv");
        write(&top.join("file"));
        let mapped = SyncDestination::Mapped(top.to_str().expect("UTF-8").to_owned());
        for _ in 0..2 {
            assert_eq!(prepare(&mapped, &home, b"").as_deref(), top.to_str());
        }
        // A different path to the same directory.
        symlink(&top, home.join("link")).expect("own directory");
        let link = home.join("link").to_str().expect("UTF-8").to_owned();
        for destination in [mapped.clone(), SyncDestination::Mapped(link)] {
            let other = prepare_as("laptop:/home/me/other", &destination, &home, b"file\0");
            assert_eq!(other.status.code(), Some(OWNED_STATUS));
            let printed = String::from_utf8(other.stdout).expect("UTF-8");
            let [marker, owner] = printed.lines().collect::<Vec<_>>()[..] else {
                panic!("{printed}");
            };
            assert_eq!(owner, OWNER);
            assert_eq!(Path::new(marker).parent(), Some(&*home.join(".cache/siding/sync-owners")));
        }
        assert!(top.join("file").exists());
        let markers = std::fs::read_dir(home.join(".cache/siding/sync-owners"));
        assert_eq!(markers.expect("it exists").count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_project_owns_a_directory_once_its_earlier_owner_is_forgotten() {
        let home = tempfile::tempdir().expect("a directory");
        let top = home.path().join("srv");
        let mapped = SyncDestination::Mapped(top.to_str().expect("UTF-8").to_owned());
        assert!(prepare(&mapped, home.path(), b"").is_some());
        std::fs::remove_dir_all(home.path().join(".cache")).expect("it exists");
        let other = prepare_as("other:/p", &mapped, home.path(), b"");
        assert!(other.status.success());
        assert!(prepare(&mapped, home.path(), b"").is_none());
    }

    #[test]
    fn the_directory_in_the_cache_is_private() {
        let home = tempfile::tempdir().expect("a directory");
        let destination = SyncDestination::Cache("p-0".to_owned());
        let printed = prepare(&destination, home.path(), b"").expect("it succeeds");
        assert!(printed.ends_with("/.cache/siding/sync/p-0"), "{printed}");
        let facts = std::fs::metadata(printed).expect("it exists");
        assert_eq!(facts.permissions().mode() & 0o777, 0o700);
    }
}
