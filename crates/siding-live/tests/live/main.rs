//! Tests of the read model on state directories with journals that the tests write. The shim of
//! each task is the test program itself, which reads nothing and supervises nothing.

mod arrange;
mod fixture;
mod history;
mod measure;
mod random_changes;
mod refresh;
mod sample;
