//! Tests of the tools with real files and processes.

#![forbid(unsafe_code)]

mod files {
    mod allowed_roots;
    mod edit;
    mod races;
    mod read;
    mod workspace;
    mod write;
}
mod tiny;
mod todo;
