//! Tests of the read model on state directories with journals that the tests write. The recorded
//! shim of most tasks is the test program itself, which supervises nothing.

mod arrange;
mod fixture;
mod history;
mod measure;
mod random_changes;
mod refresh;
mod sample;
