//! The tools for files, on real ones.

#![forbid(unsafe_code)]

mod files {
    mod edit;
    mod fence;
    mod place;
    mod races;
    mod read;
    mod write;
}
mod tiny;
