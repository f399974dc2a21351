//! Installing siding into hosts: editing their files so that nothing else in them changes.

pub(crate) mod error;
pub(crate) mod examine;
mod file;
pub(crate) mod hooks;
pub(crate) mod hosts;
pub(crate) mod json;
mod made;
mod memory;
pub(crate) mod notify;
pub(crate) mod plan;
pub(crate) mod program;
mod server;
mod status_line;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod timer;
mod toml;
mod tree;

pub(crate) use self::memory::Memory;
