//! What happens to a task, and what is to be done about it.

use serde::{Deserialize, Serialize};

use crate::outcome::{BackgroundReason, LeaderEnd, LimitKind};
use crate::process::{LeaderRef, MonotonicMs};
use crate::signal::Signal;

/// Whether anything of the task's tree still lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeLiveness {
    /// Proven empty.
    Empty,
    /// Something lives.
    Alive,
}

/// What happened. The serialized form is the journal's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TaskEvent {
    /// The leader's exec worked.
    Spawned {
        /// The leader.
        leader: LeaderRef,
    },
    /// Nothing was started.
    SpawnFailed {
        /// The operating system's reason, with the file it is about.
        error: String,
        /// `errno`, zero when there is none.
        errno: i32,
    },
    /// The leader ended.
    LeaderEnded {
        /// How.
        end: LeaderEnd,
        /// What is left.
        tree: TreeLiveness,
        /// Its last working directory, where the shell told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        final_cwd: Option<String>,
        /// Status of each stage of its last pipeline, where the shell told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pipeline: Option<Vec<i32>>,
    },
    /// The last descendant is gone.
    TreeEmpty,
    /// Somebody asked for the end.
    StopAsked {
        /// Who.
        by: String,
        /// Grace to use instead of the task's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
        /// Signal to use instead of the task's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<Signal>,
    },
    /// The deadline passed.
    DeadlinePassed,
    /// A limit was passed at which the task is to be stopped.
    LimitPassed {
        /// Which.
        which: LimitKind,
    },
    /// The grace is over.
    GraceOver,
    /// The deadline was moved.
    Extended {
        /// New deadline; what lies beyond the cap is cut.
        deadline: MonotonicMs,
    },
    /// The task went to the background.
    Placed {
        /// Why.
        #[serde(flatten, with = "placed")]
        why: BackgroundReason,
    },
    /// The kill is done: all are gone but these many.
    Swept {
        /// Processes that could not be ended.
        survivors: u32,
    },
    /// An adopted task was given back: nothing of it is ended.
    Released {
        /// Who asked for it.
        by: String,
    },
    /// A rescuer found nothing that ever ran, or nothing left of it.
    Vanished {
        /// What is known.
        why: String,
    },
}

/// The fields of [`TaskEvent::Placed`] in a journal.
///
/// A journal of any format may tell of a timeout, so it does so in a field of its own, which a
/// reader that does not know it ignores: `why` says `budget` then, as it did before.
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

/// What the shell around this function must do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifecycleEffect {
    /// Write the event to the journal. Always first.
    Record,
    /// Send a signal to the whole tree, then SIGCONT, since a stopped process takes nothing else.
    Signal(Signal),
    /// Kill the whole tree and report [`TaskEvent::Swept`].
    Kill,
    /// Tell everybody and leave.
    Close,
}
