//! The tools for files, on real ones.

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
