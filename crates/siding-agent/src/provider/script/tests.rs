//! Playback of scripts: the content of answers, captured groups, simulated failures, and the
//! messages about mistakes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{ScriptError, ScriptedProvider};
use crate::cancel_flag::CancelFlag;
use crate::message::{
    AssistantContent, CallId, FinishReason, Message, ToolCall, ToolResult, Usage, UserContent,
};
use crate::provider::retry::RetryPolicy;
use crate::provider::{ModelRequest, ModelResponse, Provider as _, ProviderError, ResponsePart};

/// Returns a policy with pauses of at most 2 ms.
fn quick_retries() -> RetryPolicy {
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(2));
    RetryPolicy {
        max_retries: 2,
        initial_pause: first,
        max_pause: longest,
        max_server_pause: Duration::from_millis(20),
    }
}

fn read(text: &str) -> Result<ScriptedProvider, ScriptError> {
    ScriptedProvider::new(Path::new("s.toml"), text, quick_retries())
}

fn script(text: &str) -> ScriptedProvider {
    read(text).unwrap_or_else(|error| panic!("{error}"))
}

fn send(
    script: &ScriptedProvider,
    messages: &[Message],
) -> (Result<ModelResponse, ProviderError>, Vec<String>) {
    let cancel = CancelFlag::default();
    let asking = ModelRequest { system: "", messages, tools: &[], max_tokens: 1, cancel: &cancel };
    let mut received = Vec::new();
    let answer = script.send_request(&asking, &mut |part| {
        received.push(match part {
            ResponsePart::Text(text) => text.to_owned(),
            ResponsePart::Thinking(text) => format!("({text})"),
            ResponsePart::Retry { reason: why, .. } => format!("again: {why}"),
        });
    });
    (answer, received)
}

fn response(script: &ScriptedProvider, messages: &[Message]) -> ModelResponse {
    send(script, messages).0.unwrap_or_else(|error| panic!("{error}"))
}

fn refusal_text(script: &ScriptedProvider, messages: &[Message]) -> String {
    match send(script, messages).0 {
        Err(ProviderError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn prompt(text: &str) -> Message {
    Message::User {
        results: Vec::new(),
        content: vec![UserContent::Prompt { text: text.to_owned() }],
    }
}

fn result(call: &str, text: &str) -> Message {
    let text = text.to_owned();
    let result = ToolResult { call: CallId::new(call), text, is_error: false };
    Message::User { results: vec![result], content: Vec::new() }
}

fn assistant_text(text: &str) -> AssistantContent {
    AssistantContent::Text { text: text.to_owned() }
}

#[test]
fn an_answer_consists_of_thinking_texts_and_calls() {
    let script = script(
        r#"
        [[answer]]
        thinking = "let me see"
        signature = "sig"
        text = ["I look ", { text = "at it.", delay_ms = 1 }]
        usage = { input = 7, output = 5 }

        [[answer.call]]
        tool = "bash"
        input = { command = "ls", deep = [1, 2.5, true, { when = 2026-01-02 }] }

        [[answer.call]]
        tool = "task_list"

        [[answer.call]]
        tool = "bash"
        input = "{ no json"
        "#,
    );
    let (answer, received) = send(&script, &[prompt("do it")]);
    let answer = answer.expect("the request succeeds");
    assert_eq!(received, ["(let )", "(me )", "(see)", "I ", "look ", "at ", "it."]);
    let call = |nth: u32, name: &str, input| {
        let id = CallId::new(&format!("script_1_{nth}"));
        AssistantContent::Call(ToolCall { id, name: name.to_owned(), input })
    };
    let deep = json!([1, 2.5, true, { "when": "2026-01-02" }]);
    let thinking = AssistantContent::Thinking {
        text: "let me see".to_owned(),
        signature: Some("sig".to_owned()),
    };
    assert_eq!(
        answer.content,
        [
            thinking,
            assistant_text("I look at it."),
            call(1, "bash", json!({ "command": "ls", "deep": deep })),
            call(2, "task_list", json!({})),
            call(3, "bash", json!("{ no json")),
        ]
    );
    assert_eq!(answer.finish_reason, FinishReason::ToolUse);
    assert_eq!(answer.usage, Usage { input: 7, output: 5, ..Usage::default() });
}

#[test]
fn captured_groups_fill_later_answers() {
    let script = script(
        r#"
        [[answer]]
        expect = 'count to (?<number>\d+)'
        text = "To ${number}."

        [[answer]]
        expect = 'task (?<id>t-\w+)'
        text = "wait"
        call = [{ tool = "task_wait", input = { ids = ["${id}"], shell = "echo $${HOME} ${number}" } }]
        "#,
    );
    let begin = prompt("please count to 12");
    assert_eq!(response(&script, std::slice::from_ref(&begin)).content, [assistant_text("To 12.")]);
    let answer = Message::Assistant(vec![assistant_text("To 12.")]);
    let response = response(&script, &[begin, answer, result("c", "began task t-a7 now")]);
    let Some(AssistantContent::Call(call)) = response.content.last() else {
        panic!("{response:?}")
    };
    assert_eq!(call.input, json!({ "ids": ["t-a7"], "shell": "echo ${HOME} 12" }));
}

#[test]
fn a_mismatch_names_the_file_the_answer_and_the_actual_input() {
    let script = script("\n[[answer]]\nexpect = 'needle'\ntext = \"found\"\n");
    let why = refusal_text(&script, &[prompt("hay\u{1b}[2J")]);
    assert_eq!(why, "s.toml:2: answer 1 expects `needle`, but the model received: hay\\e[2J");
    assert_eq!(response(&script, &[prompt("a needle")]).content, [assistant_text("found")]);
}

#[test]
fn a_mismatch_is_explained_in_the_words_of_the_script() {
    let script = script(
        "[[answer]]\nexpect = '(?s)n.*e'\nmismatch = \"there is no needle\"\ntext = \"found\"\n",
    );
    let why = refusal_text(&script, &[prompt("hay")]);
    let expected =
        "s.toml:1: answer 1 does not fit: there is no needle, but the model received: hay";
    assert_eq!(why, expected);
}

#[test]
fn a_group_that_matched_nothing_is_reported() {
    let script =
        script("[[answer]]\nexpect = 'a(?<b>b)?'\ntext = \"one\"\n[[answer]]\ntext = \"${b}\"\n");
    assert_eq!(response(&script, &[prompt("a")]).content, [assistant_text("one")]);
    let why = refusal_text(&script, &[prompt("a")]);
    assert_eq!(why, "s.toml:4: answer 2 needs `${b}`, whose group has not matched so far");
}

#[test]
fn requests_after_the_last_answer_say_that_the_script_ended() {
    let script = script("[[answer]]\ntext = \"a\"\nstop = \"max_tokens\"\n");
    assert_eq!(response(&script, &[prompt("1")]).finish_reason, FinishReason::MaxTokens);
    for _ in 0..2 {
        let last = response(&script, &[prompt("2")]);
        let over = "The script s.toml has ended: all of its 1 answers were given.";
        assert_eq!(
            (last.content, last.finish_reason),
            (vec![assistant_text(over)], FinishReason::EndTurn)
        );
    }
}

#[test]
fn a_resumed_conversation_continues_at_the_next_answer() {
    let file = r#"
        [[answer]]
        expect = '(?<first>\w+)'
        text = "one"

        [[answer]]
        error = { status = 529 }

        [[answer]]
        text = "two"

        [[answer]]
        text = "three, ${first}"
    "#;
    let answer = |one: &str| Message::Assistant(vec![assistant_text(one)]);
    let conversation = [prompt("hello"), answer("one"), prompt("b"), answer("two"), prompt("c")];
    assert_eq!(response(&script(file), &conversation).content, [assistant_text("three, hello")]);
    // With `restart`, playback starts at the first answer in any conversation.
    let anew = script(&format!("restart = true\n{file}"));
    assert_eq!(response(&anew, &conversation).content, [assistant_text("one")]);
}

#[test]
fn played_failures_are_retried_like_those_of_servers() {
    let script = script(
        r#"
        [[answer]]
        error = { status = 429, message = "slow down", retry_after_ms = 3 }
        [[answer]]
        text = "half an"
        error = {}
        [[answer]]
        text = "whole"
        "#,
    );
    let (answer, received) = send(&script, &[prompt("go")]);
    assert_eq!(answer.expect("the last attempt succeeds").content, [assistant_text("whole")]);
    let broken = "again: the answer broke off: simulated by the script";
    assert_eq!(received, ["again: 429: slow down", "half ", "an", broken, "whole"]);
}

#[test]
fn a_permanent_failure_or_too_many_failures_end_the_request() {
    let refused = script("[[answer]]\nerror = { status = 401, message = \"no\" }\n");
    assert_eq!(refusal_text(&refused, &[prompt("go")]), "s.toml simulates a failure: 401: no");
    let often = script(&"[[answer]]\nerror = { status = 529 }\n".repeat(3));
    let (answer, received) = send(&often, &[prompt("go")]);
    assert!(matches!(answer, Err(ProviderError::Refused(_))), "{answer:?}");
    assert_eq!(received.len(), 2);
    let long = script("[[answer]]\nerror = { status = 429, retry_after_ms = 21 }\n");
    assert!(matches!(send(&long, &[prompt("go")]).0, Err(ProviderError::Refused(_))));
}

#[test]
fn cancellation_interrupts_every_delay() {
    for text in [
        "[[answer]]\ndelay_ms = 3600000\ntext = \"a\"\n",
        "[[answer]]\ntext = [\"a\", { text = \"b\", delay_ms = 3600000 }]\n",
    ] {
        let (script, cancel) = (script(text), CancelFlag::default());
        let messages = [prompt("go")];
        let asking = ModelRequest {
            system: "",
            messages: &messages,
            tools: &[],
            max_tokens: 1,
            cancel: &cancel,
        };
        let wished = std::thread::scope(|scope| {
            let asked = scope.spawn(|| script.send_request(&asking, &mut |_| {}));
            let wished = Instant::now();
            cancel.set();
            assert_eq!(asked.join().expect("the thread ends"), Err(ProviderError::Cancelled));
            wished
        });
        assert!(wished.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_mistake_is_reported_with_line_key_and_allowed_values() {
    for (text, expected) in [
        ("", "s.toml:1: it has no answer: start one with `[[answer]]`"),
        ("[[answer]]\ntext = \"a\"\n\n[[answer]]\n", "s.toml:4: answer 2: it has no content: give"),
        (
            "[[answer]]\n\ntexts = \"a\"\n",
            "s.toml:3: unknown field `texts`, expected one of `expect`",
        ),
        (
            "[[answer]]\ntext = 5\n",
            "s.toml:2: invalid type: integer `5`, expected a text, or a list",
        ),
        (
            "[[answer]]\ntext = [{ txt = \"a\" }]\n",
            "s.toml:2: unknown field `txt`, expected `text` or",
        ),
        (
            "[[answer]]\nstop = \"end\"\n",
            "s.toml:2: unknown variant `end`, expected one of `end_turn`",
        ),
        ("[[answer]]\ntext = \"a\n", "s.toml:2: "),
        ("[[answer]]\ntext = \"a\"\nexpect = '('\n", "s.toml:1: answer 1: `expect` is not a"),
        (
            "[[answer]]\ntext = \"${x}\"\n",
            "s.toml:1: answer 1: `${x}` is not a group of an `expect` so far",
        ),
        ("[[answer]]\ncall = [{ input = {} }]\n", "s.toml:2: missing field `tool`"),
        (
            "[[answer]]\ncall = [{ tool = \"b\", input = 5 }]\n",
            "s.toml:1: answer 1: `input` of `b` is integer",
        ),
        ("[[answer]]\nerror = { status = 200 }\n", "s.toml:1: answer 1: `error.status` is 200"),
        (
            "[[answer]]\nerror = { retry_after_ms = 1 }\n",
            "s.toml:1: answer 1: `error.retry_after_ms`",
        ),
        (
            "[[answer]]\nerror = {}\nstop = \"other\"\n",
            "s.toml:1: answer 1: `stop` cannot be combined",
        ),
        ("[[answer]]\nmismatch = \"m\"\ntext = \"a\"\n", "s.toml:1: answer 1: `mismatch` requires"),
        (
            "[[answer]]\nsignature = \"s\"\ntext = \"a\"\n",
            "s.toml:1: answer 1: `signature` requires",
        ),
        ("[[answer]]\ndelay_ms = -1\ntext = \"a\"\n", "s.toml:2: "),
    ] {
        let error = read(text).err().unwrap_or_else(|| panic!("{text:?} is taken")).to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    let gone = ScriptedProvider::read(Path::new("/nowhere/s.toml"), quick_retries())
        .err()
        .expect("the file is missing");
    assert!(
        gone.to_string().starts_with("could not read the script `/nowhere/s.toml`: "),
        "{gone}"
    );
}
