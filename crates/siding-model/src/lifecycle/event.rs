//! The events in the life of a task, and the effects of a step of its lifecycle.

use serde::{Deserialize, Serialize};

use crate::outcome::{BackgroundReason, LeaderEnd, LimitKind};
use crate::process::{LeaderRef, MonotonicMs};
use crate::signal::Signal;

/// Whether processes of the task's tree are alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeLiveness {
    /// The tree is proven to be empty.
    Empty,
    /// At least one process is alive, or may be alive.
    Alive,
}

/// The answer of a cluster that was asked for a longer time limit of a task's job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimitAnswer {
    /// The limit after the request, in milliseconds after the start, or
    /// [`NO_JOB_LIMIT_MS`](crate::slurm::NO_JOB_LIMIT_MS); `None` if the cluster has not reported
    /// it.
    #[serde(rename = "raised", default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// The reason why the cluster has not raised the limit, in its own words, which are untrusted.
    #[serde(rename = "refused", default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// An event in the life of a task, serialized as in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TaskEvent {
    /// The leader's exec succeeded, or a running process was adopted as the leader.
    Spawned {
        /// Pid and start time of the leader.
        leader: LeaderRef,
    },
    /// The command could not be started.
    SpawnFailed {
        /// The text of the operating system's error, with the name of the file.
        error: String,
        /// `errno`; zero for an error without one.
        errno: i32,
    },
    /// The leader ended.
    LeaderEnded {
        /// How the leader ended.
        end: LeaderEnd,
        /// Whether descendants are alive.
        tree: TreeLiveness,
        /// The leader's last working directory, if the shell reported it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        final_cwd: Option<String>,
        /// Status of each stage of the leader's last pipeline, if the shell reported it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pipeline: Option<Vec<i32>>,
    },
    /// The last descendant has ended.
    TreeEmpty,
    /// A stop was requested.
    StopAsked {
        /// Name of the requester, such as `user`, `session` or the name of a host.
        by: String,
        /// Grace for this stop, in milliseconds; `None` selects the grace in the specification.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
        /// Signal for this stop; `None` selects the signal in the specification.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<Signal>,
    },
    /// The deadline has passed.
    DeadlinePassed,
    /// A limit was exceeded, and the task is configured to stop at its limits.
    LimitPassed {
        /// The exceeded limit. The field was named `which` before format 6.
        #[serde(alias = "which")]
        limit_kind: LimitKind,
    },
    /// The grace period has passed.
    GraceOver,
    /// A later or earlier deadline was requested.
    Extended {
        /// The requested deadline. A deadline beyond the cap is replaced by the cap.
        deadline: MonotonicMs,
        /// Name of the requester; `None` in journals of older builds, which ignore the field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The answer of the cluster if the deadline exceeds the time limit of the task's job; `None`
        /// if it was not asked. Older builds ignore the field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job_limit: Option<JobLimitAnswer>,
    },
    /// The task was moved to the background.
    Placed {
        /// The reason for the move.
        #[serde(flatten, with = "placed")]
        why: BackgroundReason,
    },
    /// The kill is complete: all processes have ended, except for survivors.
    Swept {
        /// Number of processes that could not be killed.
        survivors: u32,
    },
    /// An adopted task was released: siding no longer supervises its processes, which continue.
    Released {
        /// Name of the requester.
        by: String,
    },
    /// A repair found no process of the task: the command was never started, or its end was not
    /// observed.
    Vanished {
        /// The facts that the repair found.
        why: String,
    },
}

/// The journal fields of [`TaskEvent::Placed`].
///
/// [`BackgroundReason::Timeout`] was added without a new format. A timeout is therefore written as
/// the reason `budget`, which older builds know, with a separate field that older builds ignore.
mod placed {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::outcome::BackgroundReason;

    #[derive(Serialize, Deserialize)]
    struct Fields {
        why: BackgroundReason,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        timeout: bool,
    }

    pub(super) fn serialize<S: Serializer>(
        why: &BackgroundReason,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let fields = match why {
            BackgroundReason::Timeout => Fields { why: BackgroundReason::Budget, timeout: true },
            BackgroundReason::Asked
            | BackgroundReason::Budget
            | BackgroundReason::Known
            | BackgroundReason::Heuristic
            | BackgroundReason::User => Fields { why: *why, timeout: false },
        };
        fields.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BackgroundReason, D::Error> {
        let fields = Fields::deserialize(from)?;
        Ok(if fields.timeout { BackgroundReason::Timeout } else { fields.why })
    }
}

/// The side effects that the caller of `step` must carry out, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifecycleEffect {
    /// Append the event to the journal. This is always the first effect.
    Record,
    /// Send a signal to the whole tree, then SIGCONT: a stopped process acts on no signal except
    /// SIGKILL and SIGCONT (signal(7)).
    Signal(Signal),
    /// Kill the whole tree and report [`TaskEvent::Swept`].
    Kill,
    /// Notify all clients and shut down.
    Close,
}
