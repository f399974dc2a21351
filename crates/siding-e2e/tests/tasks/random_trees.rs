//! A stop of a random process tree leaves no survivor.

use std::sync::atomic::{AtomicU64, Ordering};

use siding_e2e::{Sandbox, eventually, is_root, tree_plan};

use crate::support::{Task, ordinary_user_sandbox, sandbox};

/// Number of trees if `SIDING_E2E_TREES` is not set.
const DEFAULT_TREE_COUNT: u64 = 40;
/// Number of concurrent trees; each spends most of its time waiting.
const CONCURRENT_TREES: usize = 4;

/// Promise P31, failures F7 and F8: no process of a random tree survives a stop by root or by an
/// ordinary user, whether the tree is complete or still growing.
#[test]
fn stop_leaves_no_survivor_of_a_random_tree() {
    let trees = std::env::var("SIDING_E2E_TREES")
        .map_or(DEFAULT_TREE_COUNT, |trees| trees.parse().expect("SIDING_E2E_TREES is a number"));
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENT_TREES {
            scope.spawn(|| stop_random_trees(&next, trees));
        }
    });
    println!("{trees} trees, root: {}", is_root());
}

/// Grows and stops trees until `next` exceeds `trees`. All threads share `next`, which is the seed
/// of the next tree.
fn stop_random_trees(next: &AtomicU64, trees: u64) {
    let own = sandbox();
    let other = ordinary_user_sandbox();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed > trees {
            return;
        }
        let other = other.as_ref().filter(|_| seed.is_multiple_of(2));
        stop_random_tree(other.unwrap_or(&own), seed);
    }
}

/// Grows a tree, and stops the tree in a way that depends on the seed.
fn stop_random_tree(sandbox: &Sandbox, seed: u64) {
    let mut dice = tree_plan::SplitMix64(seed);
    let (depth, width) = (1 + dice.next_below(4), 1 + dice.next_below(4));
    let plan = tree_plan::plan_tree(seed, depth as usize, width as usize);
    let beat = sandbox.path(&format!("beat{seed}")).display().to_string();
    let words = [seed, depth, width].map(|number| number.to_string());
    let verbs = ["tree", &words[0], &words[1], &words[2], "--beats", &beat];
    let before = member_count(sandbox);
    let task = Task::start_puppet(sandbox, &[], &verbs);
    // Two thirds of the trees are complete; the others are stopped while they grow.
    let grown = dice.next_below(3) > 0;
    let awaited = if grown { plan.count() } else { dice.next_below(plan.count() as u64) as usize };
    eventually(&format!("tree {seed} has grown"), || member_count(sandbox) - before >= awaited);
    let grace = ["0s", "50ms", "150ms"][dice.next_below(3) as usize];
    let view = task.stop(&["--grace", grace]);
    task.expect_stopped();
    assert_eq!(view["outcome"]["kind"], "stopped", "seed {seed}: {view}");
    let report = &view["stop_report"];
    assert_eq!(report["survivors"], serde_json::json!([]), "seed {seed}");
    if grown {
        let ended = report["ended_total"].as_u64().expect("a number");
        assert!(ended >= plan.lasting_count() as u64, "seed {seed}: {view}");
    }
}

fn member_count(sandbox: &Sandbox) -> usize {
    let steps = sandbox.announcements();
    steps.iter().filter(|step| step.verb == "member").count()
}
