//! The web page of siding: shows the tasks and their output, and serves both as JSON.
//!
//! A request passes four checks before any data of a task is read: the peer is a process of this
//! user ([`HttpServer`](siding_http::HttpServer)), `Host` names this server, no page of another
//! origin caused the request, and the browser has signed in or the program knows the token. A
//! change needs `--control` in addition. Pages are rendered on the server and work without scripts;
//! names, commands and output of tasks are escaped.

#![forbid(unsafe_code)]

mod access;
mod act;
mod api;
mod assets;
mod body_fields;
mod context;
mod event_log;
mod event_stream;
mod feed;
mod openapi;
mod output_feed;
mod output_style;
mod output_window;
mod page;
mod palette;
mod query;
mod response;
mod route;
mod search;
mod server;
mod sign_in;
mod typing;
mod typing_pages;

pub use openapi::SchemaSource;
pub use server::{TOKEN_VARIABLE, WebError, WebMessage, WebOptions, serve};
