//! Text and JSON for what the commands found out.

pub(crate) mod json;
