//! Settings: which there are, what they may be, and which layer wins.
//!
//! ```text
//! built-in < system < host < user < project < environment < call
//! ```
//! Owns the table of keys, the reading of single values, and the merge. It is given [`Layer`]s,
//! each filled from one source through [`Layer::set`], which accepts only legal values; so the
//! merge cannot fail, and [`Settings`] never hold a value that somebody would have to check again.
//! Finding and reading the sources belongs to siding-core.
//!
//! Three rules stand above the order of layers, and breaking one is no error but a [`SettingsWarning`], so
//! that an administrator's change does not stop everybody's commands: a key that the system file
//! locked keeps its value, and `max_elapsed_hard_cap` can only be raised by the system file;
//! everybody else may lower it, and nobody's `max_elapsed` passes it. And a project cannot set
//! `notify_webhook`: a repository must not send a user's output anywhere. Nor does it open a network
//! that its user has closed: its `net` holds only where it is stricter than what it lies on.

mod check;
mod host_budget;
mod host_key;
mod keys;
mod lists;
mod merge;
mod net;
mod origin;
#[cfg(feature = "schema")]
mod schema;
mod suggest;
#[cfg(test)]
mod tests;
mod value;
mod webhook;

pub use host_budget::HostBudget;
pub use host_key::{HostKey, UnknownHostKey};
pub use keys::{Key, Layer, Settings};
pub use merge::{InvalidSetting, SettingEntry, SettingsWarning};
pub use origin::{Origin, SettingSource};
#[cfg(feature = "schema")]
pub use schema::file_schema;
pub use value::{AssistantMode, RawValue, ValueError};
pub use webhook::Webhook;
