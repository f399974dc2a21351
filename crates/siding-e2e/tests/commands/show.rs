//! The text of `siding show`.

use serde_json::json;
use siding_e2e::{eventually, words};

use crate::support::{run_ok, run_to_end, sandbox, show_task, start_task, stop_all, task_ids};

/// Returns the values after a label in the text of `siding show`, one for each line.
fn field_values<'t>(text: &'t str, label: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("{label}  ")));
    let (first, mut rest) = (lines.clone().take(1), lines.skip(1));
    let more = std::iter::from_fn(|| rest.next().filter(|line| line.starts_with("            ")));
    first.chain(more).map(|line| line.get(12..).unwrap_or_default().trim()).collect()
}

#[test]
fn show_prints_the_state_of_a_task_on_one_screen() {
    let sandbox = sandbox();
    let line = format!("echo hello; {}", sandbox.puppet_line(&words("--quiet mark m hang")));
    let id = start_task(&sandbox, &["--name", "web"], &line);
    let member = sandbox.wait_for_mark("m");
    eventually("the output is stored", || show_task(&sandbox, &id)["output"]["bytes"] == 6);
    let text = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(text.starts_with(&format!("{id}  running\n")), "{text}");
    // A long command is wrapped, also inside a word that is longer than a line.
    let without_blanks = |text: &str| text.replace(' ', "");
    let command = field_values(&text, "command").concat();
    assert_eq!(without_blanks(&command), without_blanks(&line), "{text}");
    assert_eq!(field_values(&text, "name"), ["web"]);
    assert_eq!(
        field_values(&text, "directory"),
        [sandbox.path("").display().to_string().trim_end_matches('/')]
    );
    assert_eq!(field_values(&text, "session"), ["cli"]);
    let deadline = field_values(&text, "deadline").join(" ");
    assert!(deadline.contains(", in 29m") && deadline.contains("`siding extend`"), "{text}");
    let output = sandbox.state_dir().join("tasks").join(&id).join("output");
    assert_eq!(field_values(&text, "output"), ["6 bytes", &output.display().to_string()]);
    let processes = field_values(&text, "processes");
    assert!(processes.iter().any(|row| row.starts_with(&member.pid.to_string())), "{text}");
    assert!(text.contains("-- all output --\n| hello\n--\n"), "{text}");
    let next = field_values(&text, "next").join(" ");
    assert!(next.contains("`siding wait ID`, or output, extend, stop"), "{text}");
    stop_all(&sandbox);
    let text = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(text.starts_with(&format!("{id}  stopped by user\n")), "{text}");
    let ended = field_values(&text, "was ended");
    assert!(ended.iter().any(|row| row.starts_with(&format!("{} SIGTERM", member.pid))), "{text}");
    assert!(!text.contains("\nnext") && !text.contains("\nnote"), "{text}");
}

/// Promise P37: `siding show` prints what a shell's exit code hides: the status of each pipeline
/// stage, and the final directory.
#[test]
fn show_prints_the_final_directory_and_pipeline_statuses() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "cd / && false | true");
    let text = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(text.starts_with(&format!("{id}  exited 0\n")), "{text}");
    assert_eq!(field_values(&text, "ended in"), ["/"]);
    assert_eq!(field_values(&text, "pipeline"), ["1 | 0"]);
    assert!(
        field_values(&text, "note").join(" ").contains("failed, although the exit code is 0"),
        "{text}"
    );
    let view = show_task(&sandbox, &id);
    assert_eq!(view["pipeline_statuses"], json!([1, 0]));
    assert_eq!(view["final_cwd"], "/");
}

#[test]
fn an_unknown_task_does_not_hide_the_others() {
    let sandbox = sandbox();
    let (one, two) = (run_to_end(&sandbox, "echo one"), run_to_end(&sandbox, "echo two"));
    let text = run_ok(&sandbox, &["show", &one, &two]).stdout_text();
    assert!(text.contains(&format!("\n\n{two}  exited 0\n")), "{text}");
    let args = ["show", "--json", &one, "b-zzz", &two];
    let done = sandbox.siding(&args).run().expect_code(125);
    assert_eq!(task_ids(&done.json()), [one, two]);
    assert!(done.stderr_text().contains("no task `b-zzz`"), "{done}");
}
