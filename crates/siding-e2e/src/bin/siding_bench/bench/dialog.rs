//! The dialogs with programs in a terminal that the row `terminals` measures: what a scripted agent
//! types, and how a run is verified.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Maximum number of times that an agent looks again at a program that does not ask yet.
const MAX_LOOKS: usize = 5;
/// The secret of the dialog with ssh.
pub(super) const PASSPHRASE: &str = "lantern-42";

/// A dialog with one program, in which an agent reads the screen after each step.
#[derive(Debug)]
pub(super) struct Dialog {
    /// Name of the program. The agents also use it for the task and for the session of tmux.
    pub(super) name: &'static str,
    /// The programs that must be installed.
    pub(super) programs: &'static [&'static str],
    pub(super) command: &'static str,
    pub(super) steps: &'static [DialogStep],
    /// Creates the files of a run in its working directory.
    pub(super) prepare: fn(&Path) -> Result<()>,
    /// Checks the working directory after a run, and all that the agent has read.
    pub(super) verify: fn(&Path, &str) -> Result<()>,
}

#[derive(Debug)]
pub(super) struct DialogStep {
    /// Text in the row of the cursor before the step; empty if the row is not checked.
    prompt: &'static str,
    input: StepInput,
    /// Whether the step is left out if the program shows the prompt of the next step instead.
    is_optional: bool,
}

#[derive(Debug)]
enum StepInput {
    /// Keys and texts, in the spelling of tmux.
    Keys(&'static [&'static str]),
    /// A secret, which ends with Enter.
    Secret(&'static str),
}

/// An agent that drives a program by its own means. Each method returns what the agent reads.
pub(super) trait TerminalAgent {
    fn start(&mut self, dialog: &Dialog) -> Result<String>;
    fn type_keys(&mut self, keys: &[&str]) -> Result<String>;
    /// Has the secret typed by a person, or types it.
    fn answer_secret(&mut self, secret: &str) -> Result<String>;
    /// Looks at the screen again.
    fn look(&mut self) -> Result<String>;
    /// Removes what the agent has set up for the dialog.
    fn finish(&mut self) -> Result<()>;
}

/// Leads a dialog and returns all that the agent has read.
pub(super) fn lead_dialog(dialog: &Dialog, agent: &mut dyn TerminalAgent) -> Result<String> {
    let mut shown = agent.start(dialog)?;
    let mut transcript = shown.clone();
    for (number, step) in dialog.steps.iter().enumerate() {
        let next = dialog.steps.get(number + 1).filter(|_| step.is_optional);
        let is_skipped = |shown: &str| next.is_some_and(|next| next.is_asked(shown));
        let mut looks = 0;
        while !step.is_asked(&shown) && !is_skipped(&shown) {
            ensure!(looks < MAX_LOOKS, "{}: no `{}` in:\n{shown}", dialog.name, step.prompt);
            looks += 1;
            shown = agent.look()?;
            transcript.push_str(&shown);
        }
        if !step.is_asked(&shown) {
            continue;
        }
        shown = match step.input {
            StepInput::Keys(keys) => agent.type_keys(keys)?,
            StepInput::Secret(secret) => agent.answer_secret(secret)?,
        };
        transcript.push_str(&shown);
    }
    agent.finish()?;
    Ok(transcript)
}

impl DialogStep {
    const fn answer(prompt: &'static str, keys: &'static [&'static str]) -> Self {
        Self { prompt, input: StepInput::Keys(keys), is_optional: false }
    }

    fn is_asked(&self, shown: &str) -> bool {
        cursor_row(shown).contains(self.prompt)
    }
}

/// Returns the row with siding's mark of the cursor, or else the last row with text, at whose end a
/// reader of tmux's screen has to suppose the cursor.
fn cursor_row(shown: &str) -> &str {
    let marked = shown.lines().find(|row| row.contains('▮'));
    marked.or_else(|| shown.lines().rfind(|row| !row.trim().is_empty())).unwrap_or_default()
}

/// The dialogs in the order of the table.
pub(super) const DIALOGS: [Dialog; 5] = [NPM, PYTHON, GDB, REBASE, SSH];

const NPM: Dialog = Dialog {
    name: "npm",
    programs: &["npm"],
    command: "npm init",
    steps: &[
        DialogStep::answer("package name:", &["shop-api", "Enter"]),
        DialogStep::answer("version:", &["1.2.0", "Enter"]),
        DialogStep::answer("description:", &["Orders of the shop", "Enter"]),
        DialogStep::answer("entry point:", &["src/index.js", "Enter"]),
        DialogStep::answer("test command:", &["node --test", "Enter"]),
        DialogStep::answer("git repository:", &["Enter"]),
        DialogStep::answer("keywords:", &["orders,shop", "Enter"]),
        DialogStep::answer("author:", &["Ada", "Enter"]),
        DialogStep::answer("license:", &["MIT", "Enter"]),
        // Only npm 11 and later ask.
        DialogStep { prompt: "type:", input: StepInput::Keys(&["Enter"]), is_optional: true },
        DialogStep::answer("Is this OK?", &["Enter"]),
    ],
    prepare: |_| Ok(()),
    verify: |dir, _| {
        let package = fs::read(dir.join("package.json")).context("could not read package.json")?;
        let package: Value = serde_json::from_slice(&package)?;
        for (pointer, expected) in [
            ("/name", "shop-api"),
            ("/version", "1.2.0"),
            ("/description", "Orders of the shop"),
            ("/main", "src/index.js"),
            ("/scripts/test", "node --test"),
            ("/license", "MIT"),
        ] {
            let found = package.pointer(pointer).and_then(Value::as_str);
            ensure!(found == Some(expected), "`{pointer}` is {found:?}");
        }
        Ok(())
    },
};

const PYTHON: Dialog = Dialog {
    name: "python",
    programs: &["python3"],
    command: "python3 -i",
    steps: &[
        DialogStep::answer(">>>", &["import csv", "Enter"]),
        DialogStep::answer(">>>", &["rows = list(csv.DictReader(open('orders.csv')))", "Enter"]),
        DialogStep::answer(">>>", &["len(rows)", "Enter"]),
        DialogStep::answer(">>>", &["rows[0]", "Enter"]),
        DialogStep::answer(">>>", &["from collections import defaultdict", "Enter"]),
        DialogStep::answer(">>>", &["total = defaultdict(float)", "Enter"]),
        DialogStep::answer(
            ">>>",
            &["for r in rows: total[r['region']] += float(r['amount'])", "Enter", "Enter"],
        ),
        DialogStep::answer(">>>", &["sorted(total.items(), key=lambda kv: -kv[1])[:3]", "Enter"]),
        DialogStep::answer(
            ">>>",
            &["big = [r['id'] for r in rows if float(r['amount']) > 900]", "Enter"],
        ),
        DialogStep::answer(">>>", &["len(big), big[:5]", "Enter"]),
        DialogStep::answer(">>>", &["exit()", "Enter"]),
    ],
    prepare: |dir| {
        let mut text = "id,region,amount,status\n".to_owned();
        for id in 0..200 {
            let region = ["north", "south", "east", "west"][id % 4];
            let status = if id % 3 == 0 { "open" } else { "paid" };
            text.push_str(&format!("{id},{region},{}.50,{status}\n", id * 37 % 1000));
        }
        Ok(fs::write(dir.join("orders.csv"), text)?)
    },
    verify: |_, shown| {
        expect_parts(
            shown,
            &["\n200\n", "('south', 25175.0)", "(21, ['25', '26', '27', '52', '53'])"],
        )
    },
};

const GDB: Dialog = Dialog {
    name: "gdb",
    programs: &["gdb", "cc"],
    command: "gdb ./sum",
    steps: &[
        DialogStep::answer("(gdb)", &["break total", "Enter"]),
        DialogStep::answer("(gdb)", &["run", "Enter"]),
        DialogStep::answer("(gdb)", &["bt", "Enter"]),
        DialogStep::answer("(gdb)", &["print count", "Enter"]),
        DialogStep::answer("(gdb)", &["next", "Enter"]),
        DialogStep::answer("(gdb)", &["print sum", "Enter"]),
        DialogStep::answer("(gdb)", &["continue", "Enter"]),
        DialogStep::answer("(gdb)", &["quit", "Enter"]),
    ],
    prepare: |dir| {
        fs::write(dir.join("sum.c"), SUM_PROGRAM)?;
        run_quietly(Command::new("cc").args(["-g", "-O0", "-o", "sum", "sum.c"]).current_dir(dir))
    },
    verify: |_, shown| {
        expect_parts(
            shown,
            &["Breakpoint 1, total (", "in main ()", "$1 = 4", "$2 = 0", "total 26"],
        )
    },
};

const REBASE: Dialog = Dialog {
    name: "rebase",
    programs: &["git", "vim"],
    command: "git rebase -i HEAD~5",
    steps: &[
        DialogStep::answer("", &[":2s/pick/fixup", "Enter"]),
        DialogStep::answer("", &[":4s/pick/drop", "Enter"]),
        DialogStep::answer("", &[":5s/pick/reword", "Enter"]),
        DialogStep::answer("", &[":wq", "Enter"]),
        DialogStep::answer("", &[":1s/lists/lists and maps", "Enter"]),
        DialogStep::answer("", &[":wq", "Enter"]),
    ],
    prepare: |dir| {
        let git = |words: &[&str]| run_quietly(Command::new("git").args(words).current_dir(dir));
        git(&["init", "--quiet", "--initial-branch", "main"])?;
        git(&["config", "user.name", "Ada"])?;
        git(&["config", "user.email", "ada@example.org"])?;
        for (number, subject) in COMMITS.into_iter().enumerate() {
            fs::write(dir.join(format!("part_{number}.txt")), subject)?;
            git(&["add", "--all"])?;
            git(&["commit", "--quiet", "--message", subject])?;
        }
        Ok(())
    },
    verify: |dir, _| {
        ensure!(!dir.join(".git/rebase-merge").exists(), "the rebase has not ended");
        let log = Command::new("git").args(["log", "--format=%s"]).current_dir(dir).output()?;
        let log = String::from_utf8(log.stdout)?;
        let expected = "Read lists and maps\nRead strings\nRead numbers\nStart the parser\n";
        ensure!(log == expected, "the history is:\n{log}");
        Ok(())
    },
};

/// The machine and its key are set up by the row.
const SSH: Dialog = Dialog {
    name: "ssh",
    programs: &["ssh"],
    command: "ssh remote",
    steps: &[
        DialogStep { prompt: "", input: StepInput::Secret(PASSPHRASE), is_optional: false },
        DialogStep::answer("", &["uname -sr; uptime", "Enter"]),
        DialogStep::answer("", &["df -h /", "Enter"]),
        DialogStep::answer("", &["free -m", "Enter"]),
        DialogStep::answer("", &["echo from $SSH_CONNECTION", "Enter"]),
        DialogStep::answer("", &["exit", "Enter"]),
    ],
    prepare: |_| Ok(()),
    verify: |_, shown| {
        ensure!(!shown.contains(PASSPHRASE), "the passphrase was shown");
        expect_parts(shown, &["from 127.0.0.1 ", "Filesystem"])
    },
};

const COMMITS: [&str; 6] =
    ["Start the parser", "Read numbers", "Fix typo", "Read strings", "Debug output", "Read lists"];

const SUM_PROGRAM: &str = r#"#include <stdio.h>

static int total(const int *values, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

int main(void) {
    int values[] = {3, 5, 7, 11};
    printf("total %d\n", total(values, 4));
    return 0;
}
"#;

fn expect_parts(shown: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(shown.contains(part), "`{}` was not shown", part.escape_debug());
    }
    Ok(())
}

fn run_quietly(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", stderr.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent whose program shows one prompt after the other.
    struct FakeAgent {
        prompts: Vec<&'static str>,
        typed: Vec<String>,
    }

    impl TerminalAgent for FakeAgent {
        fn start(&mut self, _: &Dialog) -> Result<String> {
            Ok(self.prompts.remove(0).to_owned())
        }

        fn type_keys(&mut self, keys: &[&str]) -> Result<String> {
            self.typed.push(keys.join(" "));
            self.look()
        }

        fn answer_secret(&mut self, secret: &str) -> Result<String> {
            self.type_keys(&[secret])
        }

        fn look(&mut self) -> Result<String> {
            Ok(if self.prompts.is_empty() { "" } else { self.prompts.remove(0) }.to_owned())
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    const ASKING: Dialog = Dialog {
        name: "asking",
        programs: &[],
        command: "ask",
        steps: &[
            DialogStep::answer("one:", &["1", "Enter"]),
            DialogStep { prompt: "two:", input: StepInput::Keys(&["2"]), is_optional: true },
            DialogStep::answer("three:", &["3"]),
        ],
        prepare: |_| Ok(()),
        verify: |_, _| Ok(()),
    };

    fn typed_by(prompts: &[&'static str]) -> Result<Vec<String>> {
        let mut agent = FakeAgent { prompts: prompts.to_vec(), typed: vec![] };
        lead_dialog(&ASKING, &mut agent)?;
        Ok(agent.typed)
    }

    #[test]
    fn a_step_waits_for_its_prompt_and_an_optional_one_may_be_left_out() {
        let all = typed_by(&["starting", "one:", "one: 1\ntwo:", "three:"]).expect("all asked");
        assert_eq!(all, ["1 Enter", "2", "3"]);
        assert_eq!(typed_by(&["one:", "three:"]).expect("two asked"), ["1 Enter", "3"]);
        assert!(typed_by(&["one:", "nothing"]).is_err());
    }

    #[test]
    fn the_row_of_the_cursor_is_the_marked_one_or_the_last_with_text() {
        assert_eq!(cursor_row("a\nname: ▮\nb\n"), "name: ▮");
        assert_eq!(cursor_row("a\nname:\n\n  \n"), "name:");
        assert_eq!(cursor_row(""), "");
    }
}
