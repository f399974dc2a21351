//! Ids of to-dos, and the forms in which models write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of a to-do in its list: `t1`, `t2` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TodoId(u32);

impl TodoId {
    /// The id of the first to-do of a list.
    pub(super) const FIRST_ID: Self = Self(1);

    /// Returns the next id; `None` after the greatest one.
    pub(super) const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// The error for a text that is not the id of a to-do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a to-do, such as `t1` or `t2` (a running task is not a to-do)")]
pub struct InvalidTodoId(String);

impl FromStr for TodoId {
    type Err = InvalidTodoId;

    /// Parses the forms that models write, which include `T3`, `#3` and `3`.
    fn from_str(text: &str) -> Result<Self, InvalidTodoId> {
        let number = text.trim().trim_start_matches('#').trim_start_matches(['t', 'T']);
        // `u32::from_str` would also accept a plus sign.
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        match number.parse() {
            Ok(number) if number > 0 && is_plain => Ok(Self(number)),
            Ok(_) | Err(_) => Err(InvalidTodoId(text.chars().take(40).collect())),
        }
    }
}

impl TryFrom<String> for TodoId {
    type Error = InvalidTodoId;

    fn try_from(text: String) -> Result<Self, InvalidTodoId> {
        text.parse()
    }
}

impl From<TodoId> for String {
    fn from(id: TodoId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for TodoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_in_every_form_models_write() {
        for text in ["t3", "T3", "3", "#3", "#t3", " t3 "] {
            assert_eq!(text.parse(), Ok(TodoId(3)), "{text}");
        }
        for text in ["", "t", "t0", "t-1", "t+1", "b-0123456789ab", "t99999999999", "t1.5"] {
            assert!(text.parse::<TodoId>().is_err(), "{text}");
        }
        assert_eq!(TodoId(12).to_string(), "t12");
    }
}
