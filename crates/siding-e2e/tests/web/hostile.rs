//! Tasks whose names and output contain markup and scripts for the browser of their viewer.

use crate::client::WebServer;
use crate::{run_task, sandbox};

/// Texts that no page may contain, because the browser would interpret them as markup.
const MARKUP: [&str; 5] =
    ["<script>alert", "<img src=x", "<a href=\"javascript", "<svg/onload", "\u{202e}"];

/// A command whose output tries to become markup, a link, a title or the content of the clipboard.
pub(crate) const HOSTILE_COMMAND: &str = r#"printf '%b' '<script>alert(2)</script>\n<img src=x onerror=alert(3)>\n<a href="javascript:alert(4)">x</a>\n\033]8;;javascript:alert(5)\033\\link\033]8;;\033\\\n\033]0;title\007\033]52;c;cGFzdGU=\007after\n\377\376invalid\n\0342\0200\0256right\n\033[31mred\033[0m <svg/onload=alert(6)>\n'; exit 3 # <script>alert(7)</script>"#;

#[test]
fn output_and_names_of_a_hostile_task_are_text() {
    let sandbox = sandbox();
    let name = "</title><script>alert(1)</script>";
    let done = sandbox.siding(&["run", "--json", "--name", name, "--", HOSTILE_COMMAND]).run();
    let id = done.json()["task_id"].as_str().unwrap_or_default().to_owned();
    // A name with such characters may be refused; the command has them in any case.
    let id = if id.is_empty() { run_task(&sandbox, HOSTILE_COMMAND) } else { id };
    let server = WebServer::start(&sandbox, &["--control"]);
    let pages = [
        "/".to_owned(),
        "/timeline".to_owned(),
        "/workflows".to_owned(),
        "/history".to_owned(),
        "/timeline?since=%3Cscript%3Ealert(9)".to_owned(),
        "/timeline?session=%22%3E%3Cscript%3Ealert(9)".to_owned(),
        "/history?sort=%22%3E%3Cscript%3Ealert(9)".to_owned(),
        format!("/tasks/{id}"),
        format!("/tasks/{id}?find=script"),
        format!("/tasks/{id}?find=%3Cscript%3Ealert(8)"),
        format!("/tasks/{id}/lines?from=0"),
        "/?q=%3Cscript%3Ealert(9)%3C/script%3E".to_owned(),
        "/?session=%22%3E%3Cscript%3Ealert(9)".to_owned(),
    ];
    for path in &pages {
        // Some of these addresses have values that are not allowed, which the page repeats.
        let token = format!("Bearer {}", crate::client::TOKEN);
        let reply = server.get_with(path, &[("Authorization", &token)]);
        assert!(matches!(reply.status, 200 | 400), "{path}: {reply:?}");
        let text = reply.text();
        for markup in MARKUP {
            assert!(!text.contains(markup), "{path} contains {markup:?}:\n{text}");
        }
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(!text.chars().any(is_control), "{path}: {text:?}");
    }
    let page = server.get(&format!("/tasks/{id}")).text();
    for shown in [
        "&lt;script&gt;alert(2)&lt;/script&gt;",
        "<code>link</code>",
        "<code>after</code>",
        "\u{fffd}\u{fffd}invalid",
        "\\u{202e}right",
        "<span class=\"f1\">red</span>",
    ] {
        assert!(page.contains(shown), "{shown} is missing:\n{page}");
    }
    let output = page.split("class=\"output\"").nth(1).and_then(|rest| rest.split("</ol>").next());
    let output = output.expect("the output");
    assert!(!output.contains("cGFzdGU"), "the clipboard sequence is removed:\n{output}");
}

/// The screen of a task with a terminal is computed from its output, and is also shown as text.
#[test]
fn the_screen_of_a_hostile_task_is_text() {
    let sandbox = sandbox();
    let args = ["run", "--pty", "--json", "--budget", "none", "--", HOSTILE_COMMAND];
    let done = sandbox.siding(&args).run();
    let id = done.json()["task_id"].as_str().expect("a task id").to_owned();
    let server = WebServer::start(&sandbox, &[]);
    let page = server.get(&format!("/tasks/{id}")).text();
    let screen =
        page.split("<pre class=\"screen\"").nth(1).and_then(|rest| rest.split("</pre>").next());
    let screen = screen.expect("the screen");
    for shown in ["&lt;script&gt;alert(2)&lt;/script&gt;", "<span class=\"f1\">red</span>"] {
        assert!(screen.contains(shown), "{shown} is missing:\n{screen}");
    }
    for markup in MARKUP {
        assert!(!screen.contains(markup), "{markup:?}:\n{screen}");
    }
    assert!(!screen.chars().any(|c| c.is_control() && c != '\n'), "{screen:?}");
    let pipes = run_task(&sandbox, "echo plain");
    assert!(!server.get(&format!("/tasks/{pipes}")).text().contains("class=\"screen\""));
}

#[test]
fn every_answer_forbids_inline_scripts_frames_and_guessed_types() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "echo '<script>alert(1)</script>'");
    let server = WebServer::start(&sandbox, &[]);
    let download = format!("/tasks/{id}/download");
    for path in [
        "/",
        "/timeline",
        "/workflows",
        "/metrics",
        "/api/v1/tasks",
        "/assets/page.js",
        "/nothing",
        &download,
    ] {
        let token = format!("Bearer {}", crate::client::TOKEN);
        let reply = server.get_with(path, &[("Authorization", &token)]);
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
    }
    let reply = server.get(&download);
    assert_eq!(reply.header("content-type"), Some("application/octet-stream"));
    assert!(reply.header("content-disposition").is_some_and(|it| it.starts_with("attachment")));
    assert_eq!(reply.text(), "<script>alert(1)</script>\n");
    let unsigned = server.get_with("/", &[]);
    assert!(unsigned.header("content-security-policy").is_some());
}

#[test]
fn a_line_of_ten_megabytes_is_shown_in_parts() {
    let sandbox = sandbox();
    let id =
        run_task(&sandbox, "echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last");
    let server = WebServer::start(&sandbox, &[]);
    for at in ["", "?at=0", "?at=5000000"] {
        let page = server.get(&format!("/tasks/{id}{at}"));
        assert!(page.body.len() < 200_000, "{at}: {} bytes", page.body.len());
    }
    assert!(server.get(&format!("/tasks/{id}")).text().contains("<code>last</code>"));
    assert!(server.get(&format!("/tasks/{id}?at=0")).text().contains("<code>first</code>"));
    // Together, the windows cover the whole output without a gap or an overlap.
    let (mut from, mut windows) = (0_u64, 0);
    while from < 10_000_012 {
        let page = server.get(&format!("/tasks/{id}/lines?from={from}&max=262144")).text();
        let next = page.split("data-next=\"").nth(1).expect("a next offset");
        let next: u64 = next.split('"').next().expect("a number").parse().expect("a number");
        assert!(next > from, "window {windows} at {from} makes no progress");
        (from, windows) = (next, windows + 1);
    }
    assert_eq!(from, 10_000_012);
    assert!(windows < 100, "{windows}");
}
