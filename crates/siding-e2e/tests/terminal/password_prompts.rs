//! Real programs that ask for a password: an agent cannot answer, a person can, and the agent
//! continues afterwards. A program that is not installed is left out with a message.

use std::path::PathBuf;

use siding_e2e::{Invocation, Sandbox, Terminal, is_root};

use crate::programs::{expect_success, find_installed, start};
use crate::support::{TerminalTask, assert_shows, expect_refusal, sandbox};

const SSHD_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/engines/sshd.sh");
/// Where Debian installs the versions of PostgreSQL.
const POSTGRES_DIR: &str = "/usr/lib/postgresql";
/// The user `nobody` of Debian, who has an entry in passwd(5) and no rights.
const NOBODY_UID: u32 = 65_534;
const PASSWORD: &str = "open-sesame";

/// Asserts that an agent's keys are refused, with the command that answers.
#[track_caller]
fn expect_agent_is_refused(task: &TerminalTask<'_>) {
    for keys in [&["guess", "Enter"][..], &["C-d"]] {
        expect_refusal(task.keys_call(keys).run(), &format!("siding answer {}", task.id));
    }
}

/// Types the password as a person.
#[track_caller]
fn answer(sandbox: &Sandbox, task: &TerminalTask<'_>, prompt: &str) {
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["answer", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text(prompt);
    terminal.send_keys(&format!("{PASSWORD}\r"));
    let done = call.wait();
    assert_eq!(done.code, Some(0), "{}", terminal.scrollback_text());
    assert!(!task.output().contains(PASSWORD), "{:?}", task.output());
}

/// Returns a sandbox of a user with a name who is not root. Some programs do not work for root, or
/// for a user without an entry in passwd(5).
fn sandbox_of_named_user() -> Sandbox {
    if !is_root() {
        return sandbox();
    }
    let mut sandbox = Sandbox::new_for_uid(NOBODY_UID);
    sandbox.expect_clean();
    sandbox
}

/// An sshd on 127.0.0.1, which ends when this value is dropped.
struct Sshd<'s> {
    sandbox: &'s Sandbox,
}

impl<'s> Sshd<'s> {
    /// Starts the sshd; the key of its user has a passphrase.
    #[track_caller]
    fn start(sandbox: &'s Sandbox) -> Self {
        let sshd = Self { sandbox };
        let _started = sshd.script("up").run().expect_code(0);
        let key = sshd.dir().join("user_key").display().to_string();
        let change = ["-q", "-p", "-P", "", "-N", PASSWORD, "-f", &key];
        let _changed = sandbox.host("ssh-keygen", &change).run().expect_code(0);
        sshd
    }

    fn dir(&self) -> PathBuf {
        self.sandbox.root().join("ssh")
    }

    fn script(&self, command: &str) -> Invocation {
        self.sandbox.host(SSHD_SCRIPT, &[command, &self.dir().display().to_string()])
    }
}

impl Drop for Sshd<'_> {
    fn drop(&mut self) {
        let _best_effort = self.script("down").run();
    }
}

/// ssh opens `/dev/tty` for its questions. After the login its keys are those of the other side.
#[test]
fn ssh_asks_for_a_passphrase() {
    let Some(ssh) = find_installed(&["ssh"]) else { return };
    let sandbox = sandbox();
    let check = sandbox.host(SSHD_SCRIPT, &["check"]).run();
    if check.code != Some(0) {
        println!("left out: {check}");
        return;
    }
    let sshd = Sshd::start(&sandbox);
    let config = sshd.dir().join("ssh_config").display().to_string();
    let options = "-o StrictHostKeyChecking=ask -o UserKnownHostsFile=known_hosts";
    let remote = r#"'printf name:; read -r name; echo "hello-$name"'"#;
    let task = start(&sandbox, &format!("{ssh} -F {config} {options} -t remote {remote}"));
    task.wait_for("screen:continue connecting");
    task.wait_for("input");
    task.type_and_wait(&["yes", "Enter"], "screen:^Enter passphrase for key");
    task.wait_for("input");
    expect_agent_is_refused(&task);
    answer(&sandbox, &task, "Enter passphrase for key");
    task.wait_for("screen:^name:");
    // The last screen of the task meets the condition, too.
    assert_shows(&task.type_and_wait(&["Ada", "Enter"], "screen:^hello-Ada$"), "hello-Ada");
    expect_success(&task);
}

/// sudo runs as root, so siding cannot read what it waits for, and an ordinary user's siding cannot
/// signal it: it ends by the keys of the person.
#[test]
fn sudo_asks_for_a_password() {
    let Some(sudo) = find_installed(&["sudo"]) else { return };
    let sandbox = sandbox_of_named_user();
    let check = sandbox.host(sudo, &["-k", "-n", "true"]).run();
    if !check.stderr_text().contains("password is required") {
        println!("left out: sudo does not ask this user for a password: {check}");
        return;
    }
    let task = start(&sandbox, &format!("{sudo} -k true"));
    assert_shows(&task.wait_for("input"), "password for");
    expect_agent_is_refused(&task);
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["attach", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("password for");
    terminal.send_keys("\x03");
    let done = call.wait();
    assert_eq!(task.wait_outcome()["code"], 1, "{done}");
    task.expect_closed();
}

/// A database server of PostgreSQL, which ends when this value is dropped.
struct Postgres<'s> {
    sandbox: &'s Sandbox,
    programs: PathBuf,
}

impl<'s> Postgres<'s> {
    /// Starts a server whose socket is in the working directory. Prints a message if PostgreSQL is
    /// not installed.
    #[track_caller]
    fn start(sandbox: &'s Sandbox) -> Option<Self> {
        let versions = std::fs::read_dir(POSTGRES_DIR).into_iter().flatten().flatten();
        let mut directories = versions.map(|version| version.path().join("bin"));
        let Some(programs) = directories.find(|programs| programs.join("initdb").is_file()) else {
            println!("left out: {POSTGRES_DIR} has no server");
            return None;
        };
        std::fs::write(sandbox.path("password"), PASSWORD).expect("test directory");
        let server = Self { sandbox, programs };
        server.run("initdb", "-D data -U tester -A scram-sha-256 --pwfile=password --no-sync");
        let options = "-k $PWD -c listen_addresses= -c fsync=off -c shared_buffers=1MB";
        server.run("pg_ctl", &format!("-D data -l server.log -w -o \"{options}\" start"));
        Some(server)
    }

    #[track_caller]
    fn run(&self, program: &str, arguments: &str) {
        let _done = self.call(program, arguments).run().expect_code(0);
    }

    fn call(&self, program: &str, arguments: &str) -> Invocation {
        let program = self.programs.join(program);
        let text = format!("{} {arguments} > setup.log 2>&1", program.display());
        self.sandbox.host("sh", &["-c", &text])
    }
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        let _best_effort = self.call("pg_ctl", "-D data -m immediate -w stop").run();
    }
}

#[test]
fn psql_asks_for_a_password_and_answers_at_its_prompt() {
    let Some(psql) = find_installed(&["psql"]) else { return };
    let sandbox = sandbox_of_named_user();
    let Some(_server) = Postgres::start(&sandbox) else { return };
    let options = "-X -P pager=off -U tester";
    let task = start(&sandbox, &format!("{psql} {options} -h \"$PWD\" postgres"));
    task.wait_for("screen:^Password for user tester:");
    task.wait_for("input");
    expect_agent_is_refused(&task);
    answer(&sandbox, &task, "Password for user tester:");
    task.wait_for("screen:^postgres=#$");
    assert_shows(&task.type_and_wait(&["select 6 * 7;", "Enter"], "screen:^ +42$"), "?column?");
    task.wait_for("input");
    task.type_keys(&["\\q", "Enter"]);
    expect_success(&task);
}
