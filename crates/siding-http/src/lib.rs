//! How siding speaks HTTP.
//!
//! [`Door`] is where a server of siding listens: it decides who is let in, and is the same for all of
//! them. [`client`] makes the client with which siding asks others.

#![forbid(unsafe_code)]

pub mod client;
mod door;
mod names;
mod token;

pub use door::{Body, Door, DoorError, DoorOptions, Kind, Lock, refusal};
