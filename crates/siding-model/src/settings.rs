//! Settings: the keys, their values, and the precedence of layers.
//!
//! ```text
//! built-in < system < host < user < project < environment < call
//! ```
//! Owns the table of keys, the parsing of single values, and the merge of layers. siding-core finds
//! and reads the sources, and fills one [`Layer`] from each through [`Layer::set`], which accepts
//! only valid values. The merge therefore cannot fail, and the values in [`Settings`] need no more
//! checks.
//!
//! Three rules take precedence over the order of layers. A value that violates one is ignored with
//! a [`SettingsWarning`]; an error would let an administrator's change break the commands of all
//! users. First, a key that the system file locked keeps its value, and only the system file can
//! raise `max_elapsed_hard_cap`; other layers may lower it, and it bounds `max_elapsed`. Second, a
//! project cannot set a key of [`KeyScope::UserOnly`]: a cloned repository must neither affect
//! other projects nor send a user's output anywhere. Third, a project's `net` applies only where it
//! is stricter than the layers below the project's, so that a project cannot open a network that
//! the user has closed.

mod check;
mod executors;
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

pub use executors::{BadExecutor, Executors};
pub use host_budget::HostBudget;
pub use host_key::{HostKey, UnknownHostKey};
pub use keys::{Key, KeyScope, Layer, Settings};
pub use merge::{InvalidSetting, SettingEntry, SettingsWarning};
pub use origin::{Origin, SYSTEM_FILE, SettingSource};
#[cfg(feature = "schema")]
pub use schema::file_schema;
pub use value::{AssistantMode, RawValue, RunTerminal, ValueError};
pub use webhook::Webhook;
