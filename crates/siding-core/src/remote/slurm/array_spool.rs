//! The directory in which the elements of a job array are collected before one call of sbatch
//! submits them together.
//!
//! | file | writer | content |
//! |---|---|---|
//! | `N` | follower of element N | symbolic link to the spool directory of the task |
//! | `lock` | – | empty; locked by the follower that submits the array |
//! | `plan` | owner of the lock | the elements of the array; it may have been submitted |
//! | `job` | owner of the lock | the number of the array |
//! | `refused` | owner of the lock | nothing; each element submits a job of its own |
//! | `slurm-N.out` | Slurm | messages of the batch script of element N |

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use siding_model::process::UnixMs;

use super::spool::{JobSpool, create_private_directory, read_json, write_json};
use crate::sys::file;

/// Prefix of the names of these directories.
pub(super) const ARRAY_DIR_PREFIX: &str = "array-";
const LOCK_FILE: &str = "lock";
const PLAN_FILE: &str = "plan";
const JOB_FILE: &str = "job";
const REFUSED_FILE: &str = "refused";

/// The elements that are submitted as one array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArrayPlan {
    /// The indexes of the elements, in ascending order.
    pub(super) indexes: Vec<u32>,
    /// Time of the last start of sbatch.
    pub(super) at: UnixMs,
}

/// The progress of an array's submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ArrayProgress {
    /// Followers may still add elements.
    Collecting,
    /// The elements are fixed, and the array may have been submitted.
    Planned(ArrayPlan),
    /// The array was submitted under this number.
    Submitted(ArrayPlan, String),
    /// The cluster has refused the array.
    Refused,
}

/// The directory of an array.
#[derive(Debug, Clone)]
pub(super) struct ArraySpool {
    path: PathBuf,
}

impl ArraySpool {
    pub(super) const fn from_path(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an element, unless it was added before.
    pub(super) fn add(&self, index: u32, spool: &JobSpool) -> io::Result<()> {
        create_private_directory(&self.path, true)?;
        match std::os::unix::fs::symlink(spool.path(), self.element_path(index)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Returns the ascending indexes of the elements that were added.
    pub(super) fn indexes(&self) -> io::Result<Vec<u32>> {
        let names = file::list_names(file::open_directory(&self.path)?)?;
        let mut indexes: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        indexes.sort_unstable();
        Ok(indexes)
    }

    /// Acquires the lock. Returns `None` if another follower holds it. Dropping the value releases
    /// the lock.
    pub(super) fn try_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = file::open_or_create(file::open_directory(&self.path)?, LOCK_FILE)?;
        Ok(file::try_lock_exclusive(&lock)?.then_some(lock))
    }

    pub(super) fn progress(&self) -> ArrayProgress {
        // The plan is written before the other files and read after them. If one of them exists,
        // the plan is therefore found too.
        let number = read_json(&self.path.join(JOB_FILE)).ok();
        if self.path.join(REFUSED_FILE).exists() {
            return ArrayProgress::Refused;
        }
        match (read_json(&self.path.join(PLAN_FILE)).ok(), number) {
            (None, _) => ArrayProgress::Collecting,
            (Some(plan), None) => ArrayProgress::Planned(plan),
            (Some(plan), Some(number)) => ArrayProgress::Submitted(plan, number),
        }
    }

    /// Records that an array of these elements is about to be submitted.
    pub(super) fn set_plan(&self, plan: &ArrayPlan) -> io::Result<()> {
        write_json(&self.path, PLAN_FILE, plan)
    }

    pub(super) fn set_job_id(&self, job_id: &str) -> io::Result<()> {
        write_json(&self.path, JOB_FILE, &job_id)
    }

    /// Records that the cluster has refused the array.
    pub(super) fn set_refused(&self) -> io::Result<()> {
        write_json(&self.path, REFUSED_FILE, &())
    }

    /// Returns the path of the file for the messages of the batch scripts. Slurm replaces `%a` with
    /// the index.
    pub(super) fn batch_output(&self) -> PathBuf {
        self.path.join("slurm-%a.out")
    }

    /// Returns the last message of an element's batch script; `None` if there is none.
    pub(super) fn batch_message(&self, index: u32) -> Option<String> {
        let text = std::fs::read(self.path.join(format!("slurm-{index}.out"))).ok()?;
        super::super::ssh::last_message(&text)
    }

    /// Returns whether the directory is older than `age` and no spool directory of its elements
    /// exists.
    pub(super) fn is_expired(&self, age: Duration) -> bool {
        let modified = self.path.metadata().and_then(|facts| facts.modified()).ok();
        let passed = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
        // `exists` follows the link, so it returns false once the spool directory was removed.
        let is_left = |index: &u32| self.element_path(*index).exists();
        passed.is_some_and(|passed| passed > age)
            && self.indexes().is_ok_and(|indexes| !indexes.iter().any(is_left))
    }

    fn element_path(&self, index: u32) -> PathBuf {
        self.path.join(index.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_of_an_array_are_collected_once() {
        let temporary = tempfile::tempdir().expect("a directory");
        let array = ArraySpool::from_path(temporary.path().join("array-x"));
        let spool = |name: &str| JobSpool::from_path(temporary.path().join(name));
        array.add(10, &spool("b")).expect("own directory");
        array.add(2, &spool("a")).expect("own directory");
        array.add(2, &spool("a")).expect("it exists");
        let lock = array.try_lock().expect("own directory");
        assert!(lock.is_some());
        assert!(array.try_lock().expect("own directory").is_none(), "another follower has it");
        assert_eq!(array.indexes().expect("own directory"), [2, 10]);
        let target = std::fs::read_link(array.path().join("2")).expect("a link");
        assert_eq!(target, temporary.path().join("a"));
    }

    #[test]
    fn the_progress_of_an_array_follows_from_its_files() {
        let temporary = tempfile::tempdir().expect("a directory");
        let array = ArraySpool::from_path(temporary.path().to_owned());
        assert_eq!(array.progress(), ArrayProgress::Collecting);
        let plan = ArrayPlan { indexes: vec![0, 2], at: UnixMs(5) };
        array.set_plan(&plan).expect("own directory");
        assert_eq!(array.progress(), ArrayProgress::Planned(plan.clone()));
        array.set_job_id("9").expect("own directory");
        assert_eq!(array.progress(), ArrayProgress::Submitted(plan, "9".to_owned()));
        array.set_refused().expect("own directory");
        assert_eq!(array.progress(), ArrayProgress::Refused);
    }

    #[test]
    fn an_array_expires_after_its_elements() {
        let temporary = tempfile::tempdir().expect("a directory");
        let array = ArraySpool::from_path(temporary.path().join("array-x"));
        let spool = temporary.path().join("task");
        create_private_directory(&spool, false).expect("it is new");
        array.add(0, &JobSpool::from_path(spool.clone())).expect("own directory");
        let age = Duration::from_secs(60);
        let directory = std::fs::File::open(array.path()).expect("it exists");
        directory.set_modified(SystemTime::now() - age * 2).expect("own directory");
        assert!(!array.is_expired(age), "the spool directory of an element exists");
        std::fs::remove_dir(&spool).expect("own directory");
        assert!(array.is_expired(age));
        assert!(!array.is_expired(age * 3));
    }
}
