//! Acts out a planned random tree.

use std::path::Path;

use siding_e2e::tree::{self, Birth, Life, Member};

use super::actor::Actor;
use super::kernel::{self, Side};
use super::perform::hang;
use super::steps::Step;
use super::{body, streams};

/// Deepest and widest tree one may ask for.
const SIDE_MAX: u64 = 20;

/// Becomes the root of the tree of that seed.
pub(super) fn tree(
    actor: &mut Actor,
    seed: u64,
    depth: u64,
    width: u64,
    beats: Option<&Path>,
) -> ! {
    if depth > SIDE_MAX || width > SIDE_MAX {
        actor.cannot("tree", &format!("depth and width are at most {SIDE_MAX}"));
    }
    let root = tree::plan(seed, depth as usize, width as usize);
    actor.announce(
        "tree",
        &[
            ("seed", seed.to_string()),
            ("members", root.count().to_string()),
            ("staying", root.staying().to_string()),
        ],
    );
    // From here on only the log: so many lines would fill a stdout that nobody reads, and the
    // tree would stand still before it had grown.
    actor.fall_silent();
    live(actor, &root, beats)
}

fn live(actor: &mut Actor, member: &Member, beats: Option<&Path>) -> ! {
    // The kernel sends HUP to a group with a stopped member when its last tie to its session is
    // cut, so members would end by no doing of the program under test.
    let _cannot_fail = kernel::dispose(libc::SIGHUP, true);
    if member.ignores_term {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let _cannot_fail = kernel::dispose(signal, true);
        }
    }
    if member.clears_env {
        kernel::wipe_environment();
    }
    if member.subreaper {
        let _cannot_fail = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    for child in &member.children {
        start(actor, child, beats);
    }
    let fields = [
        ("path", member.path.clone()),
        ("birth", format!("{:?}", member.birth)),
        ("life", format!("{:?}", member.life)),
        ("ignores-term", member.ignores_term.to_string()),
    ];
    actor.note("member", &fields);
    match (member.life, beats) {
        (Life::Exit, _) => kernel::exit(0),
        (Life::Beat, Some(file)) => streams::beat(actor, file),
        (Life::Beat, None) | (Life::Hang, _) => hang(),
        (Life::Stopped, _) => {
            kernel::signal_self(libc::SIGSTOP);
            hang()
        }
        (Life::LeaderExits, file) => {
            let rest = file.map_or(Step::Hang, |file| Step::Beat(file.to_owned()));
            body::leader_exits(actor, vec![rest])
        }
    }
}

fn start(actor: &mut Actor, member: &Member, beats: Option<&Path>) {
    match kernel::fork() {
        Ok(Side::Child) => {
            actor.born();
            be_born(actor, member.birth);
            live(actor, member, beats)
        }
        Ok(Side::Parent(child)) => {
            if matches!(member.birth, Birth::Daemon | Birth::Orphan) {
                // What stays of it is a child of somebody else; this one ends at once.
                let child = rustix::process::Pid::from_raw(child);
                let _gone = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
            }
        }
        Err(error) => {
            let text = format!("{}: {error}", member.path);
            actor.note("unborn", &[("members", member.count().to_string()), ("text", text)]);
        }
    }
}

fn be_born(actor: &mut Actor, birth: Birth) {
    match birth {
        Birth::Fork => {}
        Birth::Group => {
            let _cannot_fail = rustix::process::setpgid(None, None);
        }
        Birth::Session => {
            let _cannot_fail = rustix::process::setsid();
        }
        Birth::Orphan => body::fork_away(actor, "tree"),
        Birth::Daemon => {
            body::fork_away(actor, "tree");
            let _cannot_fail = rustix::process::setsid();
            body::fork_away(actor, "tree");
            body::become_innocent(actor);
        }
    }
}
