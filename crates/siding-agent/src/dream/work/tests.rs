//! Dreams of a model that is played here.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::message::{CallId, Stop};
use crate::provider::{Answer, Part};

/// What is done in place of an answer.
type Play = Box<dyn FnMut(&Asking<'_>) -> Result<Answer, AskError> + Send>;

/// A model that does what it is told, and remembers what it was asked.
struct Played {
    plays: Mutex<VecDeque<Play>>,
    asked: Mutex<Vec<String>>,
}

impl Provider for Played {
    fn ask(
        &self,
        asking: &Asking<'_>,
        _listen: &mut dyn FnMut(Part<'_>),
    ) -> Result<Answer, AskError> {
        let last = match asking.messages.last().expect("there is one") {
            Message::User { results, told } => {
                let results = results.iter().map(|result| result.text.as_str());
                results.chain(told.iter().map(Told::text)).collect::<Vec<_>>().join("\n")
            }
            Message::Assistant(_) => panic!("the model has the last word"),
        };
        self.asked.lock().expect("nobody panics").push(last);
        let play = self.plays.lock().expect("nobody panics").pop_front();
        play.expect("it is not asked more often")(asking)
    }
}

fn played(plays: Vec<Play>) -> Played {
    Played { plays: Mutex::new(plays.into()), asked: Mutex::default() }
}

/// An answer: words, and a call of the tool, if there is one.
fn answer(text: &str, input: Option<Value>) -> Play {
    let mut said = vec![Said::Text { text: text.to_owned() }];
    said.extend(
        input.map(|input| {
            Said::Call(ToolCall { id: CallId::new("a"), name: TOOL.to_owned(), input })
        }),
    );
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    Box::new(move |_| Ok(Answer { said: said.clone(), stop: Stop::EndTurn, usage }))
}

/// A conversation about a project, which this test's process holds.
struct Place {
    root: StateDir,
    session: SessionId,
    transcript: Transcript,
    directory: TempDir,
}

impl Place {
    /// Makes one whose model has ended its turn.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&directory.path().join("state")).expect("a state directory");
        let session: SessionId = "talk".parse().expect("a name");
        let own = i32::try_from(std::process::id()).expect("a number");
        session::open(&root, &session, own).expect("opened");
        let cwd = directory.path().join("project");
        std::fs::create_dir(&cwd).expect("made");
        let opened = Opened { cwd: cwd.display().to_string(), model: "script:x".to_owned() };
        let mut transcript = Transcript::create(&root, &session, opened).expect("made");
        for entry in [prompt("build it with ninja"), Entry::Asked, said("It is built.")] {
            transcript.add(&entry).expect("added");
        }
        Self { root, session, transcript, directory }
    }

    fn notes(&self) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join("project/.siding/memory.md")).ok()
    }

    fn write(&self, notes: &str) {
        let directory = self.directory.path().join("project/.siding");
        std::fs::create_dir_all(&directory).expect("made");
        std::fs::write(directory.join("memory.md"), notes).expect("written");
    }

    fn dream(&self, model: &Played, terms: Terms) -> Result<Dreamt, DreamError> {
        dream(&self.root, &self.session, None, model, terms)
    }
}

const TERMS: Terms = Terms { max_tokens: 32_000, dry_run: false };

fn prompt(text: &str) -> Entry {
    Entry::Told { told: vec![Told::Prompt { text: text.to_owned() }] }
}

fn said(text: &str) -> Entry {
    let said = vec![Said::Text { text: text.to_owned() }];
    Entry::Answered { said, stop: Stop::EndTurn, usage: Usage::default() }
}

#[test]
fn what_was_said_becomes_notes() {
    let place = Place::new();
    let model = played(vec![answer("Noted.", Some(json!({ "content": "- built with ninja\n" })))]);
    let dreamt = place.dream(&model, TERMS).expect("dreamt");
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    let diff = "@@ -0,0 +1 @@\n+- built with ninja\n".to_owned();
    assert_eq!(dreamt, Dreamt::Changed { diff, usage });
    assert_eq!(place.notes().as_deref(), Some("- built with ninja\n"));
    let asked = model.asked.lock().expect("nobody panics").concat();
    assert!(asked.contains("no notes yet") && asked.contains("user: build it with ninja\n"));
}

#[test]
fn an_edit_that_does_not_fit_is_told_and_made_again() {
    let place = Place::new();
    place.write("- built with make\n");
    let edit = |old: &str| json!({ "edits": [{ "old": old, "new": "ninja" }] });
    let model = played(vec![
        answer("", Some(edit("cmake"))),
        answer("", Some(json!({ "what": 1 }))),
        answer("", Some(edit("make"))),
    ]);
    let dreamt = place.dream(&model, TERMS).expect("dreamt");
    assert!(matches!(dreamt, Dreamt::Changed { usage, .. } if usage.input == 300), "{dreamt:?}");
    assert_eq!(place.notes().as_deref(), Some("- built with ninja\n"));
    let asked = model.asked.lock().expect("nobody panics").clone();
    assert!(asked[0].contains("<notes>\n- built with make\n</notes>"), "{asked:?}");
    assert!(asked[1].contains("`old` is not there"), "{asked:?}");
    assert!(asked[2].contains("cannot be read: unknown field `what`"), "{asked:?}");
}

#[test]
fn notes_are_left_alone_where_nothing_is_to_be_changed() {
    let place = Place::new();
    place.write("- kept\n");
    let dry = Terms { dry_run: true, ..TERMS };
    let model = played(vec![answer("", Some(json!({ "content": "- new\n" })))]);
    let dreamt = place.dream(&model, dry).expect("dreamt");
    assert!(matches!(&dreamt, Dreamt::Changed { diff, .. } if diff.contains("+- new")));
    let nothing = played(vec![answer("All is noted.", None)]);
    let dreamt = place.dream(&nothing, TERMS).expect("dreamt");
    assert!(matches!(&dreamt, Dreamt::Nothing { said, .. } if said == "All is noted."));
    assert_eq!(place.notes().as_deref(), Some("- kept\n"));
}

#[test]
fn a_secret_is_not_written_however_often_it_is_wanted() {
    let place = Place::new();
    let secret = || answer("", Some(json!({ "content": "DB_PASSWORD=hunter2222\n" })));
    let error = place.dream(&played(vec![secret(), secret(), secret()]), TERMS).expect_err("unfit");
    assert!(error.to_string().contains("looks like a password"), "{error}");
    assert_eq!(place.notes(), None);
}

#[test]
fn nobody_dreams_during_a_turn() {
    let mut place = Place::new();
    place.transcript.add(&prompt("go on")).expect("added");
    let error = place.dream(&played(Vec::new()), TERMS).expect_err("busy");
    assert!(matches!(error, DreamError::Busy { .. }), "{error}");
    // Of a conversation that was left in the middle of a turn nobody is disturbed.
    session::close(&place.root, &place.session).expect("closed");
    let model = played(vec![answer("Nothing.", None)]);
    assert!(place.dream(&model, TERMS).is_ok());
}

/// Also when the model answers all the same, at once or only after it was given up.
#[test]
fn a_turn_that_begins_ends_a_dream() {
    for waits in [true, false] {
        let place = Place::new();
        let Place { root, session, mut transcript, directory } = place;
        let call = json!({ "content": "- x\n" });
        let mut answer = answer("", Some(call));
        let play: Play = Box::new(move |asking| {
            transcript.add(&prompt("go on")).expect("added");
            while waits && !asking.cancel.is_set() {
                thread::sleep(Duration::from_millis(5));
            }
            if waits { Err(AskError::Cancelled) } else { answer(asking) }
        });
        let error = dream(&root, &session, None, &played(vec![play]), TERMS).expect_err("busy");
        assert!(matches!(error, DreamError::Busy { .. }), "{error}");
        assert!(!exists(directory.path()));
    }
}

fn exists(directory: &Path) -> bool {
    directory.join("project/.siding/memory.md").exists()
}

#[test]
fn its_tokens_are_bounded() {
    let place = Place::new();
    let few = Terms { max_tokens: 100, dry_run: false };
    let error = place.dream(&played(Vec::new()), few).expect_err("too few").to_string();
    assert!(error.contains("--max-tokens"), "{error}");
    let play: Play = Box::new(|asking| {
        assert!(asking.max_tokens <= 4_000);
        let usage = Usage { input: 3_000, output: 1_000, ..Usage::default() };
        let input = json!({});
        let call = ToolCall { id: CallId::new("a"), name: TOOL.to_owned(), input };
        Ok(Answer { said: vec![Said::Call(call)], stop: Stop::ToolUse, usage })
    });
    let terms = Terms { max_tokens: 4_000, dry_run: false };
    let error = place.dream(&played(vec![play]), terms).expect_err("used up");
    assert!(matches!(error, DreamError::Spent { spent: 4_000, most: 4_000 }), "{error}");
}
