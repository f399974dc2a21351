//! Settings: the keys, their values, and the precedence of layers.
//!
//! ```text
//! built-in < system < host < user < project < environment < call
//! ```
//! Owns the table of keys, the parsing of single values, and the merge. The input of the merge is a
//! list of [`Layer`]s, each filled from one source through [`Layer::set`], which accepts only valid
//! values. The merge therefore cannot fail, and [`Settings`] never hold a value that needs another
//! check. siding-core finds and reads the sources.
//!
//! Three rules take precedence over the order of layers. A violation gives a [`SettingsWarning`]
//! instead of an error, so that an administrator's change does not break the commands of all users.
//! First, a key that the system file locked keeps its value, and only the system file can raise
//! `max_elapsed_hard_cap`; other layers may lower it, and no `max_elapsed` exceeds it. Second, a
//! project cannot set `notify_webhook`, because a repository must not send a user's output
//! anywhere. Third, a project cannot open a network that its user has closed: its `net` applies
//! only where it is stricter than the layers below it.

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
pub use keys::{Key, KeyScope, Layer, Settings};
pub use merge::{InvalidSetting, SettingEntry, SettingsWarning};
pub use origin::{Origin, SettingSource};
#[cfg(feature = "schema")]
pub use schema::file_schema;
pub use value::{AssistantMode, RawValue, ValueError};
pub use webhook::Webhook;
