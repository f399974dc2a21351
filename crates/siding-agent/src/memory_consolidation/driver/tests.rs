//! Consolidation with a fake model: which rewrites reach the notes, and when a consolidation is
//! refused, retried or interrupted.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::message::{CallId, FinishReason};
use crate::provider::{ModelResponse, ResponsePart};

/// Computes one reply of the fake model from the request.
type FakeReply = Box<dyn FnMut(&ModelRequest<'_>) -> Result<ModelResponse, ProviderError> + Send>;

/// A model that replies from a script and stores the prompts.
struct FakeModel {
    replies: Mutex<VecDeque<FakeReply>>,
    prompts: Mutex<Vec<String>>,
}

impl Provider for FakeModel {
    fn send_request(
        &self,
        request: &ModelRequest<'_>,
        _listen: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Result<ModelResponse, ProviderError> {
        let last = match request.messages.last().expect("at least one message") {
            Message::User { results, content } => {
                let results = results.iter().map(|result| result.text.as_str());
                results.chain(content.iter().map(UserContent::text)).collect::<Vec<_>>().join("\n")
            }
            Message::Assistant(_) => panic!("the model has the last word"),
        };
        self.prompts.lock().expect("the lock is not poisoned").push(last);
        let play = self.replies.lock().expect("the lock is not poisoned").pop_front();
        play.expect("no more requests than replies")(request)
    }
}

fn fake_model(plays: Vec<FakeReply>) -> FakeModel {
    FakeModel { replies: Mutex::new(plays.into()), prompts: Mutex::default() }
}

/// Returns a reply with text and, if given, a call of the tool with this input.
fn reply_with(text: &str, input: Option<Value>) -> FakeReply {
    let mut content = vec![AssistantContent::Text { text: text.to_owned() }];
    content.extend(input.map(|input| {
        AssistantContent::Call(ToolCall { id: CallId::new("a"), name: TOOL_NAME.to_owned(), input })
    }));
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    Box::new(move |_| {
        Ok(ModelResponse { content: content.clone(), finish_reason: FinishReason::EndTurn, usage })
    })
}

/// A project with a conversation whose session this process owns.
struct TestProject {
    root: StateDir,
    session: SessionId,
    transcript: Transcript,
    directory: TempDir,
}

impl TestProject {
    /// Creates a project with a conversation in which the model has ended its turn.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("create a temporary directory");
        let root =
            StateDir::open(&directory.path().join("state")).expect("open the state directory");
        let session: SessionId = "talk".parse().expect("valid session id");
        let own = i32::try_from(std::process::id()).expect("the PID fits in i32");
        session::open(&root, &session, own).expect("open the session");
        let cwd = directory.path().join("project");
        std::fs::create_dir(&cwd).expect("create the directory");
        let opened =
            TranscriptHeader { cwd: cwd.display().to_string(), model: "script:x".to_owned() };
        let mut transcript =
            Transcript::create(&root, &session, opened).expect("create the transcript");
        for entry in
            [prompt("build it with ninja"), Entry::RequestSent, assistant_entry("It is built.")]
        {
            transcript.add_entry(&entry).expect("append the entry");
        }
        Self { root, session, transcript, directory }
    }

    fn notes(&self) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join("project/.siding/memory.md")).ok()
    }

    fn write_notes(&self, notes: &str) {
        let directory = self.directory.path().join("project/.siding");
        std::fs::create_dir_all(&directory).expect("create the directory");
        std::fs::write(directory.join("memory.md"), notes).expect("write the file");
    }

    fn consolidate(
        &self,
        model: &FakeModel,
        limits: ConsolidationLimits,
    ) -> Result<ConsolidationOutcome, ConsolidationError> {
        consolidate(&self.root, &self.session, None, model, limits)
    }
}

const LIMITS: ConsolidationLimits = ConsolidationLimits { max_tokens: 32_000, dry_run: false };

fn prompt(text: &str) -> Entry {
    Entry::Input { content: vec![UserContent::Prompt { text: text.to_owned() }] }
}

fn assistant_entry(text: &str) -> Entry {
    let content = vec![AssistantContent::Text { text: text.to_owned() }];
    Entry::Response { content, stop: FinishReason::EndTurn, usage: Usage::default() }
}

#[test]
fn a_conversation_is_consolidated_into_notes() {
    let place = TestProject::new();
    let model =
        fake_model(vec![reply_with("Noted.", Some(json!({ "content": "- built with ninja\n" })))]);
    let dreamt = place.consolidate(&model, LIMITS).expect("the consolidation succeeds");
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    let diff = "@@ -0,0 +1 @@\n+- built with ninja\n".to_owned();
    assert_eq!(dreamt, ConsolidationOutcome::Changed { diff, usage });
    assert_eq!(place.notes().as_deref(), Some("- built with ninja\n"));
    let asked = model.prompts.lock().expect("the lock is not poisoned").concat();
    assert!(asked.contains("no notes yet") && asked.contains("user: build it with ninja\n"));
}

#[test]
fn an_invalid_edit_is_reported_to_the_model_and_retried() {
    let place = TestProject::new();
    place.write_notes("- built with make\n");
    let edit = |old: &str| json!({ "edits": [{ "old": old, "new": "ninja" }] });
    let model = fake_model(vec![
        reply_with("", Some(edit("cmake"))),
        reply_with("", Some(json!({ "what": 1 }))),
        reply_with("", Some(edit("make"))),
    ]);
    let dreamt = place.consolidate(&model, LIMITS).expect("the consolidation succeeds");
    assert!(
        matches!(dreamt, ConsolidationOutcome::Changed { usage, .. } if usage.input == 300),
        "{dreamt:?}"
    );
    assert_eq!(place.notes().as_deref(), Some("- built with ninja\n"));
    let asked = model.prompts.lock().expect("the lock is not poisoned").clone();
    assert!(asked[0].contains("<notes>\n- built with make\n</notes>"), "{asked:?}");
    assert!(asked[1].contains("`old` does not occur"), "{asked:?}");
    assert!(asked[2].contains("invalid arguments: unknown field `what`"), "{asked:?}");
}

#[test]
fn notes_stay_unchanged_in_a_dry_run_or_without_edits() {
    let place = TestProject::new();
    place.write_notes("- kept\n");
    let dry = ConsolidationLimits { dry_run: true, ..LIMITS };
    let model = fake_model(vec![reply_with("", Some(json!({ "content": "- new\n" })))]);
    let dreamt = place.consolidate(&model, dry).expect("the consolidation succeeds");
    assert!(
        matches!(&dreamt, ConsolidationOutcome::Changed { diff, .. } if diff.contains("+- new"))
    );
    let nothing = fake_model(vec![reply_with("All is noted.", None)]);
    let dreamt = place.consolidate(&nothing, LIMITS).expect("the consolidation succeeds");
    assert!(
        matches!(&dreamt, ConsolidationOutcome::Unchanged { response, .. } if response == "All is noted.")
    );
    assert_eq!(place.notes().as_deref(), Some("- kept\n"));
}

#[test]
fn a_secret_is_never_written_to_the_notes() {
    let place = TestProject::new();
    let secret = || reply_with("", Some(json!({ "content": "DB_PASSWORD=hunter2222\n" })));
    let error = place
        .consolidate(&fake_model(vec![secret(), secret(), secret()]), LIMITS)
        .expect_err("the rewrite is invalid");
    assert!(error.to_string().contains("looks like a password"), "{error}");
    assert_eq!(place.notes(), None);
}

#[test]
fn consolidation_is_refused_during_a_turn() {
    let mut place = TestProject::new();
    place.transcript.add_entry(&prompt("go on")).expect("append the entry");
    let error = place.consolidate(&fake_model(Vec::new()), LIMITS).expect_err("a turn is open");
    assert!(matches!(error, ConsolidationError::Busy { .. }), "{error}");
    // No process runs the open turn of a closed session, so there is nothing to disturb.
    session::close(&place.root, &place.session).expect("close the session");
    let model = fake_model(vec![reply_with("Nothing.", None)]);
    assert!(place.consolidate(&model, LIMITS).is_ok());
}

/// An interrupted consolidation must not change the notes, whether the request is canceled or its
/// answer arrives before the cancellation.
#[test]
fn a_new_turn_interrupts_consolidation() {
    for waits in [true, false] {
        let place = TestProject::new();
        let TestProject { root, session, mut transcript, directory } = place;
        let call = json!({ "content": "- x\n" });
        let mut answer = reply_with("", Some(call));
        let play: FakeReply = Box::new(move |asking| {
            transcript.add_entry(&prompt("go on")).expect("append the entry");
            while waits && !asking.cancel.is_set() {
                thread::sleep(Duration::from_millis(5));
            }
            if waits { Err(ProviderError::Cancelled) } else { answer(asking) }
        });
        let error = consolidate(&root, &session, None, &fake_model(vec![play]), LIMITS)
            .expect_err("a turn is open");
        assert!(matches!(error, ConsolidationError::Busy { .. }), "{error}");
        assert!(!notes_exist(directory.path()));
    }
}

fn notes_exist(directory: &Path) -> bool {
    directory.join("project/.siding/memory.md").exists()
}

#[test]
fn the_token_budget_is_enforced() {
    let place = TestProject::new();
    let few = ConsolidationLimits { max_tokens: 100, dry_run: false };
    let error = place
        .consolidate(&fake_model(Vec::new()), few)
        .expect_err("the budget is too small")
        .to_string();
    assert!(error.contains("--max-tokens"), "{error}");
    let play: FakeReply = Box::new(|asking| {
        assert!(asking.max_tokens <= 4_000);
        let usage = Usage { input: 3_000, output: 1_000, ..Usage::default() };
        let input = json!({});
        let call = ToolCall { id: CallId::new("a"), name: TOOL_NAME.to_owned(), input };
        Ok(ModelResponse {
            content: vec![AssistantContent::Call(call)],
            finish_reason: FinishReason::ToolUse,
            usage,
        })
    });
    let terms = ConsolidationLimits { max_tokens: 4_000, dry_run: false };
    let error =
        place.consolidate(&fake_model(vec![play]), terms).expect_err("the budget is exhausted");
    assert!(
        matches!(error, ConsolidationError::BudgetExhausted { spent: 4_000, most: 4_000 }),
        "{error}"
    );
}
