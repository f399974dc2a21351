//! What of the network a task reaches (`--net`): real connections to real listeners of this machine.

mod allow_list;
mod namespaces;
mod ports;
mod proxy;
mod settings;
mod support;
mod unsupported_kernel;
