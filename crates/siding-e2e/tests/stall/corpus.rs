//! Prompts are told from what looks like them.

use siding_e2e::corpus::{self, Sample};
use siding_model::evidence::prompt::OutputTail;

fn is_prompt(sample: &Sample) -> bool {
    OutputTail::from_bytes(sample.text.as_bytes()).prompt.is_some()
}

/// PAINS E7, E9: choices, passwords and chevrons are prompts.
#[test]
fn prompts_are_found() {
    let mut missed = corpus::prompts();
    missed.retain(|sample| !is_prompt(sample));
    // A lone `>` is the prompt of some installers, and of too much else.
    missed.retain(|sample| sample.from != "rustup");
    assert!(missed.is_empty(), "missed {missed:#?}");
}

/// PAINS E8: `[INFO] Starting: `, bars, the shell's own `$ ` are none.
#[test]
fn look_alikes_are_not_taken_for_prompts() {
    let mut wrong = corpus::look_alikes();
    wrong.retain(is_prompt);
    assert!(wrong.is_empty(), "taken for prompts: {wrong:#?}");
}
