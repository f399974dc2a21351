//! Finds and reads the sources of settings.
//!
//! The layers for [`siding_model::settings`] are one for each readable file of siding, two for each
//! valid file of the host, one for the environment variables, and one for the values of the call.
//! The lowest layer comes first. The module in siding-model decides which values are legal and
//! which layer wins. Every `siding run` reads the settings, so a missing file must cost only one
//! failed system call.

mod environment;
mod error;
mod file;
mod host;
mod load;
mod project;
mod rule_files;
#[cfg(test)]
mod tests;
mod toml_file;
mod writable_file;

pub use environment::{CallValue, Environment};
pub use error::SettingsError;
pub use file::FILE_MAX;
pub use load::{LoadedSettings, load, read, read_planned};
pub use rule_files::{RuleFile, RuleFiles, read_rule_files};
pub use writable_file::{PlannedFile, WritableLayer, writable_file};
