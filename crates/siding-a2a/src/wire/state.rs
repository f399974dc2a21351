//! The states of a task.

use serde::{Deserialize, Serialize};

/// How a task stands, as its server says it (`TaskState`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum State {
    /// The server does not say.
    #[default]
    Unspecified,
    /// It was taken on.
    Submitted,
    /// The agent works on it.
    Working,
    /// It is done.
    Completed,
    /// It has failed.
    Failed,
    /// It was canceled.
    Canceled,
    /// The agent asks for something.
    InputRequired,
    /// The agent does not do it.
    Rejected,
    /// The agent needs to be let in somewhere.
    AuthRequired,
    /// One that version 1.0 does not have, as it was given.
    Unknown(String),
}

/// States by their names on the wire and in what is told.
const NAMES: [(State, &str, &str); 9] = [
    (State::Unspecified, "TASK_STATE_UNSPECIFIED", "unspecified"),
    (State::Submitted, "TASK_STATE_SUBMITTED", "submitted"),
    (State::Working, "TASK_STATE_WORKING", "working"),
    (State::Completed, "TASK_STATE_COMPLETED", "completed"),
    (State::Failed, "TASK_STATE_FAILED", "failed"),
    (State::Canceled, "TASK_STATE_CANCELED", "canceled"),
    (State::InputRequired, "TASK_STATE_INPUT_REQUIRED", "input-required"),
    (State::Rejected, "TASK_STATE_REJECTED", "rejected"),
    (State::AuthRequired, "TASK_STATE_AUTH_REQUIRED", "auth-required"),
];

impl State {
    /// Returns its word in what is told; `None` for one that is not known.
    #[must_use]
    pub fn word(&self) -> Option<&'static str> {
        NAMES.iter().find(|(state, ..)| state == self).map(|(.., word)| *word)
    }

    /// Whether nothing comes after it (specification 4.1.3).
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether the agent waits for somebody.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

impl From<String> for State {
    fn from(name: String) -> Self {
        if name.is_empty() {
            return Self::Unspecified;
        }
        let known = NAMES.iter().find(|(_, wire, _)| *wire == name);
        known.map_or(Self::Unknown(name), |(state, ..)| state.clone())
    }
}

impl From<State> for String {
    fn from(state: State) -> Self {
        if let State::Unknown(name) = state {
            return name;
        }
        let known = NAMES.iter().find(|(known, ..)| *known == state);
        known.map_or_else(Self::new, |(_, wire, _)| (*wire).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_and_an_unknown_one_stays_itself() {
        for (state, wire, _) in NAMES {
            assert_eq!(String::from(state.clone()), wire);
            assert_eq!(State::from(wire.to_owned()), state);
            assert!(!(state.is_over() && state.waits()), "{wire}");
        }
        let new = State::from("TASK_STATE_PAUSED".to_owned());
        assert_eq!(new, State::Unknown("TASK_STATE_PAUSED".to_owned()));
        assert_eq!((new.word(), new.is_over()), (None, false));
        assert_eq!(String::from(new), "TASK_STATE_PAUSED");
    }
}
