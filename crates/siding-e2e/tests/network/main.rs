//! What of the network a task reaches (`--net`): real connections to real listeners of this machine.

mod allow;
mod namespaces;
mod ports;
mod proxy;
mod refusals;
mod settings;
mod support;
