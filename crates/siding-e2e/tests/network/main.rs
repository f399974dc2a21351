//! The network access of a task (`--net`): real connections to real listeners on this machine.

mod allow_list;
mod namespaces;
mod ports;
mod proxy;
mod settings;
mod support;
mod unsupported_kernel;
