//! What the guard says.

use crate::*;

#[test]
fn every_example_of_a_built_in_rule_is_right() {
    let tried = Rules::builtin().try_examples(|_| true);
    assert!(tried.failed.is_empty(), "{:#?}", tried.failed);
    assert!(tried.without.is_empty(), "rules without an example: {:?}", tried.without);
    assert!(tried.count > 300, "{}", tried.count);
}
