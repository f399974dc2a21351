//! `puppet` does what its arguments say, and a sandbox leaves nothing behind.

mod body;
mod crowds;
mod sandbox;
mod streams;
mod words;

use siding_e2e::{Finished, Sandbox};

/// Runs a script to its end in a sandbox that must be clean afterwards.
#[track_caller]
fn perform(verbs: &[&str]) -> Finished {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox.puppet(verbs).run()
}
