//! The prompt patterns recognize the prompts of the corpus, except the lone `>` of rustup, and none
//! of the corpus's texts that only resemble prompts.

use siding_e2e::prompt_corpus::{self, PromptSample};
use siding_model::evidence::prompt::OutputTail;

fn is_prompt(sample: &PromptSample) -> bool {
    OutputTail::from_bytes(sample.text.as_bytes()).prompt.is_some()
}

/// Failures F37 and F39: the patterns recognize choices, password prompts and lists with `❯`.
#[test]
fn prompts_of_the_corpus_are_detected() {
    let mut missed = prompt_corpus::prompts();
    missed.retain(|sample| !is_prompt(sample));
    // A lone `>` is not recognized: some installers use it as a prompt, but too many programs print
    // it for another reason.
    missed.retain(|sample| sample.source != "rustup");
    assert!(missed.is_empty(), "missed {missed:#?}");
}

/// Failure F38: `[INFO] Starting: `, progress bars and the shell's own `$ ` are not prompts.
#[test]
fn non_prompts_of_the_corpus_are_not_detected() {
    let mut wrong = prompt_corpus::non_prompts();
    wrong.retain(is_prompt);
    assert!(wrong.is_empty(), "taken for prompts: {wrong:#?}");
}
