//! `siding show`.

use serde_json::json;
use siding_e2e::{eventually, words};

use crate::support::{ended, ids, ok, sandbox, shown, start, stop_all};

/// The values behind a label.
fn values<'t>(text: &'t str, label: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("{label}  ")));
    let (first, mut rest) = (lines.clone().take(1), lines.skip(1));
    let more = std::iter::from_fn(|| rest.next().filter(|line| line.starts_with("            ")));
    first.chain(more).map(|line| line.get(12..).unwrap_or_default().trim()).collect()
}

#[test]
fn one_screen_tells_how_a_task_stands() {
    let sandbox = sandbox();
    let line = format!("echo hello; {}", sandbox.puppet_line(&words("--quiet mark m hang")));
    let id = start(&sandbox, &["--name", "web"], &line);
    let member = sandbox.marked("m");
    eventually("its output is there", || shown(&sandbox, &id)["output"]["bytes"] == 6);
    let text = ok(&sandbox, &["show", &id]).out();
    assert!(text.starts_with(&format!("{id}  running\n")), "{text}");
    assert_eq!(values(&text, "command").concat(), line, "{text}");
    assert_eq!(values(&text, "name"), ["web"]);
    assert_eq!(
        values(&text, "directory"),
        [sandbox.path("").display().to_string().trim_end_matches('/')]
    );
    assert_eq!(values(&text, "session"), ["cli"]);
    assert!(values(&text, "deadline")[0].contains(", in 29m"), "{text}");
    let output = sandbox.state_dir().join("tasks").join(&id).join("output");
    assert_eq!(values(&text, "output"), ["6 bytes", &output.display().to_string()]);
    let processes = values(&text, "processes");
    assert!(processes.iter().any(|row| row.starts_with(&member.pid.to_string())), "{text}");
    assert!(text.contains("-- all output --\n| hello\n--\n"), "{text}");
    let next = values(&text, "next").join(" ");
    for command in ["wait", "output", "stop"] {
        assert!(next.contains(&format!("`siding {command} {id}`")), "{text}");
    }
    stop_all(&sandbox);
    let text = ok(&sandbox, &["show", &id]).out();
    assert!(text.starts_with(&format!("{id}  stopped by user\n")), "{text}");
    let ended = values(&text, "was ended");
    assert!(ended.iter().any(|row| row.starts_with(&format!("{} SIGTERM", member.pid))), "{text}");
}

/// What a shell's own code hides is shown: the stages of a pipeline, and where it ended.
#[test]
fn the_end_of_a_shell_is_told_in_full() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "cd / && false | true");
    let text = ok(&sandbox, &["show", &id]).out();
    assert!(text.starts_with(&format!("{id}  exited 0\n")), "{text}");
    assert_eq!(values(&text, "ended in"), ["/"]);
    assert_eq!(values(&text, "pipeline"), ["1 | 0"]);
    assert!(values(&text, "next").join(" ").contains("failed behind the code 0"), "{text}");
    let view = shown(&sandbox, &id);
    assert_eq!(view["pipeline_statuses"], json!([1, 0]));
    assert_eq!(view["final_cwd"], "/");
}

#[test]
fn one_that_is_not_there_does_not_hide_the_others() {
    let sandbox = sandbox();
    let (one, two) = (ended(&sandbox, "echo one"), ended(&sandbox, "echo two"));
    let text = ok(&sandbox, &["show", &one, &two]).out();
    assert!(text.contains(&format!("\n\n{two}  exited 0\n")), "{text}");
    let args = ["show", "--json", &one, "b-zzz", &two];
    let done = sandbox.siding(&args).run().expect_code(125);
    assert_eq!(ids(&done.json()), [one, two]);
    assert!(done.err().contains("no task `b-zzz`"), "{done}");
}
