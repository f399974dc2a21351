//! Verbs that create many processes or change the pid.

use siding_e2e::processes::{is_heartbeat_running, is_heartbeat_stopped};
use siding_e2e::{POLL_DEADLINE, Process, Sandbox, eventually, tree_plan, words};

#[test]
fn hop_changes_its_pid_and_ends_by_itself() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let beat = sandbox.path("beat");
    let verbs = ["hop", "300", "--beat", &beat.display().to_string()];
    let done = sandbox.puppet(&verbs).run().expect_code(0);
    assert!(done.elapsed < POLL_DEADLINE, "the caller ends at its first hop");
    assert!(is_heartbeat_running(&beat));
    assert!(sandbox.wait_for_announcement("hopped").field::<u64>("hops") > 10);
}

#[test]
fn sandbox_ends_hopping_and_refilling_processes() {
    // The beat file is in a second sandbox that outlives the first one: if the first sandbox misses
    // a hopping process, the file keeps growing.
    let elsewhere = Sandbox::new();
    let beat = elsewhere.path("beat");
    let beat_text = beat.display().to_string();
    let sandbox = Sandbox::new();
    let script = [&["fork", "hop", "50000", "--beat", &beat_text, "--"][..]; 4].concat();
    let storm = [&script[..], &words("bomb 30 --setsid --refill")].concat();
    let _keeps_alive = sandbox.puppet(&storm).spawn();
    let _storm = sandbox.wait_for_announcements("bomb", 30);
    assert!(is_heartbeat_running(&beat));
    drop(sandbox);
    assert!(is_heartbeat_stopped(&beat));
}

#[test]
fn bomb_reaches_its_size_and_no_more() {
    let sandbox = Sandbox::new();
    let _keeps_alive = sandbox.puppet(&["bomb", "40", "--setsid"]).spawn();
    let members = sandbox.wait_for_announcements("bomb", 40);
    assert!(is_heartbeat_stopped(&sandbox.puppet_log()));
    assert_eq!(members.len(), 40);
    assert!(members.iter().all(|step| step.process.is_alive()));
}

#[test]
fn refilling_bomb_replaces_every_dead_member() {
    let sandbox = Sandbox::new();
    let script = words("--quiet subreaper fork bomb 20 --refill -- wait");
    let _keeps_alive = sandbox.puppet(&script).spawn();
    let members = sandbox.wait_for_announcements("bomb", 20);
    assert!(members.iter().filter(|step| step.process.is_alive()).count() <= 20);
    // The slot of a killed member becomes free when the member is reaped; the one surviving member
    // then fills all free slots again.
    members[..19].iter().for_each(|step| step.process.kill());
    let members = sandbox.wait_for_announcements("bomb", 39);
    eventually("twenty members are alive again", || {
        members.iter().filter(|step| step.process.is_alive()).count() == 20
    });
}

#[test]
fn relaunch_starts_a_new_child_when_one_dies() {
    let sandbox = Sandbox::new();
    let _keeps_alive = sandbox.puppet(&words("relaunch mark child hang --")).spawn();
    for count in 1..=3 {
        let launched = sandbox.wait_for_announcements("mark", count);
        launched[count - 1].process.kill();
    }
    let _fourth = sandbox.wait_for_announcements("mark", 4);
}

#[test]
fn trees_grow_as_planned_and_the_sandbox_ends_them() {
    let trees =
        std::env::var("SIDING_SOAK_TREES").map_or(12, |trees| trees.parse().expect("a number"));
    for seed in 1..=trees {
        let sandbox = Sandbox::new();
        let beat = sandbox.path("beat");
        let seed_text = seed.to_string();
        let verbs = ["tree", &seed_text, "3", "3", "--beats", &beat.display().to_string()];
        let running = sandbox.puppet(&verbs).spawn();
        let plan = tree_plan::plan_tree(seed, 3, 3);
        let members = sandbox.wait_for_announcements("member", plan.count());
        assert_eq!(members.len(), plan.count(), "seed {seed}");
        let processes: Vec<Process> = members.iter().map(|step| step.process).collect();
        eventually("only the lasting members are alive", || {
            processes.iter().filter(|process| process.is_alive()).count() == plan.lasting_count()
        });
        assert!(is_heartbeat_running(&beat));
        drop(running);
        drop(sandbox);
        assert!(processes.iter().all(|process| !process.is_alive()), "seed {seed}");
    }
}
