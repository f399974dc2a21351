//! Copies a project to a remote machine before a command is started there.
//!
//! The state directory contains a list of the files that were sent to each remote directory. A file
//! that the project no longer has is removed from the remote directory only if it is in this list,
//! so the results of remote commands remain.

mod prepare_script;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use siding_model::executor::{ExecutorSettings, RemoteExecutor};
use siding_model::file_sync::{SentFiles, remote_directory_name};
use siding_model::fnv::Fnv1a;
use siding_model::text::one_line;

use self::prepare_script::{OWNED_STATUS, prepare_script};
use super::project_files::{self, ProjectFiles};
use super::{rsync, ssh};
use crate::store::StateDir;
use crate::sys::{descriptor, file, system_info};
use crate::task::run::ExecutorChoice;
use crate::task::run::request::WorkingDirectory;

/// Subdirectory of the state directory with the lists of sent files.
const SYNCED_DIR: &str = "synced";

/// Maximum size of a list of sent files, in bytes.
const MAX_LIST_BYTES: usize = 256 << 20;

/// Maximum size of the output of a command, in bytes.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Maximum width of a path in an error, in columns.
const PATH_COLUMNS: usize = 200;

/// Maximum wait for another call that copies the same project, in milliseconds.
const LOCK_TIMEOUT_MS: u64 = 600_000;

/// The reason why a project was not copied. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// git lists no files in the directory, and the caller has named none.
    #[error(
        "git finds no project in `{}` ({why}); name the files to copy with --sync-path, such as \
         `--sync-path .`", directory.display()
    )]
    NoProject {
        /// The working directory.
        directory: PathBuf,
        /// The message of git.
        why: String,
    },
    /// A path cannot be copied.
    #[error("`{}` cannot be copied: {why}; write a path below `{}`", path.display(), top.display())]
    Path {
        /// The path as the caller gave it.
        path: PathBuf,
        /// The top directory of the project.
        top: PathBuf,
        /// The reason.
        why: String,
    },
    /// A path that the settings map contains a control character, for example a line break. The
    /// rest after the line break would be interpreted as another path.
    #[error(
        "the project cannot be copied, because `{path}` contains a control character; rename the \
         directory, or change `paths` of [executor.{executor}]"
    )]
    ControlCharacter {
        /// The path, made safe to print.
        path: String,
        /// Name of the executor.
        executor: String,
    },
    /// The mapped directory on the remote machine contains the files of another project, or of
    /// another machine.
    #[error(
        "`{directory}` on {executor} has the files of another project, `{owner}`, and a copy could \
         replace or remove them; nothing was copied or started. Map the projects to different \
         directories in `paths` of [executor.{executor}], or, if the other one is not copied there \
         any more, remove the file `{marker}` on {executor}"
    )]
    Owned {
        /// Name of the executor.
        executor: String,
        /// The remote directory.
        directory: String,
        /// The machine and the directory of the other project, made safe to print.
        owner: String,
        /// Path of the file on the remote machine that names the other project, made safe to print.
        marker: String,
    },
    /// git could not list the files.
    #[error("git could not list the files of `{}`: {why}", top.display())]
    List {
        /// The top directory of the project.
        top: PathBuf,
        /// The message of git.
        why: String,
    },
    /// Another call is copying the same project.
    #[error("another call is copying this project to {executor}; try again when it has ended")]
    Busy {
        /// Name of the executor.
        executor: String,
    },
    /// The files could not be copied.
    #[error(
        "could not copy the project to {executor}: {why}; nothing was started. \
         `siding executors --check {executor}` checks the connection"
    )]
    Remote {
        /// Name of the executor.
        executor: String,
        /// The message of ssh or rsync, or the reason.
        why: String,
    },
    /// A local program or the state directory cannot be used.
    #[error("could not copy the project: {why}; nothing was started")]
    Local {
        /// The reason.
        why: String,
    },
}

/// The files of a project, and the remote directory to which they are copied.
#[derive(Debug)]
pub struct SyncPlan {
    executor: RemoteExecutor,
    /// Top directory of the project.
    top: PathBuf,
    /// The working directory, relative to `top`; empty if it equals `top`.
    below: String,
    destination: SyncDestination,
    files: SentFiles,
    /// Directories that rsync creates even if they are empty.
    directories: Vec<Vec<u8>>,
}

/// The remote directory that corresponds to the top directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SyncDestination {
    /// This absolute path, which the settings map.
    Mapped(String),
    /// The directory with this name in the cache of the remote account.
    Cache(String),
}

impl SyncPlan {
    /// Lists the files of the project that contains the working directory, to copy them to the
    /// machine of an executor. `extra` are paths to be copied in addition, relative to that
    /// directory.
    ///
    /// # Errors
    ///
    /// [`SyncError`].
    pub fn for_executor(
        executor: &ExecutorChoice,
        local: &WorkingDirectory,
        extra: &[PathBuf],
    ) -> Result<Self, SyncError> {
        let directory = Path::new(local.as_str());
        Self::new(executor.to_remote(), executor.settings(), directory, extra)
    }

    fn new(
        executor: RemoteExecutor,
        settings: &ExecutorSettings,
        working_directory: &Path,
        extra: &[PathBuf],
    ) -> Result<Self, SyncError> {
        let local = |why: String| SyncError::Local { why };
        let real = working_directory.canonicalize().map_err(|error| local(error.to_string()))?;
        let work_tree = project_files::find_work_tree(&real).and_then(|top| {
            // A home directory is not a project, and contains keys.
            match std::env::var_os("HOME").is_some_and(|home| Path::new(&home).starts_with(&top)) {
                true => Err(format!("`{}` contains your home directory", top.display())),
                false => Ok(top),
            }
        });
        let top = match &work_tree {
            Ok(top) => top.canonicalize().map_err(|error| local(error.to_string()))?,
            Err(_) if !extra.is_empty() => real.clone(),
            Err(why) => {
                let (directory, why) = (working_directory.to_owned(), why.clone());
                return Err(SyncError::NoProject { directory, why });
            }
        };
        let below = real.strip_prefix(&top).unwrap_or(Path::new("")).to_owned();
        let mut files = ProjectFiles::new(top.clone());
        if work_tree.is_ok() {
            files.add_git_files().map_err(|why| SyncError::List { top: top.clone(), why })?;
        }
        add_named_paths(&mut files, (&top, &below), (extra, &settings.sync))?;
        let named_top = textual_top(working_directory, &below).unwrap_or_else(|| top.clone());
        let destination = SyncDestination::choose(settings, &named_top);
        destination.check_paths(&executor.name, [&named_top, &top])?;
        let below = below.into_os_string().into_string();
        let below = below.map_err(|_| local("the working directory is not UTF-8".to_owned()))?;
        let directories = files.empty_directories().map(<[u8]>::to_vec);
        let directories =
            directories.chain((!below.is_empty()).then(|| below.clone().into_bytes()));
        Ok(Self {
            destination,
            directories: directories.collect(),
            files: SentFiles::from_paths(files.files().map(<[u8]>::to_vec)),
            executor,
            top,
            below,
        })
    }

    /// Returns the number of files.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.count()
    }

    /// Copies the files, and removes those on the remote machine that were sent earlier and are no
    /// longer part of the project. Returns the remote working directory.
    ///
    /// # Errors
    ///
    /// [`SyncError`].
    pub fn run(&self, root: &StateDir) -> Result<String, SyncError> {
        let local = |error: io::Error| SyncError::Local { why: error.to_string() };
        let list = SentList::open(root, &self.list_name()).map_err(local)?;
        let Some(list) = list else {
            return Err(SyncError::Busy { executor: self.executor.name.clone() });
        };
        let earlier = list.read();
        let removed = self.files.removed_since(&earlier, |path| self.exists(path));
        // Only after the removal can a directory replace a file, or a file a directory.
        let remote_top = self.prepare_directory(&removed)?;
        // If the copy fails, a remote command may create one of these files again. That file is
        // then not a copy from this machine.
        let kept = earlier.without(&removed);
        list.replace(&kept).map_err(local)?;
        self.send_files(&remote_top)?;
        list.replace(&kept.with(&self.files)).map_err(local)?;
        Ok(match self.below.as_str() {
            "" => remote_top,
            below => format!("{}/{below}", remote_top.trim_end_matches('/')),
        })
    }

    /// Returns whether a file of the project exists or may exist on this machine.
    fn exists(&self, path: &[u8]) -> bool {
        let path = self.top.join(OsStr::from_bytes(path));
        match path.symlink_metadata() {
            Ok(_) => true,
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        }
    }

    /// Returns the name of the list of the files that were sent to this destination.
    fn list_name(&self) -> String {
        Fnv1a::default()
            .with_bytes(self.executor.destination().as_bytes())
            .with_bytes(b"\0")
            .with_bytes(self.destination.as_str().as_bytes())
            .with_bytes(b"\0")
            .with_bytes(self.top.as_os_str().as_bytes())
            .to_hex()
    }

    /// Returns the machine and the directory of this project, which the remote machine records for
    /// a mapped directory.
    fn owner(&self) -> String {
        format!("{}:{}", system_info::hostname(), self.top.to_string_lossy())
    }

    /// Creates the remote directory, and removes files in it. Returns its path.
    fn prepare_directory(&self, removed: &SentFiles) -> Result<String, SyncError> {
        let script = prepare_script(&self.destination, &self.owner(), removed.count() > 0);
        let mut command = ssh::remote_command(&self.executor, &script);
        let input = rsync::input_file(&removed.encode());
        let input = input.map_err(|error| SyncError::Local { why: error.to_string() })?;
        let finished = run_command("ssh", command.stdin(Stdio::from(input)))?;
        let fail = |why: String| SyncError::Remote { executor: self.executor.name.clone(), why };
        if finished.status.code() == Some(rsync::NOT_FOUND_STATUS) {
            return Err(fail(rsync::missing_rsync(&self.executor.name)));
        }
        if finished.status.code() == Some(OWNED_STATUS) {
            return Err(self.owned_error(&finished.stdout));
        }
        if !finished.status.success() {
            return Err(fail(finished.cause()));
        }
        // Startup files of the shell may have printed other lines before these.
        let text = String::from_utf8(finished.stdout).unwrap_or_default();
        let path = text.lines().next_back().unwrap_or_default();
        if !path.starts_with('/') || path.contains(char::is_control) {
            return Err(fail("the path of the directory there cannot be used".to_owned()));
        }
        Ok(path.to_owned())
    }

    /// Returns the error for a directory of another project. The last lines of the output contain
    /// the path of the marker file and the name of that project.
    fn owned_error(&self, stdout: &[u8]) -> SyncError {
        let text = String::from_utf8_lossy(stdout);
        let mut lines = text.lines().rev().map(|line| one_line(line, PATH_COLUMNS));
        let [owner, marker] = [lines.next(), lines.next()].map(Option::unwrap_or_default);
        let directory = self.destination.as_str().to_owned();
        SyncError::Owned { executor: self.executor.name.clone(), directory, owner, marker }
    }

    fn send_files(&self, remote_top: &str) -> Result<(), SyncError> {
        let mut list = self.files.encode();
        for directory in &self.directories {
            list.extend(directory.iter().copied().chain([0]));
        }
        if list.is_empty() {
            return Ok(());
        }
        let command = rsync::send_command(&self.executor, (&self.top, remote_top), &list);
        let mut command = command.map_err(|error| SyncError::Local { why: error.to_string() })?;
        let finished = run_command("rsync", &mut command)?;
        let is_complete =
            finished.status.success() || finished.status.code() == Some(rsync::VANISHED_STATUS);
        if is_complete {
            return Ok(());
        }
        let CommandResult { status, stderr, .. } = finished;
        let error = rsync::describe_failure(&self.executor, Some(status), &stderr);
        Err(SyncError::Remote { executor: self.executor.name.clone(), why: error.why })
    }
}

impl SyncDestination {
    fn choose(settings: &ExecutorSettings, top: &Path) -> Self {
        let top = top.to_string_lossy();
        match settings.mapped_directory(&top) {
            Some(directory) => Self::Mapped(directory),
            None => Self::Cache(remote_directory_name(&system_info::hostname(), &top)),
        }
    }

    /// Returns the path or the name.
    const fn as_str(&self) -> &str {
        let (Self::Mapped(directory) | Self::Cache(directory)) = self;
        directory.as_str()
    }

    /// Checks that a mapped directory and the local paths of its project contain no control
    /// characters. The name of a directory in the cache never contains any.
    fn check_paths(&self, executor: &str, local: [&Path; 2]) -> Result<(), SyncError> {
        let Self::Mapped(directory) = self else { return Ok(()) };
        for path in [Path::new(directory)].into_iter().chain(local) {
            let path = path.to_string_lossy();
            if path.contains(char::is_control) {
                let (path, executor) = (one_line(&path, PATH_COLUMNS), executor.to_owned());
                return Err(SyncError::ControlCharacter { path, executor });
            }
        }
        Ok(())
    }
}

/// Adds the paths of the call, which must exist, and those of the settings, which may not exist in
/// every project.
fn add_named_paths(
    files: &mut ProjectFiles,
    (top, below): (&Path, &Path),
    (extra, settings): (&[PathBuf], &[String]),
) -> Result<(), SyncError> {
    for path in extra {
        let refuse = |why: String| SyncError::Path { path: path.clone(), top: top.to_owned(), why };
        let relative = project_files::path_below_top(top, below, path);
        let relative = relative.ok_or_else(|| refuse("it is outside of the project".to_owned()))?;
        files.add_path(&relative).map_err(|error| refuse(error.to_string()))?;
    }
    for path in settings {
        let relative = project_files::path_below_top(top, Path::new(""), Path::new(path));
        let added = relative.map_or(Ok(()), |relative| files.add_path(&relative));
        match added {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let (path, top) = (PathBuf::from(path), top.to_owned());
                return Err(SyncError::Path { path, top, why: error.to_string() });
            }
            Err(_) | Ok(()) => {}
        }
    }
    Ok(())
}

/// Returns the top directory under the caller's name for it, because the settings map that path:
/// the working directory without `below` at its end. Returns `None` if a symbolic link between the
/// two has another name.
fn textual_top(working_directory: &Path, below: &Path) -> Option<PathBuf> {
    working_directory.ends_with(below).then(|| {
        let count = below.components().count();
        working_directory.ancestors().nth(count).unwrap_or(working_directory).to_owned()
    })
}

/// The exit status and the output of a command.
struct CommandResult {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl CommandResult {
    /// Returns the last message, or the exit status.
    fn cause(&self) -> String {
        rsync::cause_message(&self.stderr).unwrap_or_else(|| self.status.to_string())
    }
}

/// Runs a command to its end. Its output is written to files: the shared connection that ssh may
/// leave behind would keep a pipe open, so the read would not reach its end.
fn run_command(program: &str, command: &mut Command) -> Result<CommandResult, SyncError> {
    let local = |error: io::Error| SyncError::Local { why: error.to_string() };
    let create = || descriptor::create_memfd("siding-output");
    let (stdout, stderr) = (create().map_err(local)?, create().map_err(local)?);
    let for_child = |fd: &OwnedFd| fd.try_clone().map(Stdio::from).map_err(local);
    command.stdout(for_child(&stdout)?).stderr(for_child(&stderr)?);
    let status = command
        .status()
        .map_err(|error| SyncError::Local { why: rsync::cannot_start(program, &error) })?;
    let read = |fd: &OwnedFd| file::read_to_end(fd.as_fd(), MAX_OUTPUT_BYTES).unwrap_or_default();
    Ok(CommandResult { status, stdout: read(&stdout), stderr: read(&stderr) })
}

/// The list of the files that were sent to a remote directory. The lock is held while this value
/// exists.
struct SentList<'r> {
    root: &'r StateDir,
    path: PathBuf,
    _lock: OwnedFd,
}

impl<'r> SentList<'r> {
    /// Locks the list with this name. `None` if another call holds the lock for too long.
    fn open(root: &'r StateDir, name: &str) -> io::Result<Option<Self>> {
        match file::create_directory(root, SYNCED_DIR) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) | Ok(()) => {}
        }
        let path = Path::new(SYNCED_DIR).join(name);
        let lock = file::open_or_create(root, path.with_extension("lock"))?;
        if !file::lock_exclusive_within(&lock, LOCK_TIMEOUT_MS)? {
            return Ok(None);
        }
        Ok(Some(Self { root, path, _lock: lock }))
    }

    /// Reads the list. Without a readable list, no file counts as sent, so none is removed.
    fn read(&self) -> SentFiles {
        let fd = file::open_at(self.root, &self.path, file::OpenMode::Read);
        let bytes = fd.and_then(|fd| file::read_to_end(fd.as_fd(), MAX_LIST_BYTES));
        SentFiles::decode(&bytes.unwrap_or_default())
    }

    fn replace(&self, files: &SentFiles) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let _already_removed = file::remove(self.root, &new);
        let fd = file::open_at(self.root, &new, file::OpenMode::CreateNew)?;
        file::write_all_at(&fd, &files.encode(), 0)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        file::rename_over(self.root, &text(&new), &text(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settings(paths: &[(&str, &str)]) -> ExecutorSettings {
        let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
        ExecutorSettings {
            host: Some("build".to_owned()),
            slurm: None,
            program: None,
            paths: paths.iter().map(owned).collect::<BTreeMap<_, _>>(),
            env: Vec::new(),
            sync: vec!["data".to_owned(), "missing".to_owned()],
        }
    }

    fn executor() -> RemoteExecutor {
        RemoteExecutor {
            name: "build".to_owned(),
            destination: Some("build".to_owned()),
            slurm: None,
            program: None,
            ssh_variables: Vec::new(),
        }
    }

    /// Creates an empty file, and the directories that contain it.
    pub(super) fn write(path: &Path) {
        std::fs::create_dir_all(path.parent().expect("below")).expect("own directory");
        std::fs::write(path, "").expect("own directory");
    }

    #[test]
    fn a_mapped_project_is_copied_to_its_directory_and_another_one_to_the_cache() {
        let mapped = settings(&[("/home/me/src", "/srv/src")]);
        let choose = |top: &str| SyncDestination::choose(&mapped, Path::new(top));
        assert_eq!(choose("/home/me/src/p"), SyncDestination::Mapped("/srv/src/p".to_owned()));
        let other = choose("/home/me/p");
        let SyncDestination::Cache(name) = &other else { panic!("{other:?}") };
        assert!(name.starts_with("p-"), "{name}");
        assert_eq!(other, choose("/home/me/p"));
    }

    #[test]
    fn a_mapped_path_with_a_control_character_is_refused() {
        let temporary = tempfile::tempdir().expect("a directory");
        let top = temporary.path().canonicalize().expect("it exists");
        let plan = |name: &str, remote: &str| {
            let directory = top.join(name);
            write(&directory.join("data"));
            let settings = settings(&[(directory.to_str().expect("UTF-8"), remote)]);
            SyncPlan::new(executor(), &settings, &directory, &[PathBuf::from("data")])
        };
        assert!(plan("plain", "/srv/p").is_ok());
        for (name, remote, shown) in
            [("plain", "/srv/a\n/etc", "/srv/a\\n/etc"), ("a\nb", "/srv/p", "a\\nb")]
        {
            let refused = plan(name, remote).expect_err(remote).to_string();
            assert!(refused.contains("control character") && refused.contains(shown), "{refused}");
        }
    }

    #[test]
    fn the_error_about_another_project_names_it_and_the_next_step() {
        let temporary = tempfile::tempdir().expect("a directory");
        write(&temporary.path().join("data"));
        let mapped = settings(&[(temporary.path().to_str().expect("UTF-8"), "/srv/p")]);
        let extra = [PathBuf::from("data")];
        let plan = SyncPlan::new(executor(), &mapped, temporary.path(), &extra).expect("a project");
        let printed = b"Welcome!\n/home/me/.cache/siding/sync-owners/7-6\nlaptop:/\x1b[2J\n";
        let text = plan.owned_error(printed).to_string();
        for part in ["`/srv/p` on build", "`laptop:/\\e[2J`", "sync-owners/7-6`", "`paths`"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }

    #[test]
    fn named_paths_are_the_project_where_git_knows_none() {
        let top = tempfile::tempdir().expect("a directory");
        for name in ["data/x", "sub/y", "other"] {
            write(&top.path().join(name));
        }
        let plan = |extra: &[&str]| {
            let extra: Vec<PathBuf> = extra.iter().map(PathBuf::from).collect();
            SyncPlan::new(executor(), &settings(&[]), top.path(), &extra)
        };
        let planned = plan(&["sub"]).expect("a project");
        assert_eq!(planned.files, SentFiles::decode(b"data/x\0sub/y\0"));
        let refused = plan(&[]).expect_err("no project").to_string();
        assert!(refused.contains("--sync-path"), "{refused}");
        for path in ["..", "/etc", "missing"] {
            let refused = plan(&[path]).expect_err(path).to_string();
            assert!(refused.contains("cannot be copied"), "{refused}");
        }
    }

    #[test]
    fn the_list_of_sent_files_is_read_by_the_next_call() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let files = SentFiles::decode(b"a\0\xff\0");
        for expected in [SentFiles::default(), files.clone()] {
            let list = SentList::open(&root, "0").expect("own directory").expect("it is free");
            assert_eq!(list.read(), expected);
            list.replace(&files).expect("own directory");
        }
    }

    #[test]
    fn the_top_directory_keeps_the_name_that_the_settings_map() {
        let top = |cwd: &str, below: &str| textual_top(Path::new(cwd), Path::new(below));
        assert_eq!(top("/link/p/sub/dir", "sub/dir"), Some(PathBuf::from("/link/p")));
        assert_eq!(top("/link/p", ""), Some(PathBuf::from("/link/p")));
        assert_eq!(top("/link/elsewhere", "sub"), None);
    }
}
