//! Tests of the shared to-do list with real files and processes.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_agent::cancel_flag::CancelFlag;
use siding_agent::tool::todo::{TodoList, TodoOwner, TodoStatus};
use siding_agent::tool::{AgentToolContext, AllowedRoots, ToolOutcome, Toolbox};
use tempfile::TempDir;

use crate::tiny::Tiny;

struct TodoAgent {
    context: AgentToolContext,
    tools: Toolbox,
}

impl TodoAgent {
    fn new(project: &Path, name: &str) -> Self {
        Self::with_owner(project, TodoOwner::current(name).expect("/proc is mounted"))
    }

    fn with_owner(project: &Path, owner: TodoOwner) -> Self {
        let ground = AllowedRoots::new(project, &[]).expect("open the directory");
        let scene = AgentToolContext::new(ground, TodoList::new(project), owner);
        Self { context: scene, tools: Toolbox::new().with_todo_tools() }
    }

    fn call(&self, tool: &str, input: Value) -> ToolOutcome {
        self.tools.run(&self.context, tool, input, &CancelFlag::default())
    }

    fn create(&self, subject: &str, blocked_by: &[&str]) -> ToolOutcome {
        self.call("create_task", json!({ "subject": subject, "blocked_by": blocked_by }))
    }

    fn claim(&self, id: &str) -> ToolOutcome {
        self.call("claim_task", json!({ "id": id }))
    }

    fn complete(&self, id: &str) -> ToolOutcome {
        self.call("complete_task", json!({ "id": id }))
    }

    fn list(&self) -> String {
        self.call("list_tasks", json!({})).expect("the list is readable")
    }
}

fn project_directory() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("create a temporary directory");
    let path = dir.path().to_owned();
    (dir, path)
}

fn journal_path(project: &Path) -> PathBuf {
    project.join(".siding/todo.jsonl")
}

#[track_caller]
fn assert_refused(outcome: ToolOutcome, parts: &[&str]) {
    let why = outcome.expect_err("the call is refused");
    for part in parts {
        assert!(why.contains(part), "no {part:?} in {why}");
    }
}

#[track_caller]
fn assert_accepted(outcome: ToolOutcome, wanted: &str) {
    let text = outcome.unwrap_or_else(|why| panic!("refused: {why}"));
    assert!(text.contains(wanted), "no {wanted:?} in {text}");
}

#[test]
fn two_agents_share_a_list() {
    let (_dir, project) = project_directory();
    let (one, two) = (TodoAgent::new(&project, "one"), TodoAgent::new(&project, "two"));
    assert_eq!(one.list(), "The list is empty; create_task adds a to-do.\n");
    assert!(!project.join(".siding").exists(), "reading creates nothing");
    assert_accepted(
        one.create("Set up\n the project", &[]),
        "t1 is on the to-do list: Set up the project",
    );
    assert_accepted(
        two.create("Test it", &["t1"]),
        "t2 is on the to-do list, waiting for t1: Test it",
    );
    assert_refused(two.create("Ship it", &["t3"]), &["names t3", "not on the list"]);
    assert_refused(two.create("Ship it", &["b-0123456789ab"]), &["`blocked_by`", "not a to-do"]);
    assert_refused(two.claim("t2"), &["t2 waits for t1"]);
    assert_refused(two.complete("t1"), &["claim it with claim_task"]);
    assert_accepted(one.claim("t1"), "t1 is yours");
    assert_accepted(one.claim("t1"), "t1 was already yours");
    assert_refused(two.claim("t1"), &["belongs to one", "which is running"]);
    assert_refused(two.complete("t1"), &["belongs to one"]);
    let wanted =
        "t1 Set up the project [in_progress, owner one]\nt2 Test it [pending, waits for t1]\n";
    assert_eq!(two.list(), wanted);
    assert_accepted(one.complete("t1"), "t1 is completed; nothing blocks t2 any more");
    assert_accepted(one.complete("t1"), "t1 was already completed");
    assert_refused(two.claim("t1"), &["already completed by one"]);
    assert!(two.list().ends_with("\n1 more is completed.\n"), "{}", two.list());
    assert_accepted(two.claim("T2"), "t2 is yours");
    assert_accepted(
        two.call("claim_task", json!({ "id": "t2", "give_back": "true" })),
        "pending again",
    );
    assert_accepted(one.claim("2"), "t2 is yours");
    assert_accepted(one.complete("t2"), "t2 is completed");
    assert_eq!(two.list(), "All 2 to-dos are completed.\n");
    assert_accepted(
        two.call("list_tasks", json!({ "all": true })),
        "t2 Test it [completed by one]\n",
    );
}

#[test]
fn a_list_whose_only_to_do_is_completed_says_so() {
    let (_dir, project) = project_directory();
    let agent = TodoAgent::new(&project, "one");
    agent.create("Look", &[]).unwrap();
    agent.claim("t1").unwrap();
    agent.complete("t1").unwrap();
    assert_eq!(agent.list(), "The only to-do is completed.\n");
}

#[test]
fn get_task_shows_every_detail() {
    let (_dir, project) = project_directory();
    let agent = TodoAgent::new(&project, "one");
    let input = json!({ "subject": "Look", "description": "All of it.\n\u{1b}[2Jgone" });
    assert_accepted(agent.call("create_task", input), "t1");
    agent.create("Then", &["1"]).unwrap();
    agent.claim("t1").unwrap();
    let text = agent.call("get_task", json!({ "id": "t1" })).unwrap();
    let (head, rest) = text.split_once("claimed: ").unwrap();
    assert_eq!(head, "t1 Look\nstatus: in_progress, owner you\n");
    assert!(rest.ends_with(" ago\nblocks: t2\n\nAll of it.\n\\e[2Jgone\n"), "{rest}");
    assert_refused(agent.call("get_task", json!({ "id": "t7" })), &["no to-do t7", "list_tasks"]);
    assert_refused(agent.call("get_task", json!({ "id": "b-0123" })), &["`id`", "not a to-do"]);
}

#[test]
fn the_journal_is_private_to_its_user() {
    let (_dir, project) = project_directory();
    TodoAgent::new(&project, "one").create("Do it", &[]).unwrap();
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(project.join(".siding")), 0o700);
    assert_eq!(mode(journal_path(&project)), 0o600);
    let text = std::fs::read_to_string(journal_path(&project)).unwrap();
    assert!(text.starts_with("{\"format\":1}\n{\"at_ms\":"), "{text}");
}

#[test]
fn a_todo_of_an_exited_process_can_be_claimed() {
    let (_dir, project) = project_directory();
    let here = TodoOwner::current("lost").expect("/proc is mounted");
    let mut gone = here.clone();
    gone.process.start_ticks += 1;
    let mut elsewhere = here.clone();
    elsewhere.boot.0 = "another".to_owned();
    elsewhere.machine = "another host".to_owned();
    let one = TodoAgent::new(&project, "one");
    for (id, holder) in [("t1", gone.clone()), ("t2", elsewhere), ("t3", gone.clone())] {
        one.create("Do it", &[]).unwrap();
        assert_accepted(TodoAgent::with_owner(&project, holder).claim(id), "is yours");
    }
    assert!(one.list().contains("t1 Do it [in_progress, owner lost, whose process has ended"));
    assert_refused(one.complete("t1"), &["claim it before"]);
    assert_accepted(one.claim("t1"), "t1 is yours; the process of its owner lost has ended");
    assert_refused(TodoAgent::with_owner(&project, gone).complete("t1"), &["belongs to one"]);
    assert_refused(one.claim("t2"), &["on another,", "cannot be observed", "delete the line"]);
    // A later process of an agent owns the to-dos that an earlier process of the agent claimed.
    let again = TodoAgent::with_owner(&project, here);
    assert_accepted(again.complete("t3"), "t3 is completed");
}

#[test]
fn a_torn_line_is_skipped_and_terminated() {
    let (_dir, project) = project_directory();
    let agent = TodoAgent::new(&project, "one");
    agent.create("Do it", &[]).unwrap();
    let whole = std::fs::read(journal_path(&project)).unwrap();
    for cut in 0..whole.len() {
        // A crash during the write of a second line leaves a file with this content.
        let torn = [&whole[..], &whole[..cut]].concat();
        std::fs::write(journal_path(&project), torn).unwrap();
        assert!(agent.list().starts_with("t1 Do it [pending]\n"), "{cut}");
        assert_accepted(agent.create("Then", &[]), "t2 is on");
        let list = agent.list();
        assert!(list.starts_with("t1 Do it [pending]\nt2 Then [pending]\n"), "{cut}: {list}");
    }
}

#[test]
fn an_unknown_file_in_place_of_the_journal_is_left_alone() {
    let (dir, project) = project_directory();
    let agent = TodoAgent::new(&project, "one");
    let siding = project.join(".siding");
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &siding).unwrap();
    assert_refused(agent.create("Do it", &[]), &["todo.jsonl", "was not created by siding"]);
    std::fs::remove_file(&siding).unwrap();
    std::fs::create_dir(&siding).unwrap();
    symlink(elsewhere.join("file"), journal_path(&project)).unwrap();
    assert_refused(agent.create("Do it", &[]), &["was not created by siding"]);
    assert_refused(agent.call("list_tasks", json!({})), &["was not created by siding"]);
    std::fs::remove_file(journal_path(&project)).unwrap();
    let fd = siding_core::sys::file::open_directory(&siding).unwrap();
    siding_core::sys::file::create_fifo(&fd, "todo.jsonl").unwrap();
    assert_refused(agent.create("Do it", &[]), &["was not created by siding"]);
    assert_refused(agent.call("list_tasks", json!({})), &["was not created by siding"]);
    std::fs::remove_file(journal_path(&project)).unwrap();
    std::fs::write(journal_path(&project), "{\"format\":9}\n").unwrap();
    assert_refused(agent.create("Do it", &[]), &["format 9", "newer siding"]);
    assert_eq!(std::fs::read_to_string(journal_path(&project)).unwrap(), "{\"format\":9}\n");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn cancellation_ends_the_wait_for_the_lock() {
    let (_dir, project) = project_directory();
    let agent = TodoAgent::new(&project, "one");
    agent.create("Do it", &[]).unwrap();
    let held = std::fs::File::open(journal_path(&project)).unwrap();
    held.lock().unwrap();
    let cancel = CancelFlag::default();
    cancel.set();
    let input = json!({ "id": "t1" });
    assert_refused(agent.tools.run(&agent.context, "claim_task", input, &cancel), &["canceled"]);
    assert_accepted(Ok(agent.list()), "[pending]");
    held.unlock().unwrap();
    assert_accepted(agent.claim("t1"), "is yours");
}

#[test]
fn a_full_disk_changes_nothing() {
    let (_dir, project) = project_directory();
    let Some(_tiny) = Tiny::mount(project.clone()) else { return };
    let agent = TodoAgent::new(&project, "one");
    agent.create("Do it", &[]).unwrap();
    let before = std::fs::read(journal_path(&project)).unwrap();
    let filler = project.join("filler");
    let _best_effort = std::fs::write(&filler, vec![0; 128 << 10]).expect_err("the disk is full");
    // The disk has room only for the start of this record.
    let input = json!({ "subject": "Then", "description": "x".repeat(10_000) });
    assert_refused(agent.call("create_task", input.clone()), &["could not write", "No space left"]);
    assert_eq!(std::fs::read(journal_path(&project)).unwrap(), before);
    std::fs::remove_file(filler).unwrap();
    assert_accepted(agent.call("create_task", input), "t2 is on the to-do list");
}

/// Number of lists in the race, and of to-dos in each. Each of four racers tries to claim every
/// to-do: 1,000 attempts.
const RACE_LISTS: usize = 10;
const TODOS_PER_LIST: usize = 25;
/// Environment variable with the directory of the race, for a racer process.
const RACE_DIRECTORY_VARIABLE: &str = "SIDING_TODO_RACE";
/// Environment variable with the name of a racer process.
const RACER_NAME_VARIABLE: &str = "SIDING_TODO_RACER";

/// Claims as many to-dos of each list as possible, and completes every second one. Returns the
/// claimed to-dos.
fn claim_todos(dir: &Path, agent: &str) -> BTreeSet<(usize, usize)> {
    let mut won = BTreeSet::new();
    for list in 0..RACE_LISTS {
        let agent = TodoAgent::new(&dir.join(list.to_string()), agent);
        for todo in 1..=TODOS_PER_LIST {
            let id = format!("t{todo}");
            if agent.claim(&id).is_ok() {
                won.insert((list, todo));
                if todo % 2 == 0 {
                    assert_accepted(agent.complete(&id), "is completed");
                }
            }
        }
    }
    won
}

/// Runs in the two racer processes that the next test starts. Without the environment variables of
/// a racer, this test does nothing.
#[test]
fn racer() {
    let (Ok(dir), Ok(name)) =
        (std::env::var(RACE_DIRECTORY_VARIABLE), std::env::var(RACER_NAME_VARIABLE))
    else {
        return;
    };
    let won = claim_todos(Path::new(&dir), &name);
    let won: Vec<String> = won.iter().map(|(list, todo)| format!("{list}.{todo}")).collect();
    let (unfinished, finished) = (format!("{name}.part"), Path::new(&dir).join(name));
    let unfinished = Path::new(&dir).join(unfinished);
    std::fs::write(&unfinished, won.join("\n")).unwrap();
    std::fs::rename(&unfinished, finished).unwrap();
    // The process waits until all racers have finished: the to-dos of an exited process could be
    // claimed again.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_thousand_claims_give_each_todo_one_owner() {
    let (_dir, project) = project_directory();
    for list in 0..RACE_LISTS {
        let path = project.join(list.to_string());
        std::fs::create_dir(&path).unwrap();
        let agent = TodoAgent::new(&path, "maker");
        for _ in 0..TODOS_PER_LIST {
            agent.create("Do it", &[]).unwrap();
        }
    }
    let program = std::env::current_exe().unwrap();
    let start = |name: &str| {
        let mut command = Command::new(&program);
        command.args(["--exact", "todo::racer"]).stdin(Stdio::piped()).stdout(Stdio::null());
        command
            .env(RACE_DIRECTORY_VARIABLE, &project)
            .env(RACER_NAME_VARIABLE, name)
            .spawn()
            .unwrap()
    };
    let racers = [start("first"), start("second")];
    // Two threads of this process race as separate agents.
    let threads = std::thread::scope(|scope| {
        let project = &project;
        let threads =
            ["third", "fourth"].map(|name| scope.spawn(move || claim_todos(project, name)));
        threads.map(|thread| thread.join().unwrap())
    });
    let begun = Instant::now();
    while !["first", "second"].iter().all(|name| project.join(name).exists()) {
        assert!(begun.elapsed() < Duration::from_secs(300), "the racers have not finished in time");
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
    // Each to-do was claimed once, by the owner that the list names.
    assert_eq!(all.iter().map(|(_, won)| won.len()).sum::<usize>(), RACE_LISTS * TODOS_PER_LIST);
    for list in 0..RACE_LISTS {
        let folded = TodoList::new(&project.join(list.to_string())).read().unwrap();
        assert_eq!(
            (folded.state.len(), folded.ignored_lines, folded.is_torn),
            (TODOS_PER_LIST, 0, false)
        );
        for (number, (_, todo)) in (1..).zip(folded.state.iter()) {
            let by = match &todo.status {
                TodoStatus::Completed { by, .. } if number % 2 == 0 => by,
                TodoStatus::InProgress { by, .. } if number % 2 == 1 => by,
                TodoStatus::Pending
                | TodoStatus::Completed { .. }
                | TodoStatus::InProgress { .. } => {
                    panic!("{list}.{number} is {:?}", todo.status)
                }
            };
            let winner = all.iter().find(|(_, won)| won.contains(&(list, number)));
            assert_eq!(winner.map(|(name, _)| *name), Some(by.owner.as_str()), "{list}.{number}");
        }
    }
}
