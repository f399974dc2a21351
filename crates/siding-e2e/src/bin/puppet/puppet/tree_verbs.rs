//! Executes a planned random process tree.

use std::path::Path;

use siding_e2e::tree_plan::{self, MemberBehavior, SpawnMode, TreeMember};

use super::executor::hang;
use super::puppet_process::PuppetProcess;
use super::steps::Step;
use super::syscalls::{self, ForkSide};
use super::{process_verbs, stream_verbs};

/// Maximum depth and maximum width that the verb `tree` accepts.
const MAX_TREE_SIDE: u64 = 20;

/// Makes this process the root of the process tree that is planned for `seed`.
pub(super) fn run_tree(
    actor: &mut PuppetProcess,
    seed: u64,
    depth: u64,
    width: u64,
    beats: Option<&Path>,
) -> ! {
    if depth > MAX_TREE_SIDE || width > MAX_TREE_SIDE {
        actor.fail_verb("tree", &format!("depth and width are at most {MAX_TREE_SIDE}"));
    }
    let root = tree_plan::plan_tree(seed, depth as usize, width as usize);
    actor.announce(
        "tree",
        &[
            ("seed", seed.to_string()),
            ("members", root.count().to_string()),
            ("staying", root.lasting_count().to_string()),
        ],
    );
    // The members announce themselves only in the log: their lines could fill a stdout pipe that no
    // process reads, and the tree would block before it is complete.
    actor.mute_stdout();
    run_member(actor, &root, beats)
}

fn run_member(actor: &mut PuppetProcess, member: &TreeMember, beats: Option<&Path>) -> ! {
    // The kernel sends SIGHUP to a newly orphaned process group with a stopped member (setpgid(2)).
    // The signal would end members that the program under test must end.
    let _best_effort = syscalls::set_disposition(libc::SIGHUP, true);
    if member.ignores_term {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let _best_effort = syscalls::set_disposition(signal, true);
        }
    }
    if member.clears_env {
        syscalls::wipe_environment();
    }
    if member.subreaper {
        let _best_effort = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    for child in &member.children {
        spawn_member(actor, child, beats);
    }
    let fields = [
        ("path", member.path.clone()),
        ("birth", format!("{:?}", member.spawn_mode)),
        ("life", format!("{:?}", member.behavior)),
        ("ignores-term", member.ignores_term.to_string()),
    ];
    actor.log_step("member", &fields);
    match (member.behavior, beats) {
        (MemberBehavior::Exit, _) => syscalls::exit(0),
        (MemberBehavior::Beat, Some(file)) => stream_verbs::beat(actor, file),
        (MemberBehavior::Beat, None) | (MemberBehavior::Hang, _) => hang(),
        (MemberBehavior::Stopped, _) => {
            syscalls::signal_self(libc::SIGSTOP);
            hang()
        }
        (MemberBehavior::LeaderExits, file) => {
            let rest = file.map_or(Step::Hang, |file| Step::Beat(file.to_owned()));
            process_verbs::leader_exits(actor, vec![rest])
        }
    }
}

fn spawn_member(actor: &mut PuppetProcess, member: &TreeMember, beats: Option<&Path>) {
    match syscalls::fork() {
        Ok(ForkSide::Child) => {
            actor.init_after_fork();
            apply_spawn_mode(actor, member.spawn_mode);
            run_member(actor, member, beats)
        }
        Ok(ForkSide::Parent(child)) => {
            if matches!(member.spawn_mode, SpawnMode::Daemon | SpawnMode::Orphan) {
                // This child only forks the real member and exits, so the member becomes an orphan.
                // The child is reaped here to leave no zombie.
                let child = rustix::process::Pid::from_raw(child);
                let _already_ended =
                    rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
            }
        }
        Err(error) => {
            let text = format!("{}: {error}", member.path);
            actor.log_step("unborn", &[("members", member.count().to_string()), ("text", text)]);
        }
    }
}

fn apply_spawn_mode(actor: &mut PuppetProcess, birth: SpawnMode) {
    match birth {
        SpawnMode::Fork => {}
        SpawnMode::Group => {
            let _best_effort = rustix::process::setpgid(None, None);
        }
        SpawnMode::Session => {
            let _best_effort = rustix::process::setsid();
        }
        SpawnMode::Orphan => process_verbs::fork_and_exit_parent(actor, "tree"),
        SpawnMode::Daemon => {
            process_verbs::fork_and_exit_parent(actor, "tree");
            let _best_effort = rustix::process::setsid();
            process_verbs::fork_and_exit_parent(actor, "tree");
            process_verbs::remove_identity(actor);
        }
    }
}
