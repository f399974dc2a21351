//! How siding speaks HTTP.
//!
//! [`HttpServer`] is where a server of siding listens: it decides who is let in, and is the same for all of
//! them. [`client`] makes the client with which siding asks others.

#![forbid(unsafe_code)]

mod allowed_hosts;
pub mod client;
mod server;
mod token;

pub use server::{
    AccessPolicy, HttpServer, ResponseBody, ServerError, ServerKind, ServerOptions, text_response,
};
