//! The to-do list that agents share, in real files and between real processes.

#![forbid(unsafe_code)]

mod tiny;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_agent::provider::Cancel;
use siding_agent::tool::todo::{Holder, State, TodoList};
use siding_agent::tool::{Ground, Outcome, Scene, Toolbox};
use tempfile::TempDir;

use tiny::Tiny;

/// An agent in a project.
struct Agent {
    scene: Scene,
    tools: Toolbox,
}

impl Agent {
    fn new(project: &Path, name: &str) -> Self {
        Self::of(project, Holder::here(name).expect("has /proc"))
    }

    fn of(project: &Path, holder: Holder) -> Self {
        let ground = Ground::new(project, &[]).expect("is a directory");
        let scene = Scene::new(ground, TodoList::new(project), holder);
        Self { scene, tools: Toolbox::new().with_todo() }
    }

    fn call(&self, tool: &str, input: Value) -> Outcome {
        self.tools.run(&self.scene, tool, input, &Cancel::default())
    }

    fn create(&self, subject: &str, blocked_by: &[&str]) -> Outcome {
        self.call("create_task", json!({ "subject": subject, "blocked_by": blocked_by }))
    }

    fn claim(&self, id: &str) -> Outcome {
        self.call("claim_task", json!({ "id": id }))
    }

    fn complete(&self, id: &str) -> Outcome {
        self.call("complete_task", json!({ "id": id }))
    }

    fn list(&self) -> String {
        self.call("list_tasks", json!({})).expect("is read")
    }
}

fn project() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    (dir, path)
}

fn journal(project: &Path) -> PathBuf {
    project.join(".siding/todo.jsonl")
}

#[track_caller]
fn refused(outcome: Outcome, parts: &[&str]) {
    let why = outcome.expect_err("is refused");
    for part in parts {
        assert!(why.contains(part), "no {part:?} in {why}");
    }
}

#[track_caller]
fn said(outcome: Outcome, wanted: &str) {
    let said = outcome.unwrap_or_else(|why| panic!("refused: {why}"));
    assert!(said.contains(wanted), "no {wanted:?} in {said}");
}

#[test]
fn two_agents_share_a_list() {
    let (_dir, project) = project();
    let (one, two) = (Agent::new(&project, "one"), Agent::new(&project, "two"));
    assert_eq!(one.list(), "The list is empty; create_task puts work on it.\n");
    assert!(!project.join(".siding").exists(), "looking makes nothing");
    said(one.create("Set up\n the project", &[]), "t1 is on the to-do list: Set up the project");
    said(two.create("Test it", &["t1"]), "t2 is on the to-do list, waiting for t1: Test it");
    refused(two.create("Ship it", &["t3"]), &["names t3", "not on the list"]);
    refused(two.create("Ship it", &["b-0123456789ab"]), &["`blocked_by`", "no to-do"]);
    refused(two.claim("t2"), &["t2 waits for t1"]);
    refused(two.complete("t1"), &["claim it with claim_task"]);
    said(one.claim("t1"), "t1 is yours");
    said(one.claim("t1"), "t1 was yours already");
    refused(two.claim("t1"), &["worked on by one", "which runs"]);
    refused(two.complete("t1"), &["worked on by one"]);
    let wanted =
        "t1 Set up the project [in_progress, owner one]\nt2 Test it [pending, waits for t1]\n";
    assert_eq!(two.list(), wanted);
    said(one.complete("t1"), "t1 is completed; nothing else keeps back t2 now");
    said(one.complete("t1"), "t1 was completed already");
    refused(two.claim("t1"), &["completed by one already"]);
    said(two.claim("T2"), "t2 is yours");
    said(two.call("claim_task", json!({ "id": "t2", "give_back": "true" })), "pending again");
    said(one.claim("2"), "t2 is yours");
    said(one.complete("t2"), "t2 is completed");
    assert_eq!(two.list(), "All 2 to-dos are completed.\n");
    said(two.call("list_tasks", json!({ "all": true })), "t2 Test it [completed by one]\n");
}

#[test]
fn all_that_is_known_of_one_is_shown() {
    let (_dir, project) = project();
    let agent = Agent::new(&project, "one");
    let input = json!({ "subject": "Look", "description": "All of it.\n\u{1b}[2Jgone" });
    said(agent.call("create_task", input), "t1");
    agent.create("Then", &["1"]).unwrap();
    agent.claim("t1").unwrap();
    let text = agent.call("get_task", json!({ "id": "t1" })).unwrap();
    let (head, rest) = text.split_once("claimed: ").unwrap();
    assert_eq!(head, "t1 Look\nstatus: in_progress, owner you\n");
    assert!(rest.ends_with(" ago\nblocks: t2\n\nAll of it.\n\\e[2Jgone\n"), "{rest}");
    refused(agent.call("get_task", json!({ "id": "t7" })), &["no to-do t7", "list_tasks"]);
    refused(agent.call("get_task", json!({ "id": "b-0123" })), &["`id`", "not one"]);
}

#[test]
fn its_file_is_for_its_user_alone() {
    let (_dir, project) = project();
    Agent::new(&project, "one").create("Do it", &[]).unwrap();
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(project.join(".siding")), 0o700);
    assert_eq!(mode(journal(&project)), 0o600);
    let text = std::fs::read_to_string(journal(&project)).unwrap();
    assert!(text.starts_with("{\"format\":1}\n{\"at_ms\":"), "{text}");
}

#[test]
fn what_a_lost_process_had_can_be_claimed() {
    let (_dir, project) = project();
    let here = Holder::here("lost").expect("has /proc");
    let mut gone = here.clone();
    gone.process.start_ticks += 1;
    let mut elsewhere = here.clone();
    elsewhere.boot.0 = "another".to_owned();
    elsewhere.machine = "another host".to_owned();
    let one = Agent::new(&project, "one");
    for (id, holder) in [("t1", gone.clone()), ("t2", elsewhere), ("t3", gone.clone())] {
        one.create("Do it", &[]).unwrap();
        said(Agent::of(&project, holder).claim(id), "is yours");
    }
    assert!(one.list().contains("t1 Do it [in_progress, owner lost, whose process is gone"));
    refused(one.complete("t1"), &["claim it before"]);
    said(one.claim("t1"), "t1 is yours; lost had it, whose process is gone");
    refused(Agent::of(&project, gone).complete("t1"), &["worked on by one"]);
    refused(one.claim("t2"), &["on another,", "cannot be seen", "deletes the line"]);
    // The agent of that name goes on in another process, with what it had.
    let again = Agent::of(&project, here);
    said(again.complete("t3"), "t3 is completed");
}

#[test]
fn what_a_crash_has_torn_is_set_aside() {
    let (_dir, project) = project();
    let agent = Agent::new(&project, "one");
    agent.create("Do it", &[]).unwrap();
    let whole = std::fs::read(journal(&project)).unwrap();
    for cut in 0..whole.len() {
        // Of two lines the second was being written.
        let torn = [&whole[..], &whole[..cut]].concat();
        std::fs::write(journal(&project), torn).unwrap();
        assert!(agent.list().starts_with("t1 Do it [pending]\n"), "{cut}");
        said(agent.create("Then", &[]), "t2 is on");
        let list = agent.list();
        assert!(list.starts_with("t1 Do it [pending]\nt2 Then [pending]\n"), "{cut}: {list}");
    }
}

#[test]
fn what_else_is_in_its_place_is_left_alone() {
    let (dir, project) = project();
    let agent = Agent::new(&project, "one");
    let siding = project.join(".siding");
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &siding).unwrap();
    refused(agent.create("Do it", &[]), &["todo.jsonl", "no file that siding has made"]);
    std::fs::remove_file(&siding).unwrap();
    std::fs::create_dir(&siding).unwrap();
    symlink(elsewhere.join("file"), journal(&project)).unwrap();
    refused(agent.create("Do it", &[]), &["no file that siding has made"]);
    refused(agent.call("list_tasks", json!({})), &["no file that siding has made"]);
    std::fs::remove_file(journal(&project)).unwrap();
    let fd = siding_core::sys::file::open_directory(&siding).unwrap();
    siding_core::sys::file::create_fifo(&fd, "todo.jsonl").unwrap();
    refused(agent.create("Do it", &[]), &["no file that siding has made"]);
    refused(agent.call("list_tasks", json!({})), &["no file that siding has made"]);
    std::fs::remove_file(journal(&project)).unwrap();
    std::fs::write(journal(&project), "{\"format\":9}\n").unwrap();
    refused(agent.create("Do it", &[]), &["format 9", "newer siding"]);
    assert_eq!(std::fs::read_to_string(journal(&project)).unwrap(), "{\"format\":9}\n");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn nobody_waits_for_the_lock_who_was_told_to_give_up() {
    let (_dir, project) = project();
    let agent = Agent::new(&project, "one");
    agent.create("Do it", &[]).unwrap();
    let held = std::fs::File::open(journal(&project)).unwrap();
    held.lock().unwrap();
    let cancel = Cancel::default();
    cancel.set();
    let input = json!({ "id": "t1" });
    refused(agent.tools.run(&agent.scene, "claim_task", input, &cancel), &["given up"]);
    said(Ok(agent.list()), "[pending]");
    held.unlock().unwrap();
    said(agent.claim("t1"), "is yours");
}

#[test]
fn a_full_disk_changes_nothing() {
    let (_dir, project) = project();
    let Some(_tiny) = Tiny::mount(project.clone()) else { return };
    let agent = Agent::new(&project, "one");
    agent.create("Do it", &[]).unwrap();
    let before = std::fs::read(journal(&project)).unwrap();
    let filler = project.join("filler");
    let _full = std::fs::write(&filler, vec![0; 128 << 10]).expect_err("is full");
    // The beginning of it still fits behind what is there.
    let input = json!({ "subject": "Then", "description": "x".repeat(10_000) });
    refused(agent.call("create_task", input.clone()), &["could not write", "No space left"]);
    assert_eq!(std::fs::read(journal(&project)).unwrap(), before);
    std::fs::remove_file(filler).unwrap();
    said(agent.call("create_task", input), "t2 is on the to-do list");
}

/// Lists of the race, and to-dos in each: four who claim each of them are 1,000 claims.
const LISTS: usize = 10;
const TODOS: usize = 25;
/// Names the directory of a race to a racer.
const RACE: &str = "SIDING_TODO_RACE";
/// Names a racer.
const NAME: &str = "SIDING_TODO_RACER";

/// Claims all that it can of every list, and completes every second one. Returns what it got.
fn race(dir: &Path, agent: &str) -> BTreeSet<(usize, usize)> {
    let mut won = BTreeSet::new();
    for list in 0..LISTS {
        let agent = Agent::new(&dir.join(list.to_string()), agent);
        for todo in 1..=TODOS {
            let id = format!("t{todo}");
            if agent.claim(&id).is_ok() {
                won.insert((list, todo));
                if todo % 2 == 0 {
                    said(agent.complete(&id), "is completed");
                }
            }
        }
    }
    won
}

/// No test of its own: one of the two processes of the test below.
#[test]
fn racer() {
    let (Ok(dir), Ok(name)) = (std::env::var(RACE), std::env::var(NAME)) else { return };
    let won = race(Path::new(&dir), &name);
    let won: Vec<String> = won.iter().map(|(list, todo)| format!("{list}.{todo}")).collect();
    let (unfinished, finished) = (format!("{name}.part"), Path::new(&dir).join(name));
    let unfinished = Path::new(&dir).join(unfinished);
    std::fs::write(&unfinished, won.join("\n")).unwrap();
    std::fs::rename(&unfinished, finished).unwrap();
    // What belongs to a process that is gone may be claimed by others: not before all are through.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_thousand_claims_give_each_todo_one_owner() {
    let (_dir, project) = project();
    for list in 0..LISTS {
        let path = project.join(list.to_string());
        std::fs::create_dir(&path).unwrap();
        let agent = Agent::new(&path, "maker");
        for _ in 0..TODOS {
            agent.create("Do it", &[]).unwrap();
        }
    }
    let program = std::env::current_exe().unwrap();
    let start = |name: &str| {
        let mut command = Command::new(&program);
        command.args(["--exact", "racer"]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.env(RACE, &project).env(NAME, name).spawn().unwrap()
    };
    let racers = [start("first"), start("second")];
    // And two threads of this one, who are others.
    let threads = std::thread::scope(|scope| {
        let project = &project;
        let threads = ["third", "fourth"].map(|name| scope.spawn(move || race(project, name)));
        threads.map(|thread| thread.join().unwrap())
    });
    let begun = Instant::now();
    while !["first", "second"].iter().all(|name| project.join(name).exists()) {
        assert!(begun.elapsed() < Duration::from_secs(300), "the racers are still not through");
        std::thread::sleep(Duration::from_millis(5));
    }
    for mut racer in racers {
        drop(racer.stdin.take());
        assert!(racer.wait().unwrap().success());
    }
    let mut all: Vec<(&str, BTreeSet<(usize, usize)>)> = Vec::new();
    for name in ["first", "second"] {
        let won = std::fs::read_to_string(project.join(name)).unwrap();
        let pair = |line: &str| {
            let (list, todo) = line.split_once('.').unwrap();
            (list.parse().unwrap(), todo.parse().unwrap())
        };
        all.push((name, won.lines().map(pair).collect()));
    }
    all.extend(["third", "fourth"].into_iter().zip(threads));
    // Each was won once, and the list says by whom.
    assert_eq!(all.iter().map(|(_, won)| won.len()).sum::<usize>(), LISTS * TODOS);
    for list in 0..LISTS {
        let folded = TodoList::new(&project.join(list.to_string())).read().unwrap();
        assert_eq!((folded.board.len(), folded.void, folded.is_torn), (TODOS, 0, false));
        for (number, (_, todo)) in (1..).zip(folded.board.all()) {
            let by = match &todo.state {
                State::Completed { by, .. } if number % 2 == 0 => by,
                State::InProgress { by, .. } if number % 2 == 1 => by,
                State::Pending | State::Completed { .. } | State::InProgress { .. } => {
                    panic!("{list}.{number} is {:?}", todo.state)
                }
            };
            let winner = all.iter().find(|(_, won)| won.contains(&(list, number)));
            assert_eq!(winner.map(|(name, _)| *name), Some(by.owner.as_str()), "{list}.{number}");
        }
    }
}
