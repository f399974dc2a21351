//! The options of a job in Slurm.

use serde::{Deserialize, Serialize};

use super::ArrayElement;
use crate::duration::{self, MAX_DURATION};

/// The options of a job, with the meanings that sbatch(1) gives them. `None` selects the cluster's
/// default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SlurmOptions {
    /// The partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The account that pays for the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Number of processors, `--cpus-per-task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of each node in MiB, `--mem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Number of graphics processors, perhaps with their type before it: `2`, `a100:2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// Number of nodes. The command runs on the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Time limit of the job in minutes; `None` uses the task's deadline plus its grace plus one
    /// minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_minutes: Option<u64>,
    /// Further options of sbatch that [`is_job_argument`] accepts. They replace the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The directory that the submitting machine and the nodes share, for the records of jobs;
    /// `None` for the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The job array to which the job belongs, `--array`. Only a workflow sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayElement>,
}

/// Time that the job may last after the deadline and the grace of its task, in milliseconds. The
/// shim needs it to kill the processes and to record the end.
const RECORD_TIME_MS: u64 = 60_000;
const MINUTE_MS: u64 = 60_000;

impl SlurmOptions {
    /// Returns the name of the first option that is set, for a message; `None` if none is.
    #[must_use]
    pub fn first_option(&self) -> Option<&'static str> {
        let options = [
            ("partition", self.partition.is_some()),
            ("`--account`", self.account.is_some()),
            ("`--cpus`", self.cpus.is_some()),
            ("`--memory`", self.memory_mib.is_some()),
            ("`--gpus`", self.gpus.is_some()),
            ("`--nodes`", self.nodes.is_some()),
            ("`--time`", self.time_minutes.is_some()),
            ("`--engine-arg`", !self.arguments.is_empty()),
            ("shared directory", self.directory.is_some()),
        ];
        options.into_iter().find_map(|(name, is_set)| is_set.then_some(name))
    }

    /// Merges these options with those of a call, which take precedence. The arguments of the call
    /// follow those of the settings.
    #[must_use]
    pub fn with_call(self, call: Self) -> Self {
        Self {
            partition: call.partition.or(self.partition),
            account: call.account.or(self.account),
            cpus: call.cpus.or(self.cpus),
            memory_mib: call.memory_mib.or(self.memory_mib),
            gpus: call.gpus.or(self.gpus),
            nodes: call.nodes.or(self.nodes),
            time_minutes: call.time_minutes.or(self.time_minutes),
            arguments: [self.arguments, call.arguments].concat(),
            directory: call.directory.or(self.directory),
            array: call.array.or(self.array),
        }
    }

    /// Returns the options of sbatch, without that of the array. `deadline_ms` is the time to the
    /// deadline of the task, and `grace_ms` its grace.
    #[must_use]
    pub fn sbatch_arguments(&self, deadline_ms: u64, grace_ms: u64) -> Vec<String> {
        let minutes = self.time_limit_minutes(deadline_ms, grace_ms);
        let number = |number: u64| Some(number.to_string());
        let options = [
            ("partition", self.partition.clone()),
            ("account", self.account.clone()),
            ("cpus-per-task", self.cpus.map(u64::from).and_then(number)),
            ("mem", self.memory_mib.map(|mib| format!("{mib}M"))),
            ("gpus", self.gpus.clone()),
            ("nodes", self.nodes.map(u64::from).and_then(number)),
            ("time", number(minutes)),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let options = options.map(|(name, value)| format!("--{name}={value}"));
        options.chain(self.arguments.iter().cloned()).collect()
    }

    /// Returns the time limit of the job in milliseconds, as sbatch receives it; `None` if one of the
    /// arguments sets it. The parameters are those of [`Self::sbatch_arguments`].
    #[must_use]
    pub fn time_limit_ms(&self, deadline_ms: u64, grace_ms: u64) -> Option<u64> {
        let sets_limit = |argument: &String| {
            argument == "--time" || argument.starts_with("--time=") || argument.starts_with("-t")
        };
        let minutes = self.time_limit_minutes(deadline_ms, grace_ms);
        (!self.arguments.iter().any(sets_limit)).then(|| minutes.saturating_mul(MINUTE_MS))
    }

    fn time_limit_minutes(&self, deadline_ms: u64, grace_ms: u64) -> u64 {
        let lasts_ms = deadline_ms.saturating_add(grace_ms).saturating_add(RECORD_TIME_MS);
        self.time_minutes.unwrap_or_else(|| lasts_ms.div_ceil(MINUTE_MS))
    }
}

/// The options of sbatch that siding sets itself, and those with which it could not follow the job.
/// With the latter, sbatch submits no job, several jobs, or a job with another script or in another
/// cluster, or does not print its number immediately.
const OWN_OPTIONS: [&str; 14] = [
    "array",
    "chdir",
    "clusters",
    "help",
    "input",
    "job-name",
    "output",
    "parsable",
    "quiet",
    "test-only",
    "usage",
    "version",
    "wait",
    "wrap",
];
/// The forms of these options with one letter.
const OWN_LETTERS: &str = "aDMhiJoQVW";

/// Returns whether a text is an option of sbatch that a call or the settings may add. sbatch
/// accepts unique beginnings of long names, so each beginning of a refused option is refused as
/// well.
#[must_use]
pub fn is_job_argument(text: &str) -> bool {
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        return !name.is_empty() && !OWN_OPTIONS.iter().any(|own| own.starts_with(name));
    }
    let letter = text.strip_prefix('-').and_then(|letters| letters.chars().next());
    letter.is_some_and(|letter| !OWN_LETTERS.contains(letter))
}

/// A text is not an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an amount of memory; write a number with `M`, `G` or `T`, such as `8G`")]
pub struct BadMemorySize(String);

/// Parses an amount of memory in the notation of Slurm, where a number without a unit is in MiB.
/// Also accepts the units of siding's other sizes: `8GiB`.
///
/// # Errors
///
/// [`BadMemorySize`]
pub fn parse_memory_mib(text: &str) -> Result<u64, BadMemorySize> {
    let bad = || BadMemorySize(text.to_owned());
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let mib: u64 = match trimmed[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "m" | "mb" | "mib" => 1,
        "g" | "gb" | "gib" => 1 << 10,
        "t" | "tb" | "tib" => 1 << 20,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(mib).filter(|size| *size > 0).ok_or_else(bad)
}

/// A text is not a time limit of a job. The message says which forms are allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadJobTime {
    /// A number without a unit. Slurm reads it as minutes, and every other duration of siding needs
    /// a unit.
    #[error(
        "`{text}` has no unit; write `{text}m` for minutes, or a time of Slurm such as `1-12:00:00`"
    )]
    NoUnit {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
    /// The text is malformed in another way, zero, or too long.
    #[error("`{text}` is not a time limit of a job; write {JOB_TIME_FORMS}")]
    Malformed {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
}

/// The accepted forms of a time limit, which follow `write` in a message.
pub(crate) const JOB_TIME_FORMS: &str = "a duration such as `90m` or `2h`, or a time of Slurm: `MM:SS`, \
    `HH:MM:SS`, `D-HH`, `D-HH:MM` or `D-HH:MM:SS`";

/// Parses the time limit of a job: a duration, or a time of Slurm that has `:` or `-`. Returns it
/// in minutes, rounded up, as Slurm counts.
///
/// # Errors
///
/// [`BadJobTime`]
pub fn parse_time_minutes(text: &str) -> Result<u64, BadJobTime> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadJobTime::NoUnit { text: trimmed.to_owned() });
    }
    let seconds = if trimmed.contains([':', '-']) {
        parse_clock_seconds(trimmed)
    } else {
        duration::parse(trimmed).ok().map(|duration| duration.as_secs())
    };
    let minutes = seconds.map(|seconds| seconds.div_ceil(60)).filter(|minutes| *minutes > 0);
    minutes.ok_or_else(|| BadJobTime::Malformed { text: text.to_owned() })
}

/// Returns the seconds of a time in the notation of Slurm; `None` if the text is not such a time,
/// or the time is longer than any duration of siding. As in Slurm, only the first number may exceed
/// the range of its unit.
fn parse_clock_seconds(text: &str) -> Option<u64> {
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_number)
    };
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let fields = clock.split(':').map(number).collect::<Option<Vec<u64>>>()?;
    let (hours, minutes, seconds) = match (days, fields.as_slice()) {
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (Some(_) | None, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        (None, [minutes, seconds]) => (minutes / 60, minutes % 60, *seconds),
        (Some(_) | None, _) => return None,
    };
    if seconds >= 60 || minutes >= 60 || (days.is_some() && hours >= 24) {
        return None;
    }
    let hours = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    let seconds = hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)?;
    Some(seconds).filter(|seconds| *seconds <= MAX_DURATION.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_limit_exceeds_the_deadline() {
        let options = SlurmOptions::default();
        assert_eq!(options.sbatch_arguments(60_000, 10_000), ["--time=3"]);
        assert_eq!(
            options.sbatch_arguments(u64::MAX, 0),
            [format!("--time={}", u64::MAX / 60_000 + 1)]
        );
        let limited = SlurmOptions { time_minutes: Some(1), ..options };
        assert_eq!(limited.sbatch_arguments(600_000, 0), ["--time=1"]);
        assert_eq!(limited.time_limit_ms(600_000, 0), Some(60_000));
        for argument in ["--time=5", "-t5"] {
            let arguments = vec![argument.to_owned()];
            let replaced = SlurmOptions { arguments, ..limited.clone() };
            assert_eq!(replaced.time_limit_ms(600_000, 0), None, "{argument}");
        }
    }

    #[test]
    fn the_options_of_a_call_take_precedence() {
        let settings = SlurmOptions {
            partition: Some("cpu".to_owned()),
            cpus: Some(2),
            arguments: vec!["--qos=low".to_owned()],
            ..SlurmOptions::default()
        };
        let call = SlurmOptions {
            partition: Some("gpu".to_owned()),
            memory_mib: Some(8192),
            gpus: Some("a100:2".to_owned()),
            arguments: vec!["--exclusive".to_owned()],
            ..SlurmOptions::default()
        };
        let arguments = settings.with_call(call).sbatch_arguments(0, 0);
        let expected = [
            "--partition=gpu",
            "--cpus-per-task=2",
            "--mem=8192M",
            "--gpus=a100:2",
            "--time=1",
            "--qos=low",
            "--exclusive",
        ];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn options_that_siding_sets_are_no_arguments() {
        for text in ["--qos=high", "--exclusive", "--wait-all-nodes=1", "-C", "-Cgpu", "--requeue"]
        {
            assert!(is_job_argument(text), "{text}");
        }
        for text in
            ["qos", "", "-", "--", "--arr=1-2", "--array", "-a1-2", "-W", "--wait", "--job=x"]
        {
            assert!(!is_job_argument(text), "{text}");
        }
    }

    #[test]
    fn memory_is_in_mib() {
        for (text, mib) in [("512", 512), ("8G", 8192), ("1TiB", 1 << 20), (" 16mb ", 16)] {
            assert_eq!(parse_memory_mib(text), Ok(mib), "{text}");
        }
        for text in ["", "G", "0", "-1G", "1.5G", "8K", "99999999999999T", "8 apples"] {
            assert!(parse_memory_mib(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_limit_is_a_duration_or_a_time_of_slurm() {
        for (text, minutes) in [
            ("90m", 90),
            ("61s", 2),
            ("30:00", 30),
            ("90:01", 91),
            ("12:00:00", 720),
            ("1-12", 36 * 60),
            ("1-12:30", 36 * 60 + 30),
            (" 1-12:00:00 ", 36 * 60),
        ] {
            assert_eq!(parse_time_minutes(text), Ok(minutes), "{text}");
        }
        for text in [
            "",
            "0s",
            "00:00",
            "soon",
            "-1",
            "-2h",
            "1-",
            "1-24",
            "1:60",
            "1:60:00",
            "1:2:3:4",
            "1-1-1",
            "+1:00",
            "99999999999-00",
            "1 - 12",
            "1-12h",
        ] {
            let why = parse_time_minutes(text).expect_err(text).to_string();
            assert!(why.contains("`D-HH:MM:SS`"), "{text}: {why}");
        }
        let why = parse_time_minutes("90").expect_err("no unit").to_string();
        assert!(why.starts_with("`90` has no unit; write `90m` for minutes"), "{why}");
    }
}
