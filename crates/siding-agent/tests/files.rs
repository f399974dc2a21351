//! Tests of the file tools with real files.

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
