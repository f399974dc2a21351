//! The tool `spawn_agent`, which starts subagents, and the tasks that an ended subagent leaves.

use serde_json::Value;
use siding_e2e::{Process, Sandbox, eventually, eventually_some};

use super::{agent_with_script, entries_of_kind, sandbox, transcript, wait_until_said_command};

/// Writes the script of a subagent and returns the name of its model.
fn write_subagent_script(sandbox: &Sandbox, script: &str) -> String {
    let file = sandbox.path("subagent.toml");
    std::fs::write(&file, script).expect("test file");
    format!("script:{}", file.display())
}

/// Returns a script answer that starts a subagent, with `more` appended to the call's input.
fn spawn_agent_call(model: &str, more: &str) -> String {
    format!(
        r#"
        [[answer]]
        [[answer.call]]
        tool = "spawn_agent"
        input = {{ prompt = "count them", name = "count", model = "{model}"{more} }}
        "#
    )
}

/// A script answer that does not arrive during the test.
const NEVER_ANSWERS: &str = "\n[[answer]]\ndelay_ms = 600000\ntext = \"never\"\n";

fn list_tasks(sandbox: &Sandbox, args: &[&str]) -> Vec<Value> {
    let listed = sandbox.siding(&[&["ps", "--json"], args].concat()).run().expect_code(0).json();
    listed.as_array().expect("a list").clone()
}

/// Returns a task whose command contains `part`.
fn find_task(sandbox: &Sandbox, part: &str) -> Option<Value> {
    let has = |task: &Value| task["command"].as_str().is_some_and(|text| text.contains(part));
    list_tasks(sandbox, &[]).into_iter().find(has)
}

/// Waits for a subagent, and returns its session and the process that owns this session.
fn wait_for_subagent(sandbox: &Sandbox) -> (String, Process) {
    eventually_some("there is a subagent", || {
        let sessions = sandbox.siding(&["session", "list", "--json"]).run().json();
        let is_it =
            |one: &&Value| one["session_id"].as_str().is_some_and(|id| id.starts_with("a-"));
        let session = sessions.as_array()?.iter().find(is_it)?.clone();
        assert!(
            session["parent_session"].as_str().is_some_and(|id| id.starts_with("agent-")),
            "{session}"
        );
        let pid = u32::try_from(session["owner_pid"].as_i64()?).ok()?;
        Some((session["session_id"].as_str()?.to_owned(), Process::from_pid(pid)?))
    })
}

#[test]
fn subagents_final_answer_arrives_as_a_notice() {
    let sandbox = sandbox();
    let model = write_subagent_script(
        &sandbox,
        &r#"
        [[answer]]
        expect = '^count them$'
        text = "I count."
        usage = { input = 5, output = 2 }
        [[answer.call]]
        tool = "bash"
        input = { command = "WAIT; echo one two three" }
        [[answer.call]]
        tool = "bash"
        input = { command = "sudo -n true" }
        [[answer]]
        expect = '(?s)one two three.*not run: a person must approve'
        text = "There are 3."
        usage = { input = 7, output = 4 }
        "#
        .replace("WAIT", &wait_until_said_command(&sandbox, "Meanwhile I end my turn")),
    );
    let script = spawn_agent_call(&model, "")
        + r#"
        [[answer]]
        expect = '(?s)^(?<task>a-[0-9a-z]{12})  running.*agent: count'
        text = "Meanwhile I end my turn."
        [[answer]]
        expect = '(?s)^<task_notification>.*<name>agent: count</name>\s*<status>completed</status>.*There are 3\.'
        text = "It has found 3."
        usage = { input = 1 }
        "#;
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--json"]).run().expect_code(0).json();
    assert_eq!(done["text"], "It has found 3.");
    assert_eq!(done["usage"]["input"], 1);
    assert_eq!(done["usage_of_subagents"]["input"], 12);
    assert_eq!(done["usage_of_subagents"]["output"], 6);
    let task = list_tasks(&sandbox, &[]).into_iter().find(|one| one["kind"] == "local_agent");
    let task = task.expect("the task is listed");
    assert_eq!(task["name"], "agent: count");
    assert!(!task["command"].as_str().expect("text").contains("count them"), "{task}");
    // The conversation of a subagent has a transcript and can be resumed like any other
    // conversation.
    let lines = transcript(&sandbox, task["task_id"].as_str().expect("an id"));
    assert_eq!(entries_of_kind(&lines, "response").len(), 2, "{lines:#?}");
    let more = "restart = true\n[[answer]]\nexpect = '^and now$'\ntext = \"Still 3.\"\n";
    let again = ["--resume", task["task_id"].as_str().expect("an id"), "-p", "and now"];
    assert_eq!(
        agent_with_script(&sandbox, more, &again).run().expect_code(0).stdout_text(),
        "Still 3.\n"
    );
}

#[test]
fn foreground_subagent_returns_its_answer() {
    let sandbox = sandbox();
    let model = write_subagent_script(&sandbox, "[[answer]]\ntext = \"There are 3.\"\n");
    let script = spawn_agent_call(&model, ", background = false, budget = 50")
        + r#"
        [[answer]]
        expect = '(?s)exited 0.*There are 3\.'
        text = "It has found 3."
        "#;
    let done = agent_with_script(&sandbox, &script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "It has found 3.\n");
    assert!(!done.stderr_text().contains("notice of"), "{}", done.stderr_text());
}

/// Promise P126: the tasks of a subagent are in the subagent's own session, and the parent inherits
/// these tasks when the subagent ends.
#[test]
fn parent_inherits_the_tasks_of_a_finished_subagent() {
    let sandbox = sandbox();
    let model = write_subagent_script(
        &sandbox,
        &r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "WAIT; echo it is late", run_in_background = true }
        [[answer]]
        expect = 'b-[0-9a-z]{12}'
        text = "I have started it."
        "#
        .replace("WAIT", &wait_until_said_command(&sandbox, "I wait for that too")),
    );
    let script = spawn_agent_call(&model, "")
        + r#"
        [[answer]]
        text = "Meanwhile I end my turn."
        [[answer]]
        expect = '(?s)continues as your task: b-[0-9a-z]{12}  running.*I have started it\.'
        [[answer.call]]
        tool = "task_list"
        input = { }
        [[answer]]
        expect = '(?m)^b-[0-9a-z]{12}  running'
        text = "I wait for that too."
        [[answer]]
        expect = '(?s)^<task_notification>.*<status>completed</status>.*it is late'
        text = "All is over."
        "#;
    // Without a session grace, the shim would stop the task if its session had no owner even for a
    // moment.
    let parent = agent_with_script(&sandbox, &script, &["-p", "go", "--json"])
        .env("SIDING_SESSION_GRACE", "0s");
    let done = parent.run().expect_code(0).json();
    assert_eq!(done["text"], "All is over.");
    assert_eq!(done["ended"], serde_json::json!([]));
    assert_eq!(find_task(&sandbox, "it is late").expect("a task")["outcome"]["kind"], "exited");
}

/// Promise P126: the parent of a killed subagent inherits its running tasks and its undelivered
/// notices.
#[test]
fn parent_inherits_tasks_and_notices_of_a_killed_subagent() {
    let sandbox = sandbox();
    let starts = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "for n in $(seq 1200); do [ -e go ] && break; sleep .05; done; sleep 1; echo in between; exit 3", run_in_background = true }
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        "#;
    let model = write_subagent_script(&sandbox, &(starts.to_owned() + NEVER_ANSWERS));
    let script = spawn_agent_call(&model, "")
        + r#"
        [[answer]]
        text = "Meanwhile I end my turn."
        [[answer]]
        expect = '(?s)<task_notification>.*<status>failed</status>\s*<exit_code>3</exit_code>.*in between.*<name>agent: count</name>\s*<status>failed</status>\s*<signal>'
        [[answer.call]]
        tool = "task_list"
        input = { }
        [[answer]]
        expect = '(?m)^(?<left>b-[0-9a-z]{12})  running.*sleep 300$'
        [[answer.call]]
        tool = "task_stop"
        input = { ids = "${left}" }
        [[answer]]
        expect = '^b-[0-9a-z]{12}  stopped'
        text = "All is ended."
        "#;
    let parent = agent_with_script(&sandbox, &script, &["-p", "go", "--json"]);
    let parent = parent.env("SIDING_SESSION_GRACE", "0s").spawn();
    let (session, subagent) = wait_for_subagent(&sandbox);
    // The first task ends while the subagent waits for its model, so that the subagent does not
    // receive the notice itself.
    let path = sandbox.state_dir().join("sessions").join(session).join("transcript.jsonl");
    eventually("both calls have returned", || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.matches("\"call_finished\"").count() == 2
    });
    std::fs::write(sandbox.path("go"), "").expect("test file");
    eventually("the first task has ended", || {
        find_task(&sandbox, "in between").is_some_and(|task| !task["outcome"].is_null())
            && find_task(&sandbox, "sleep 300").is_some()
    });
    subagent.kill();
    assert_eq!(parent.wait().expect_code(0).json()["text"], "All is ended.");
}

#[test]
fn subagents_and_their_tasks_end_with_a_killed_agent() {
    let sandbox = sandbox();
    let starts = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        "#;
    let model = write_subagent_script(&sandbox, &(starts.to_owned() + NEVER_ANSWERS));
    let script = spawn_agent_call(&model, "") + "[[answer]]\ntext = \"I wait.\"\n";
    let parent = agent_with_script(&sandbox, &script, &["-p", "go"])
        .env("SIDING_SESSION_GRACE", "100ms")
        .spawn();
    eventually("the task runs", || find_task(&sandbox, "sleep 300").is_some());
    let (session, process) = wait_for_subagent(&sandbox);
    drop(parent);
    eventually("all tasks have ended", || list_tasks(&sandbox, &["--running"]).is_empty());
    assert!(!process.is_alive());
    for (command_part, session_prefix) in
        [("--subagent", "agent-"), ("sleep 300", session.as_str())]
    {
        let task = find_task(&sandbox, command_part).expect("a recorded entry");
        assert_eq!(task["outcome"]["kind"], "stopped", "{task:#}");
        assert_eq!(task["outcome"]["by"], "session", "{task:#}");
        assert!(
            task["session_id"].as_str().is_some_and(|id| id.starts_with(session_prefix)),
            "{task:#}"
        );
    }
}

#[test]
fn resumed_agent_receives_the_answer_of_its_subagent() {
    let sandbox = sandbox();
    let model = write_subagent_script(
        &sandbox,
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "for n in $(seq 1200); do [ -e go ] && break; sleep .05; done; echo one two three" }
        [[answer]]
        text = "There are 3."
        "#,
    );
    let script = spawn_agent_call(&model, "") + "[[answer]]\ntext = \"I wait.\"\n";
    let parent = agent_with_script(&sandbox, &script, &["-p", "go"])
        .env("SIDING_SESSION_GRACE", "60s")
        .spawn();
    let _subagent = wait_for_subagent(&sandbox);
    let is_agent = |one: &Value| one["kind"] == "local_agent";
    let task = list_tasks(&sandbox, &[]).into_iter().find(is_agent).expect("the task is listed");
    let session = task["session_id"].as_str().expect("a name");
    let path = sandbox.state_dir().join("sessions").join(session).join("transcript.jsonl");
    eventually("the agent waits", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.contains("I wait."))
    });
    drop(parent);
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    eventually("the subagent has ended", || {
        list_tasks(&sandbox, &[]).iter().any(|one| is_agent(one) && !one["outcome"].is_null())
    });
    let script = r#"
        restart = true
        [[answer]]
        expect = '(?s)^<task_notification>.*There are 3\.'
        text = "It has found 3."
        "#;
    let done = agent_with_script(&sandbox, script, &["--resume", session, "--json"])
        .run()
        .expect_code(0)
        .json();
    assert_eq!(done["text"], "It has found 3.");
}

#[test]
fn subagent_count_and_depth_limits_are_enforced() {
    let sandbox = sandbox();
    let deeper = r#"
        [[answer]]
        [[answer.call]]
        tool = "spawn_agent"
        input = { prompt = "do it for me" }
        [[answer]]
        expect = 'not started: subagents may be nested 1 deep.*do it yourself'
        text = "I do it."
        "#;
    let model = write_subagent_script(&sandbox, deeper);
    let one = spawn_agent_call(&model, ", background = false, budget = 50");
    let script = one.clone() + "[[answer]]\nexpect = 'I do it'\ntext = \"Well.\"\n";
    let deep = agent_with_script(&sandbox, &script, &["-p", "go"])
        .env("SIDING_MAX_SUBAGENT_DEPTH", "1")
        .run();
    assert_eq!(deep.expect_code(0).stdout_text(), "Well.\n");
    let script = one
        + "[[answer]]\nexpect = 'not started: the limit of 0 running.*task_stop'\ntext = \"Well.\"\n";
    let many =
        agent_with_script(&sandbox, &script, &["-p", "go"]).env("SIDING_MAX_SUBAGENTS", "0").run();
    assert_eq!(many.expect_code(0).stdout_text(), "Well.\n");
    let wrong = agent_with_script(&sandbox, &script, &["-p", "go"])
        .env("SIDING_MAX_SUBAGENTS", "few")
        .run();
    assert!(wrong.expect_code(125).stderr_text().contains("SIDING_MAX_SUBAGENTS: `few`"));
}

#[test]
fn stopping_a_subagent_stops_its_tasks() {
    let sandbox = sandbox();
    let starts = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        "#;
    let model = write_subagent_script(&sandbox, &(starts.to_owned() + NEVER_ANSWERS));
    let script = spawn_agent_call(&model, "")
        + r#"
        [[answer]]
        text = "I wait."
        [[answer]]
        expect = '(?s)^<task_notification>.*<status>stopped</status>'
        text = "Somebody has stopped it."
        "#;
    let mut parent = agent_with_script(&sandbox, &script, &["-p", "go"]).spawn();
    eventually("the task runs", || find_task(&sandbox, "sleep 300").is_some());
    // The parent must have ended its turn. During a turn, a tool result would report the stop, and
    // there would be no notice.
    let _said = parent.wait_for_stdout("I wait.");
    let (session, process) = wait_for_subagent(&sandbox);
    let _stopped = sandbox.siding(&["stop", &session]).run().expect_code(0);
    assert!(!process.is_alive());
    let task = find_task(&sandbox, "sleep 300").expect("a recorded entry");
    assert_eq!(task["outcome"]["by"], "user", "{task:#}");
    let done = parent.wait().expect_code(0);
    assert!(done.stdout_text().contains("Somebody has stopped it."), "{}", done.stdout_text());
}

/// `tools` restricts the tools of a subagent; a subagent never has a tool that its parent lacks.
#[test]
fn subagent_has_at_most_the_tools_of_its_parent() {
    let sandbox = sandbox();
    let model = write_subagent_script(
        &sandbox,
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "touch ran" }
        [[answer]]
        expect = '^there is no tool `bash`; the tools are (spawn_agent, )?read_file$'
        text = "I may only read."
        "#,
    );
    let waits = ", background = false, budget = 50";
    let script = spawn_agent_call(&model, &format!("{waits}, tools = [\"shell\"]"))
        + &spawn_agent_call(&model, &format!("{waits}, tools = [\"read_file\"]")).replacen(
            "[[answer]]",
            "[[answer]]\nexpect = '^`tools`: there is no tool `shell`; the tools are .*read_file'",
            1,
        )
        + "[[answer]]\nexpect = 'I may only read'\ntext = \"Well.\"\n";
    assert_eq!(
        agent_with_script(&sandbox, &script, &["-p", "go"]).run().expect_code(0).stdout_text(),
        "Well.\n"
    );
    assert!(!sandbox.path("ran").exists());
    // The parent itself has only two tools, so the subagent can have at most these two.
    let script = spawn_agent_call(&model, waits)
        + "[[answer]]\nexpect = 'I may only read'\ntext = \"Well.\"\n";
    let few = ["-p", "go", "--tools", "spawn_agent,read_file"];
    assert_eq!(
        agent_with_script(&sandbox, &script, &few).run().expect_code(0).stdout_text(),
        "Well.\n"
    );
    assert!(!sandbox.path("ran").exists());
    let wrong = agent_with_script(&sandbox, &script, &["-p", "go", "--tools", "bash,shell"]).run();
    assert!(wrong.expect_code(125).stderr_text().contains("--tools: there is no tool `shell`"));
}

/// Promise P16: the default budget applies only to the main agent. A subagent waits for its
/// commands, including a `siding run` in a command, unless the call sets a budget.
#[test]
fn default_budget_does_not_apply_to_a_subagent() {
    let sandbox = sandbox();
    let run = sandbox.siding_line(&["run", "--", "sleep 0.6; echo inner"]);
    let wait = wait_until_said_command(&sandbox, "Good.");
    let model = write_subagent_script(
        &sandbox,
        &format!(
            r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = {{ command = "sleep 0.6; echo whole" }}
        [[answer]]
        expect = '(?s)exited 0.*whole'
        [[answer.call]]
        tool = "bash"
        input = {{ command = {} }}
        [[answer]]
        expect = '(?s)exited 0.*inner'
        [[answer.call]]
        tool = "bash"
        input = {{ command = "{wait}", budget = 0.1 }}
        [[answer]]
        expect = 'still running'
        text = "It waited."
        "#,
            serde_json::Value::from(run)
        ),
    );
    let script = spawn_agent_call(&model, ", background = false, budget = 50")
        + r#"
        [[answer]]
        expect = '(?s)exited 0.*It waited\.'
        [[answer.call]]
        tool = "bash"
        input = { command = "true" }
        [[answer]]
        text = "Good."
        [[answer]]
        text = "Done."
        "#;
    let call = agent_with_script(&sandbox, &script, &["-p", "go", "--json"]);
    let done = call.env("SIDING_BLOCKING_BUDGET", "100ms").run();
    let lines = done.json();
    assert!(done.code == Some(0), "{lines}");
}
