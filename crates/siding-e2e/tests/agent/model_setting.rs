//! The variable `SIDING_MODEL`, the default of `--model`.

use super::sandbox;

#[test]
fn model_variable_applies_to_agent_dream_and_workflow() {
    let sandbox = sandbox();
    let file = sandbox.path("model.toml");
    std::fs::write(&file, "[[answer]]\ntext = \"It is me.\"\n").expect("test file");
    let model = format!("script:{}", file.display());
    let call = |args: &[&str]| {
        sandbox
            .siding(args)
            .env("SIDING_MODEL", &model)
            .run()
            .expect_code(0)
            .stdout_text()
            .to_owned()
    };
    assert_eq!(call(&["agent", "-p", "who is it?"]), "It is me.\n");
    let report = call(&["agent", "-p", "who is it?", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let session = report["session_id"].as_str().expect("an id");
    let notes = call(&["dream", "--session", session]);
    assert!(notes.starts_with("nothing to change: It is me.\n"), "{notes}");
    let flow = "[[step]]\nid = \"a\"\nprompt = \"who is it?\"\n";
    std::fs::write(sandbox.path("flow.toml"), flow).expect("test file");
    let _workflow_report = call(&["workflow", "run", "flow.toml"]);
}
