//! Installs siding into hosts by adding entries to their files. Everything else in the files stays
//! as it is.

pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod hooks;
pub(crate) mod hosts;
pub(crate) mod json;
mod json_value;
mod mcp_server;
pub(crate) mod notify;
pub(crate) mod plan;
pub(crate) mod program;
mod record;
mod record_store;
mod status_line;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod timer;
pub(crate) mod toml;
pub(crate) mod verify;

pub(crate) use self::record_store::InstallRecords;
