//! Processes are found, held, and not taken for others.

use std::process::{Child, Command, Stdio};

use siding_model::id::TaskKind;

use super::*;

/// A process with a task's mark. Ended when dropped.
struct Marked(Child);

impl Marked {
    /// Returns once `line` has said something.
    fn new(id: TaskId, line: &str) -> Self {
        let line = format!("ulimit -R {}; {line}", id.birthmark().0);
        let mut command = Command::new("bash");
        command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("there is a bash");
        let mut told = [0];
        let out = child.stdout.as_mut().expect("is piped");
        std::io::Read::read_exact(out, &mut told).expect("it is marked");
        Self(child)
    }

    fn process(&self) -> ProcRef {
        let pid = i32::try_from(self.0.id()).expect("fits");
        procfs::identify(pid).expect("not waited for")
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

fn id(number: u64) -> TaskId {
    TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + number).expect("small")
}

/// A state directory without a task.
fn empty() -> (tempfile::TempDir, Root) {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = Root::open(&temporary.path().join("state")).expect("is made");
    (temporary, root)
}

#[test]
fn only_what_is_still_the_same_and_marked_is_held() {
    let marked = Marked::new(id(77), "echo; read -r _");
    let process = marked.process();
    let (_temporary, root) = empty();
    let held = |id: TaskId, known: ProcRef| -> Vec<ProcRef> {
        hold(&root, id, None, &[known]).iter().map(|held| held.process).collect()
    };
    assert_eq!(held(id(77), process), [process]);
    let earlier = ProcRef { start_ticks: process.start_ticks - 1, ..process };
    assert_eq!(held(id(77), earlier), [], "its number is another's now");
    assert_eq!(held(id(78), process), [], "it is of another task");
    assert_eq!(Marks::scan_for(&root, id(77), 0).of(id(77)), [process]);
    assert_eq!(Marks::scan_for(&root, id(77), process.pid).of(id(77)), []);
    drop(marked);
    assert_eq!(held(id(77), process), [], "it has ended");
}

/// Starts a process that lives for a moment and starts the next, and so on. Returns the shell
/// behind it, which lives on.
fn hopping(root: &Root, id: TaskId) -> Marked {
    let hop = "hop() { [ -e /proc/$$ ] && (hop &) }; hop";
    let shell = Marked::new(id, &format!("{hop}; echo; read -r _"));
    let pid = shell.process().pid;
    while Marks::scan_for(root, id, pid).of(id).is_empty() {
        assert!(lives(shell.process()), "the shell has not started the first");
    }
    shell
}

#[test]
fn one_that_moves_on_is_always_found() {
    const LOOKS: usize = 100;
    let (_temporary, root) = empty();
    let shell = hopping(&root, id(79));
    let pid = shell.process().pid;
    for look in 0..LOOKS {
        assert!(!Marks::scan_for(&root, id(79), pid).of(id(79)).is_empty(), "look {look}");
    }
}

#[test]
fn one_that_moves_on_is_not_gone_for_looks_that_are_shared() {
    const LOOKS: usize = 100;
    let (_temporary, root) = empty();
    let (shell, gone) = (hopping(&root, id(80)), id(81));
    let looks = PacedLook::default();
    [id(80), gone].into_iter().for_each(|id| looks.admit(id));
    let pid = shell.process().pid;
    for look in 0..LOOKS {
        match looks.by_mark(&root, id(80), pid, 4) {
            Ok(grip) => assert!(!grip.is_empty(), "look {look}"),
            Err(at) => while clock::mono() < at {},
        }
        assert!(looks.by_mark(&root, gone, pid, 4).is_ok_and(|grip| grip.is_empty()));
    }
}

#[test]
fn what_a_shared_look_found_is_held_and_what_died_is_looked_for_again() {
    let (_temporary, root) = empty();
    let (stays, goes) =
        (Marked::new(id(82), "echo; read -r _"), Marked::new(id(83), "echo; read -r _"));
    let looks = PacedLook::default();
    [id(82), id(83)].into_iter().for_each(|id| looks.admit(id));
    let held = |id: TaskId| -> Result<Vec<ProcRef>, MonotonicMs> {
        Ok(looks.by_mark(&root, id, 0, 4)?.held.iter().map(|held| held.process).collect())
    };
    assert_eq!(held(id(82)), Ok(vec![stays.process()]));
    assert_eq!(held(id(83)), Ok(vec![goes.process()]));
    drop(goes);
    while let Err(at) = held(id(83)) {
        while clock::mono() < at {}
    }
    assert_eq!(held(id(83)), Ok(vec![]));
    assert_eq!(held(id(82)), Ok(vec![stays.process()]));
}
