//! The ids of notices and the names of their consumers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{SessionId, TaskId};

/// The permanent id of a notice: the task's id and the sequence number of the notice's record.
///
/// The text form is `b-4k7q0n2m8x5t.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticeId {
    /// Id of the task whose event is reported.
    pub task: TaskId,
    /// Sequence number of the reported record in the task's journal.
    pub seq: u64,
}

impl fmt::Display for NoticeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.seq)
    }
}

/// The error for a text that is not a notice id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a notice; a notice is named like `b-4k7q0n2m8x5t.3`")]
pub struct BadNoticeId {
    /// The rejected text as it was passed, not escaped.
    pub text: String,
}

impl FromStr for NoticeId {
    type Err = BadNoticeId;

    fn from_str(text: &str) -> Result<Self, BadNoticeId> {
        let bad = || BadNoticeId { text: text.to_owned() };
        let (task, seq) = text.split_once('.').ok_or_else(bad)?;
        let digits = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
        let seq = seq.parse().ok().filter(|_| digits).ok_or_else(bad)?;
        Ok(Self { task: task.parse().map_err(|_| bad())?, seq })
    }
}

impl Serialize for NoticeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NoticeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for NoticeId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NoticeId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^[a-z]-[0-9a-hjkmnp-tv-z]{12}\.[0-9]+$"
        })
    }
}

/// The name of a consumer of a session's notices. Each consumer acknowledges notices independently
/// of the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Consumer(String);

/// The error for a text that cannot name a consumer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot name a consumer; use 1 to {} of `A-Z a-z 0-9 . _ -`, not starting with `.` or `-`",
    SessionId::MAX_BYTES
)]
pub struct BadConsumer {
    /// The rejected text as it was passed, not escaped.
    pub text: String,
}

impl Consumer {
    /// Returns the default consumer: the agent of the session.
    #[must_use]
    pub fn agent() -> Self {
        Self("agent".to_owned())
    }

    /// Returns the consumer of `siding notices --notify` and of the hook `notify-person`: the user
    /// of the machine.
    #[must_use]
    pub fn person() -> Self {
        Self("person".to_owned())
    }

    /// Returns the consumer of `siding notices` at the terminal of a person, who has read the
    /// printed notices there. [`Self::person`] is a separate consumer, because a desktop
    /// notification may have been missed.
    #[must_use]
    pub fn terminal() -> Self {
        Self("terminal".to_owned())
    }

    /// Returns the consumer that names the page of `siding web` in the acknowledgements of a person
    /// there. The page acknowledges for [`Self::terminal`] as well, whose notices it shows.
    #[must_use]
    pub fn web() -> Self {
        Self("web".to_owned())
    }

    /// Returns the name, whose characters are safe in a file name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Consumer {
    type Err = BadConsumer;

    fn from_str(text: &str) -> Result<Self, BadConsumer> {
        match text.parse::<SessionId>() {
            Ok(_same_rules) => Ok(Self(text.to_owned())),
            Err(_) => Err(BadConsumer { text: text.to_owned() }),
        }
    }
}

impl<'de> Deserialize<'de> for Consumer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
