//! HTTP for siding's servers and clients.
//!
//! [`HttpServer`] listens and decides which requests are accepted, in the same way for all of
//! siding's servers. [`client`] builds the client for requests to other servers.

#![forbid(unsafe_code)]

mod allowed_hosts;
pub mod client;
mod error;
mod server;
mod token;

pub use error::ServerError;
pub use server::{AccessPolicy, HttpServer, ResponseBody, ServerOptions, text_response};
pub use token::ServerKind;
