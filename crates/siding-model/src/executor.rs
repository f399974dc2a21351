//! Executors: the machines and clusters on which the commands of tasks run. Every task without an
//! executor runs on this machine.

mod job_array;
mod slurm;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use job_array::{ArrayElement, array_job_id, element_job_id, format_array_indexes};
pub(crate) use slurm::JOB_TIME_FORMS;
pub use slurm::{
    BadJobTime, BadMemorySize, SlurmOptions, is_job_argument, parse_memory_mib, parse_time_minutes,
};

/// The executor of a task, as the task's specification records it. The journal contains it, so that
/// a new shim can connect again: settings may change while the task runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteExecutor {
    /// The name in the settings: `build` for `[executor.build]`.
    pub name: String,
    /// The destination that ssh(1) receives; `None` if siding on this machine submits the task to a
    /// Slurm cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Path of siding on the remote machine; `None` if the local program is copied there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The options of the job, if the task is submitted to Slurm there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmOptions>,
    /// Variables of the starter that ssh and the commands of Slurm need, such as `SSH_AUTH_SOCK`
    /// and `SLURM_CONF`. None of them is a secret. They are recorded because the environment of a
    /// shim that takes over is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_variables: Vec<(String, String)>,
}

impl RemoteExecutor {
    /// Returns the destination that ssh(1) receives; empty if there is none.
    #[must_use]
    pub fn destination(&self) -> &str {
        self.destination.as_deref().unwrap_or_default()
    }

    /// Returns the names and values of [`ssh_variables`](Self::ssh_variables).
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ssh_variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Variables of the starter that ssh and the programs of its configuration (`ProxyCommand`), or the
/// commands of Slurm, may need. Their values are paths and names, not secrets.
pub const SSH_VARIABLES: [&str; 8] = [
    "HOME",
    "KRB5CCNAME",
    "LOGNAME",
    "PATH",
    "SLURM_CONF",
    "SSH_AUTH_SOCK",
    "USER",
    "XDG_RUNTIME_DIR",
];

/// The name of this machine, which no executor of the settings can have.
pub const LOCAL_EXECUTOR: &str = "local";

/// The name of the cluster whose commands are on this machine, unless the settings define an
/// executor with this name.
pub const SLURM_EXECUTOR: &str = "slurm";

/// Maximum length of an executor's name, in bytes. The limit is low because lists and states of
/// tasks contain the name.
const MAX_NAME_BYTES: usize = 40;

/// Returns whether a text can be the name of an executor: 1 to 40 letters, digits, dashes and
/// underscores.
#[must_use]
pub fn is_executor_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_plain)
}

/// The table `[executor.NAME]` of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorSettings {
    /// The destination that ssh(1) receives: a host, `USER@HOST`, or an alias of its configuration.
    /// `None` only with [`slurm`](Self::slurm): the commands of Slurm are on this machine.
    pub host: Option<String>,
    /// The options of jobs, if the executor is a Slurm cluster. With a [`host`](Self::host), the
    /// commands of Slurm are on that machine.
    pub slurm: Option<SlurmOptions>,
    /// Path of siding on the remote machine; `None` if the local program is copied there.
    pub program: Option<String>,
    /// Local directories and the remote directories with the same content. A directory below a
    /// local one corresponds to the directory with the same relative path below the remote one.
    pub paths: BTreeMap<String, String>,
    /// Names of the local variables that a remote command receives. A name may end in `*`.
    pub env: Vec<String>,
    /// Paths below the top directory of a project that are copied in addition to the files that git
    /// knows, if a call copies the project.
    pub sync: Vec<String>,
}

impl ExecutorSettings {
    /// Returns the Slurm cluster whose commands are on this machine.
    #[must_use]
    pub fn local_cluster() -> Self {
        Self {
            host: None,
            slurm: Some(SlurmOptions::default()),
            program: None,
            paths: BTreeMap::new(),
            env: Vec::new(),
            sync: Vec::new(),
        }
    }

    /// Returns the remote directory for a local one. A directory that is below none of
    /// [`paths`](Self::paths) has the same path on both machines.
    #[must_use]
    pub fn remote_directory(&self, local: &str) -> String {
        self.mapped_directory(local).unwrap_or_else(|| trim_separators(local))
    }

    /// Returns the remote directory for a local one that is below one of [`paths`](Self::paths);
    /// otherwise `None`.
    #[must_use]
    pub fn mapped_directory(&self, local: &str) -> Option<String> {
        let mapped = self.paths.iter().filter_map(|(from, to)| {
            let below = Path::new(local).strip_prefix(from).ok()?;
            Some((from.len(), Path::new(to).join(below)))
        });
        // The longest local directory is the most specific one.
        let (_, remote) = mapped.max_by_key(|(len, _)| *len)?;
        Some(trim_separators(&remote.to_string_lossy()))
    }

    /// Returns whether a remote command receives the local variable of this name.
    #[must_use]
    pub fn sends_variable(&self, name: &str) -> bool {
        self.env.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => pattern == name,
        })
    }
}

/// Removes trailing `/` from a path, because the shell's name of the same directory has none.
fn trim_separators(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { path.to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(paths: &[(&str, &str)], env: &[&str]) -> ExecutorSettings {
        let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
        ExecutorSettings {
            host: Some("build".to_owned()),
            slurm: None,
            program: None,
            paths: paths.iter().map(owned).collect(),
            env: env.iter().map(|name| (*name).to_owned()).collect(),
            sync: Vec::new(),
        }
    }

    #[test]
    fn the_most_specific_directory_is_mapped() {
        let mapped = settings(&[("/home/me", "/srv"), ("/home/me/src/", "/fast/src")], &[]);
        for (local, remote) in [
            ("/home/me/src/siding", "/fast/src/siding"),
            ("/home/me/src", "/fast/src"),
            ("/home/me", "/srv"),
            ("/home/me/doc", "/srv/doc"),
            ("/home/meme", "/home/meme"),
            ("/", "/"),
        ] {
            assert_eq!(mapped.remote_directory(local), remote, "{local}");
        }
        assert_eq!(mapped.mapped_directory("/home/me/doc/").as_deref(), Some("/srv/doc"));
        assert_eq!(mapped.mapped_directory("/home/meme"), None);
    }

    #[test]
    fn a_name_is_one_short_plain_word() {
        for name in ["build", "GPU-2_a", "local", &"x".repeat(40)] {
            assert!(is_executor_name(name), "{name}");
        }
        for name in ["", "a b", "a.b", "me@build", "é", &"x".repeat(41)] {
            assert!(!is_executor_name(name), "{name}");
        }
    }

    #[test]
    fn only_listed_variables_are_sent() {
        let sent = settings(&[], &["CI", "RUST_*"]);
        let names = ["CI", "CI_TOKEN", "RUST_LOG", "RUSTFLAGS"];
        let found: Vec<&str> = names.into_iter().filter(|name| sent.sends_variable(name)).collect();
        assert_eq!(found, ["CI", "RUST_LOG"]);
        assert!(!settings(&[], &[]).sends_variable("PATH"));
    }
}
