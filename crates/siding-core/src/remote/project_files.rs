//! The local files of a project that are copied to a remote machine: those that git lists, and
//! those that the caller names.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::rsync::{cannot_start, cause_message};

/// Maximum nesting depth of submodules.
const MAX_SUBMODULE_DEPTH: u32 = 16;

/// Variables that would make git use another repository or another part of it, as in a hook: those
/// of `git rev-parse --local-env-vars`, and one of earlier versions. The variables with
/// configuration (`GIT_CONFIG_COUNT` and others) remain set, because they may contain the user's
/// own settings, such as `safe.directory`.
const REPOSITORY_VARIABLES: [&str; 13] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Returns the top directory of the git work tree that contains a directory.
///
/// # Errors
///
/// The message of git, for example because there is no work tree.
pub(super) fn find_work_tree(directory: &Path) -> Result<PathBuf, String> {
    let mut path = run_git(directory, &["rev-parse", "--show-toplevel"])?;
    path.pop_if(|last| *last == b'\n');
    Ok(PathBuf::from(OsString::from_vec(path)))
}

fn run_git(directory: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = git_command(directory, arguments);
    let output = command.output().map_err(|error| cannot_start("git", &error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(cause_message(&output.stderr).unwrap_or_else(|| output.status.to_string()))
}

/// Returns a git command with these arguments in a directory. git itself finds the repository.
fn git_command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    for name in REPOSITORY_VARIABLES {
        command.env_remove(name);
    }
    command.arg("-C").arg(directory).args(arguments);
    command
}

/// Returns a path relative to `top`, for a path that is relative to the directory `below` in it.
/// Returns `None` if the path is outside `top`. Only the text counts: symbolic links are not
/// resolved, and the file need not exist.
pub(super) fn path_below_top(top: &Path, below: &Path, path: &Path) -> Option<PathBuf> {
    let mut names: Vec<&OsStr> = Vec::new();
    let relative = if path.is_absolute() { path.strip_prefix(top).ok()? } else { path };
    let start = if path.is_absolute() { Path::new("") } else { below };
    for component in start.components().chain(relative.components()) {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                names.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(names.into_iter().collect())
}

/// The files of a project, as paths relative to its top directory.
#[derive(Debug)]
pub(super) struct ProjectFiles {
    top: PathBuf,
    files: BTreeSet<Vec<u8>>,
    empty_directories: BTreeSet<Vec<u8>>,
    /// For each path checked so far, whether it is a directory without a symbolic link on its path.
    directories: HashMap<PathBuf, bool>,
}

impl ProjectFiles {
    pub(super) fn new(top: PathBuf) -> Self {
        let (files, empty_directories) = (BTreeSet::new(), BTreeSet::new());
        Self { top, files, empty_directories, directories: HashMap::new() }
    }

    /// Returns the paths of the files and symbolic links.
    pub(super) fn files(&self) -> impl Iterator<Item = &[u8]> {
        self.files.iter().map(Vec::as_slice)
    }

    /// Returns the paths of the directories without content.
    pub(super) fn empty_directories(&self) -> impl Iterator<Item = &[u8]> {
        self.empty_directories.iter().map(Vec::as_slice)
    }

    /// Adds the tracked files that exist, and the untracked ones that git does not ignore, of the
    /// work tree and its submodules.
    ///
    /// # Errors
    ///
    /// The message of git.
    pub(super) fn add_git_files(&mut self) -> Result<(), String> {
        self.add_repository(&[], MAX_SUBMODULE_DEPTH)
    }

    /// Adds the files of the repository at `prefix`, which is empty or ends with
    /// a slash.
    fn add_repository(&mut self, prefix: &[u8], depth: u32) -> Result<(), String> {
        let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
        let listed = run_git(&self.top.join(OsStr::from_bytes(prefix)), &arguments)?;
        for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let path = [prefix, name].concat();
            let relative = Path::new(OsStr::from_bytes(&path));
            // A tracked file may be deleted, and a tracked directory may be replaced by a link.
            let parent = relative.parent().unwrap_or(Path::new(""));
            let Ok(facts) = std::fs::symlink_metadata(self.top.join(relative)) else { continue };
            if !self.is_real_directory(parent) {
                continue;
            }
            // git prints a slash after the name of a nested repository that is not a submodule.
            let is_submodule = facts.is_dir()
                && !name.ends_with(b"/")
                && depth > 0
                && self.top.join(relative).join(".git").exists();
            if is_submodule {
                self.add_repository(&[&path[..], b"/"].concat(), depth - 1)?;
            } else if facts.is_file() || facts.is_symlink() {
                self.files.insert(path);
            }
        }
        Ok(())
    }

    /// Adds a file, or a directory with its whole content, including ignored files.
    ///
    /// # Errors
    ///
    /// The I/O error of reading the path, for example because it does not exist; `NotADirectory` if
    /// it is behind a symbolic link.
    pub(super) fn add_path(&mut self, relative: &Path) -> io::Result<()> {
        if relative.parent().is_some_and(|parent| !self.is_real_directory(parent)) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let mut left = vec![relative.to_owned()];
        while let Some(path) = left.pop() {
            let name = path.as_os_str().as_bytes().to_vec();
            let facts = std::fs::symlink_metadata(self.top.join(&path))?;
            if facts.is_dir() {
                let known = left.len();
                for entry in std::fs::read_dir(self.top.join(&path))? {
                    left.push(path.join(entry?.file_name()));
                }
                if left.len() == known && !name.is_empty() {
                    self.empty_directories.insert(name);
                }
            } else if facts.is_file() || facts.is_symlink() {
                self.files.insert(name);
            }
        }
        Ok(())
    }

    /// Returns whether a path is a directory and contains no symbolic link.
    fn is_real_directory(&mut self, relative: &Path) -> bool {
        let Some(parent) = relative.parent() else { return true };
        if let Some(known) = self.directories.get(relative) {
            return *known;
        }
        let is_directory = self.is_real_directory(parent)
            && std::fs::symlink_metadata(self.top.join(relative)).is_ok_and(|facts| facts.is_dir());
        self.directories.insert(relative.to_owned(), is_directory);
        is_directory
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a directory with these empty files.
    fn directory(files: &[&[u8]]) -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        for file in files {
            let path = top.path().join(OsStr::from_bytes(file));
            std::fs::create_dir_all(path.parent().expect("it is below")).expect("own directory");
            std::fs::write(path, "").expect("own directory");
        }
        top
    }

    fn git(top: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
        run_git(top, &[&identity[..], arguments].concat()).expect("git works");
    }

    fn paths(files: &ProjectFiles) -> Vec<&[u8]> {
        files.files().collect()
    }

    #[test]
    fn no_variable_of_the_caller_selects_another_repository() {
        let top = directory(&[]);
        let listed = run_git(top.path(), &["rev-parse", "--local-env-vars"]).expect("git works");
        let listed = String::from_utf8(listed).expect("UTF-8");
        let command = git_command(top.path(), &[]);
        let is_removed = |name: &str| command.get_envs().any(|env| env == (OsStr::new(name), None));
        let is_configuration = |name: &&str| name.starts_with("GIT_CONFIG");
        for name in listed.lines().filter(|name| !is_configuration(name)) {
            assert!(is_removed(name), "{name}");
        }
        assert!(is_removed("GIT_COMMON_DIR") && !is_removed("GIT_CONFIG_COUNT"));
    }

    #[test]
    fn git_lists_existing_files_that_are_not_ignored() {
        let names: [&[u8]; 6] = [b"-x", b"a/b\nc", b"\xff", b"gone", b"ignored", b"linked/file"];
        let top = directory(&names);
        std::fs::write(top.path().join(".gitignore"), "ignored\n").expect("own directory");
        git(top.path(), &["init", "-q"]);
        git(top.path(), &["add", "-A"]);
        std::fs::write(top.path().join("untracked"), "").expect("own directory");
        std::fs::remove_file(top.path().join("gone")).expect("it exists");
        // The tracked file behind the link is no longer in the work tree.
        std::fs::rename(top.path().join("linked"), top.path().join("ignored2")).expect("exists");
        symlink("ignored2", top.path().join("linked")).expect("own directory");
        let work_tree = find_work_tree(&top.path().join("a")).expect("a work tree");
        let mut files = ProjectFiles::new(work_tree);
        files.add_git_files().expect("a work tree");
        let expected: [&[u8]; 7] =
            [b"-x", b".gitignore", b"a/b\nc", b"ignored2/file", b"linked", b"untracked", b"\xff"];
        assert_eq!(paths(&files), expected);
    }

    #[test]
    fn files_of_submodules_are_listed() {
        let inner = directory(&[b"lib.c"]);
        git(inner.path(), &["init", "-q"]);
        git(inner.path(), &["add", "-A"]);
        git(inner.path(), &["commit", "-q", "-m", "one"]);
        let top = directory(&[b"main.c"]);
        git(top.path(), &["init", "-q"]);
        let source = inner.path().to_str().expect("UTF-8");
        let allow = ["-c", "protocol.file.allow=always"];
        git(top.path(), &[&allow[..], &["submodule", "--quiet", "add", source, "sub"]].concat());
        let mut files = ProjectFiles::new(top.path().to_owned());
        files.add_git_files().expect("a work tree");
        let expected: [&[u8]; 3] = [b".gitmodules", b"main.c", b"sub/lib.c"];
        assert_eq!(paths(&files), expected);
    }

    #[test]
    fn a_directory_without_a_repository_is_no_work_tree() {
        let top = tempfile::tempdir().expect("a directory");
        let why = find_work_tree(top.path()).expect_err("no repository");
        assert!(why.contains("git"), "{why}");
    }

    #[test]
    fn a_named_path_is_added_with_its_content() {
        let top = directory(&[b"data/a/b", b"data/c", b"other"]);
        std::fs::create_dir(top.path().join("data/empty")).expect("own directory");
        symlink("/etc", top.path().join("data/link")).expect("own directory");
        let mut files = ProjectFiles::new(top.path().to_owned());
        files.add_path(Path::new("data")).expect("it exists");
        let expected: [&[u8]; 3] = [b"data/a/b", b"data/c", b"data/link"];
        assert_eq!(paths(&files), expected);
        assert_eq!(files.empty_directories().collect::<Vec<_>>(), [b"data/empty"]);
        let missing = files.add_path(Path::new("missing")).expect_err("it does not exist");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let linked = files.add_path(Path::new("data/link/passwd")).expect_err("outside");
        assert_eq!(linked.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn a_path_outside_of_the_project_is_recognized() {
        let (top, below) = (Path::new("/src/p"), Path::new("sub"));
        let found = |path: &str| path_below_top(top, below, Path::new(path));
        for (path, expected) in [
            ("a", "sub/a"),
            ("./a/../b", "sub/b"),
            ("../a", "a"),
            (".", "sub"),
            ("..", ""),
            ("/src/p/a", "a"),
        ] {
            assert_eq!(found(path), Some(PathBuf::from(expected)), "{path}");
        }
        for path in ["../..", "../../x", "/src", "/src/pp", "/src/p/../q"] {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
