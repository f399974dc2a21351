//! Real programs in a task's terminal: each draws its screen, reads keys, and exits on a key. A
//! program that is not installed is skipped with a message; in CI, the programs that `.ci/run`
//! installs must exist.

use serde_json::json;

use crate::support::{TerminalTask, assert_shows, rows_of, sandbox, write_file};

/// The programs that `.ci/run` installs, with their Debian packages.
const CI_PROGRAMS: [(&str, &str); 13] = [
    ("bwrap", "bubblewrap"),
    ("dialog", "dialog"),
    ("fish", "fish"),
    ("fzf", "fzf"),
    ("gdb", "gdb"),
    ("htop", "htop"),
    ("less", "less"),
    ("nano", "nano"),
    ("sqlite3", "sqlite3"),
    ("sudo", "sudo"),
    ("tmux", "tmux"),
    ("vim.tiny", "vim-tiny"),
    ("whiptail", "whiptail"),
];

/// Returns the first of these programs that is installed. Without one, prints a message, and panics
/// if `.ci/run` has installed it.
#[track_caller]
pub(crate) fn find_installed(names: &[&'static str]) -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |name: &&&str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    let found = names.iter().find(is_installed).copied();
    if found.is_none() {
        let is_required = CI_PROGRAMS.iter().any(|(name, _)| names.contains(name));
        assert!(
            !is_required || std::env::var_os("SIDING_TEST_PROGRAMS").is_none(),
            "none of {names:?} is installed, so this test would prove nothing"
        );
        println!("left out: none of {names:?} is installed");
    }
    found
}

#[test]
fn ci_installs_the_required_programs() {
    let script = include_str!("../../../../.ci/run");
    let words = |variable: &str| {
        let line = script.lines().find_map(|line| line.strip_prefix(variable));
        let list = line.and_then(|line| line.strip_prefix("=(")?.strip_suffix(')'));
        list.expect("the script has the list").split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words("programs"), CI_PROGRAMS.map(|(program, _)| program));
    assert_eq!(words("packages"), CI_PROGRAMS.map(|(_, package)| package));
}

/// Starts a command with a UTF-8 locale and without the user's configuration.
#[track_caller]
pub(crate) fn start<'s>(sandbox: &'s siding_e2e::Sandbox, command: &str) -> TerminalTask<'s> {
    TerminalTask::start_with(sandbox, &["--env", "LC_ALL=C.UTF-8"], command)
}

#[track_caller]
pub(crate) fn expect_success(task: &TerminalTask<'_>) {
    let outcome = task.wait_outcome();
    assert_eq!(outcome, json!({"kind": "exited", "code": 0}), "{}", task.screen());
    task.expect_closed();
}

#[track_caller]
fn read_file(sandbox: &siding_e2e::Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path(name)).expect("the program has written the file")
}

#[test]
fn vim_edits_a_file() {
    let Some(vim) = find_installed(&["vim", "vim.tiny"]) else { return };
    let sandbox = sandbox();
    write_file(&sandbox, "text", "first line\n");
    let task = start(&sandbox, &format!("{vim} -u NONE -N text"));
    let rows = task.wait_for("screen:first line");
    assert_eq!(rows[1], "~", "{rows:#?}");
    task.wait_for("input");
    assert_eq!(task.screen()["alternate"], true);
    let rows = task.type_and_wait(&["osecond line", "Escape"], "screen:^second line$");
    assert_eq!(rows[..2], ["first line", "second line"]);
    task.type_keys(&[":wq", "Enter"]);
    expect_success(&task);
    // If the program did not recognize a reply to a query, the reply would act as text or commands.
    assert_eq!(read_file(&sandbox, "text"), "first line\nsecond line\n");
    assert_eq!(task.screen()["alternate"], false);
}

/// Vim waits up to a second for the rest of a sequence after Escape, in the same call as for a key,
/// and draws only then.
#[test]
fn a_wait_for_input_after_escape_ends_when_vim_has_acted_on_it() {
    let Some(vim) = find_installed(&["vim", "vim.tiny"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, &format!("{vim} -u NONE -N text"));
    task.wait_for("input");
    assert_shows(&task.type_and_wait(&["ione"], "screen:^one$"), "INSERT");
    let rows = task.type_and_wait(&["Escape"], "input");
    assert!(!rows.iter().any(|row| row.contains("INSERT")), "{rows:#?}");
    assert_shows(&task.type_and_wait(&[":set number", "Enter"], "input"), "1 one");
    task.type_keys(&[":q!", "Enter"]);
    expect_success(&task);
}

#[test]
fn less_shows_pages_and_searches() {
    let Some(less) = find_installed(&["less"]) else { return };
    let sandbox = sandbox();
    let text: String = (1..=100).map(|number| format!("line {number}\n")).collect();
    write_file(&sandbox, "text", &text);
    let task = start(&sandbox, &format!("{less} text"));
    assert_eq!(task.wait_for("screen:^line 23$")[0], "line 1");
    assert_eq!(task.type_and_wait(&["Space"], "screen:^line 46$")[0], "line 24");
    assert_shows(&task.type_and_wait(&["G"], "screen:END"), "line 100");
    task.type_and_wait(&["/line 50", "Enter"], "screen:not found");
    task.type_keys(&["Enter", "1G", "/line 50", "Enter"]);
    assert_eq!(task.wait_for("screen:\\Aline 50$")[0], "line 50");
    task.type_keys(&["q"]);
    expect_success(&task);
}

#[test]
fn htop_and_top_draw_their_tables() {
    for (program, drawn) in [("htop", "screen:F10"), ("top", "screen:PID")] {
        let Some(program) = find_installed(&[program]) else { continue };
        let sandbox = sandbox();
        let task = start(&sandbox, program);
        assert_shows(&task.wait_for(drawn), "PID");
        task.type_keys(&["q"]);
        expect_success(&task);
    }
}

#[test]
fn gdb_answers_at_its_prompt() {
    let Some(gdb) = find_installed(&["gdb"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, &format!("{gdb} -q -nx"));
    assert_shows(&task.wait_for("screen:^.gdb.$"), "(gdb)");
    assert_shows(&task.type_and_wait(&["print 6 * 7", "Enter"], "input"), "$1 = 42");
    assert_shows(&task.type_and_wait(&["file /bin/sleep", "Enter"], "input"), "(gdb)");
    assert_shows(&task.type_and_wait(&["info breakpoints", "Enter"], "input"), "No breakpoints");
    task.type_keys(&["quit", "Enter"]);
    expect_success(&task);
}

#[test]
fn node_evaluates_a_line() {
    let Some(node) = find_installed(&["node"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, node);
    task.wait_for("screen:^>");
    assert_shows(&task.type_and_wait(&["6 * 7", "Enter"], "screen:^42$"), "42");
    task.type_keys(&[".exit", "Enter"]);
    expect_success(&task);
}

#[test]
fn nano_writes_a_file() {
    let Some(nano) = find_installed(&["nano"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, &format!("{nano} --ignorercfiles text"));
    task.wait_for("screen:Exit");
    task.type_and_wait(&["hello nano"], "screen:^hello nano$");
    task.type_and_wait(&["C-o"], "screen:File Name to Write: text");
    task.type_and_wait(&["Enter"], "screen:Wrote 1 line");
    task.type_keys(&["C-x"]);
    expect_success(&task);
    assert_eq!(read_file(&sandbox, "text"), "hello nano\n");
}

/// A menu is drawn, and the arrow keys are sent in the form that the program has requested.
#[test]
fn menus_return_the_chosen_entry() {
    for program in ["dialog", "whiptail"] {
        let Some(program) = find_installed(&[program]) else { continue };
        let sandbox = sandbox();
        let entries = "--menu 'Pick one' 12 40 3 a Alpha b Beta c Gamma";
        let task = start(&sandbox, &format!("{program} {entries} 2> choice"));
        let rows = task.wait_for("screen:Gamma");
        assert_shows(&rows, "Pick one");
        task.wait_for("input");
        task.type_keys(&["Down", "Enter"]);
        expect_success(&task);
        assert_eq!(read_file(&sandbox, "choice"), "b", "{program}");
    }
}

#[test]
fn git_add_stages_a_hunk() {
    let Some(git) = find_installed(&["git"]) else { return };
    let sandbox = sandbox();
    write_file(&sandbox, "text", "old\n");
    let prepare = "git init -q . && git add text && \
                   git -c user.name=t -c user.email=t@localhost commit -q -m first";
    let _prepared = sandbox.host("sh", &["-c", prepare]).run().expect_code(0);
    write_file(&sandbox, "text", "new\n");
    let task = start(&sandbox, &format!("{git} add -p"));
    let rows = task.wait_for("input");
    assert_shows(&rows, "+new");
    assert_shows(&rows, "Stage this hunk");
    task.type_keys(&["y", "Enter"]);
    expect_success(&task);
    let staged = sandbox.host("git", &["diff", "--cached"]).run().expect_code(0).stdout_text();
    assert!(staged.contains("+new"), "{staged}");
}

/// The editor that git starts is a program of the same terminal.
#[test]
fn git_rebase_drops_a_commit_in_the_editor() {
    let Some(git) = find_installed(&["git"]) else { return };
    let Some(vim) = find_installed(&["vim", "vim.tiny"]) else { return };
    let sandbox = sandbox();
    let prepare = "git init -q && git config user.name t && git config user.email t@localhost && \
                   for name in first second third; do \
                     echo text > $name && git add $name && git commit -q -m $name || exit; \
                   done";
    let _prepared = sandbox.host("sh", &["-c", prepare]).run().expect_code(0);
    let editor = format!("{vim} -u NONE -N");
    let task = start(&sandbox, &format!("{git} -c core.editor='{editor}' rebase -i HEAD~2"));
    assert_shows(&task.wait_for("screen:^pick"), "second");
    task.wait_for("input");
    task.type_and_wait(&["dd"], r"screen:\Apick \w+ (# )?third");
    task.type_keys(&[":wq", "Enter"]);
    expect_success(&task);
    let log = sandbox.host("git", &["log", "--format=%s"]).run().expect_code(0);
    assert_eq!(log.stdout_text(), "third\nfirst\n");
}

#[test]
fn npm_asks_for_a_package() {
    let Some(npm) = find_installed(&["npm"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, &format!("{npm} --offline --no-update-notifier init"));
    task.wait_for("screen:^package name:");
    let questions = [
        "^version:",
        "^description:",
        "^entry point:",
        "^test command:",
        "^git repository:",
        "^keywords:",
        "^author:",
        "^license:",
        // Newer versions ask for the type of the modules as well.
        "^type:|^Is this OK",
    ];
    task.type_keys(&["a-demo"]);
    let mut rows = Vec::new();
    for question in questions {
        rows = task.type_and_wait(&["Enter"], &format!("screen:{question}"));
    }
    if !rows.iter().any(|row| row.starts_with("Is this OK")) {
        task.type_and_wait(&["Enter"], "screen:^Is this OK");
    }
    task.type_keys(&["Enter"]);
    expect_success(&task);
    let package = read_file(&sandbox, "package.json");
    assert!(package.contains(r#""name": "a-demo""#), "{package}");
}

/// The progress of apt is drawn over and over in one row.
#[test]
fn apt_lists_an_installed_package() {
    let Some(apt) = find_installed(&["apt"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, &format!("{apt} list --installed dpkg"));
    expect_success(&task);
    let screen = task.screen();
    let rows = rows_of(&screen);
    assert_shows(&rows, "Listing... Done");
    assert!(rows.iter().any(|row| row.starts_with("dpkg/")), "{screen}");
}

#[test]
fn sqlite_answers_at_its_prompt() {
    let Some(sqlite) = find_installed(&["sqlite3"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, sqlite);
    task.wait_for("screen:^sqlite>$");
    assert_shows(&task.type_and_wait(&["select 6 * 7;", "Enter"], "screen:^42$"), "42");
    task.wait_for("input");
    task.type_keys(&[".quit", "Enter"]);
    expect_success(&task);
}

/// A terminal multiplexer runs a program on a terminal of its own, inside the task's terminal.
#[test]
fn tmux_runs_inside_of_a_task() {
    let Some(tmux) = find_installed(&["tmux"]) else { return };
    let sandbox = sandbox();
    let inner = "echo inside; read -r word; echo \"$word\" > word";
    let task = start(&sandbox, &format!("{tmux} -f /dev/null -S socket new-session '{inner}'"));
    // The last row is tmux's own.
    task.wait_for(r"screen:(?s)^inside$.*^\[0\] ");
    task.type_and_wait(&["hello"], "screen:^hello$");
    task.type_keys(&["Enter"]);
    expect_success(&task);
    assert_eq!(read_file(&sandbox, "word"), "hello\n");
}

/// fzf below the prompt asks for the position of the cursor, and waits for the reply forever.
#[test]
fn fzf_below_the_prompt_finds_an_entry() {
    let Some(fzf) = find_installed(&["fzf"]) else { return };
    let sandbox = sandbox();
    let text = format!("echo above; printf '%s\\n' alpha beta gamma | {fzf} --height 6 > choice");
    let task = start(&sandbox, &text);
    let rows = task.wait_for("screen:3/3");
    assert_eq!(rows[0], "above", "{rows:#?}");
    assert_shows(&task.type_and_wait(&["bet"], "screen:1/3"), "beta");
    task.type_keys(&["Enter"]);
    expect_success(&task);
    assert_eq!(read_file(&sandbox, "choice"), "beta\n");
}

#[test]
fn fish_evaluates_a_line() {
    let Some(fish) = find_installed(&["fish"]) else { return };
    let sandbox = sandbox();
    let task = start(&sandbox, &format!("{fish} --no-config"));
    task.wait_for("input");
    task.type_and_wait(&["echo fi(math 40 + 2)sh", "Enter"], "screen:^fi42sh");
    task.wait_for("input");
    task.type_keys(&["exit", "Enter"]);
    expect_success(&task);
}
