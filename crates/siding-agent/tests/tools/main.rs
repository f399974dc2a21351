//! Tests of the tools for files and for to-dos, with real files and processes.

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
