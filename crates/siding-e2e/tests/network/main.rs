//! The network policies of tasks (`--net`), tested with real connections to listeners on this
//! machine.

mod allow_list;
mod namespaces;
mod ports;
mod proxy;
mod settings;
mod support;
mod unsupported_kernel;
