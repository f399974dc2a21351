//! HTTP for siding's servers and clients.
//!
//! [`HttpServer`] listens and decides which requests are accepted, by the same rules for all of
//! siding's servers. [`client`] builds the client for requests to other servers, [`BlockingPost`]
//! uses it from a thread, and [`TransportError`] describes why a request got no complete response.

#![forbid(unsafe_code)]

mod allowed_hosts;
mod blocking_post;
pub mod client;
mod error;
mod server;
mod stream;
mod token;
mod transport_error;

pub use allowed_hosts::LOOPBACK_NAMES;
pub use blocking_post::{BlockingPost, PostResponse};
pub use error::ServerError;
pub use server::{AccessPolicy, HttpServer, ResponseBody, ServerOptions, text_response};
pub use stream::stream_response;
pub use token::{ServerKind, TokenLocation};
pub use transport_error::TransportError;
