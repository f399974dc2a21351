//! A validated workflow: ids are unique, every step that `needs` names exists, and there are no
//! cycles.

pub(crate) mod condition;
pub(crate) mod file;
pub(crate) mod graph;
pub(crate) mod matrix;
pub(crate) mod raw;
pub(crate) mod values;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siding_model::text::one_line;
use toml::Spanned;

use self::condition::Condition;
use self::file::FileMistake;
use self::matrix::Combination;
use self::raw::{RawFile, RawStep};

/// Maximum number of steps after the expansion of matrices. A person could not review more.
pub(super) const MAX_STEPS: usize = 1_000;
/// Maximum width, in columns, of a list of steps in an error message.
const STEP_LIST_COLUMNS: usize = 300;

/// The effect of a failed step on the other steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Running steps are stopped, and no further steps start. Failure handlers are exempt.
    #[default]
    Stop,
    /// Steps that do not need the failed step continue.
    Continue,
}

/// The command or prompt that a step runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepAction {
    /// A command that the configured shell runs.
    Command(String),
    /// A prompt that siding's own agent receives.
    Prompt {
        /// Text of the prompt, with the values of the matrix inserted.
        text: String,
        /// Name of the model; `None` selects the agent's default model.
        model: Option<String>,
    },
}

/// A step of a plan. A step of the file that has a matrix becomes one `WorkflowStep` for each
/// combination of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowStep {
    /// The id with the values of the combination, such as `test[os=a,py=3]`.
    pub id: String,
    /// Index of the step in the file, which all combinations of a matrix share.
    pub file_step: usize,
    /// The command or prompt of each attempt.
    pub action: StepAction,
    /// The sorted, unique indexes of the steps that must finish before this one.
    pub needs: Vec<usize>,
    /// The condition under which the step runs once its needs are finished.
    pub condition: Condition,
    /// The time limit of an attempt; `None` uses the setting `max_elapsed`.
    pub timeout: Option<Duration>,
    /// Maximum number of retries after failed attempts; stopped and lost attempts are not counted.
    pub retries: u32,
    /// The working directory, relative to the workflow's; `None` uses the workflow's directory.
    pub cwd: Option<String>,
    /// The executor of the settings that runs the command; `None` uses the default one. A prompt
    /// always runs on this machine.
    pub on: Option<String>,
    /// Environment variables added to the inherited ones, including those of the matrix.
    pub env: Vec<(String, String)>,
    /// Number of steps in the longest chain of needs before this step.
    pub layer: usize,
}

/// The validated content of a workflow's file, with all matrices expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The name shown in lists; if `None`, lists show the name of the file.
    pub name: Option<String>,
    /// The effect of a failed step on the other steps.
    pub on_failure: OnFailure,
    /// Maximum number of steps that run concurrently; `None` if the file does not set it.
    pub max_parallel: Option<usize>,
    /// The time limit of the whole run; `None` uses the cap, `max_elapsed_hard_cap`.
    pub timeout: Option<Duration>,
    steps: Vec<WorkflowStep>,
    /// The indexes of the steps, each after its needs.
    order: Vec<usize>,
}

/// Maps each name to the indexes of its steps. The name of a step with a matrix denotes all its
/// combinations.
type StepNames = HashMap<String, Range<usize>>;

/// A step whose needs and condition have not been resolved.
struct StepDraft {
    /// Byte offset of the step in the file, for messages about mistakes.
    offset: usize,
    step: WorkflowStep,
    needs: Vec<Spanned<String>>,
    condition: Option<Spanned<String>>,
}

impl StepDraft {
    /// Returns the byte offset of the step's first need, or of the step if there are no needs.
    fn needs_offset(&self) -> usize {
        self.needs.first().map_or(self.offset, |need| need.span().start)
    }
}

impl Plan {
    /// Returns the steps in the order of the file.
    #[must_use]
    pub fn steps(&self) -> &[WorkflowStep] {
        &self.steps
    }

    /// Returns the indexes of the steps, each after its needs.
    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the index of a step; `None` if no step has the id.
    pub(super) fn step_index(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }

    fn from_raw(file: RawFile) -> Result<Self, FileMistake> {
        let timeout = parse_optional(file.timeout.as_ref(), |text| values::parse_timeout(text))?;
        let max_parallel = parse_optional(file.max_parallel.as_ref(), |number| {
            values::parse_max_parallel(*number)
        })?;
        values::check_env(&file.env)?;
        let (drafts, names) = expand_steps(&file)?;
        if drafts.is_empty() {
            let what = "it has no step: start one with `[[step]]`".to_owned();
            return Err(FileMistake { offset: 0, what });
        }
        let mut steps = drafts
            .iter()
            .map(|draft| resolve_needs(draft, &names))
            .collect::<Result<Vec<_>, _>>()?;
        let order = graph::topological_order(&steps).map_err(|at| FileMistake {
            offset: drafts[at[0]].needs_offset(),
            what: graph::describe_cycle(&steps, &at),
        })?;
        for &at in &order {
            let before = steps[at].needs.iter().map(|need| steps[*need].layer + 1).max();
            steps[at].layer = before.unwrap_or(0);
        }
        let (name, on_failure) = (file.name, file.on_failure);
        Ok(Self { name, on_failure, max_parallel, timeout, steps, order })
    }
}

/// Expands all matrices. Returns the steps, and the range of steps that each name denotes.
fn expand_steps(file: &RawFile) -> Result<(Vec<StepDraft>, StepNames), FileMistake> {
    let mut drafts: Vec<StepDraft> = Vec::new();
    let mut names = StepNames::new();
    for (file_step, raw) in file.step.iter().enumerate() {
        let (offset, raw) = (raw.span().start, raw.get_ref());
        let id = raw.id.get_ref();
        let wrong = |what: String| FileMistake::at_value(&raw.id)(what).in_step(id);
        values::check_id(id).map_err(FileMistake::at_value(&raw.id))?;
        let from = drafts.len();
        let left = MAX_STEPS.saturating_sub(from);
        let combinations = matrix::expand(&raw.matrix, left.max(1));
        for combination in combinations.map_err(|mistake| mistake.in_step(id))? {
            let step = build_step(file, (offset, raw), &combination);
            let step = step.map_err(|mistake| mistake.in_step(id))?;
            if drafts.len() >= MAX_STEPS {
                return Err(wrong(format!("a workflow has at most {MAX_STEPS} steps")));
            }
            let (needs, condition) = (raw.needs.clone(), raw.condition.clone());
            let step = WorkflowStep { file_step, ..step };
            drafts.push(StepDraft { offset, step, needs, condition });
        }
        let range = from..drafts.len();
        for at in range.clone() {
            let expanded = drafts[at].step.id.clone();
            if expanded != *id && names.insert(expanded.clone(), at..at + 1).is_some() {
                return Err(wrong(format!("the id `{expanded}` occurs twice")));
            }
        }
        if names.insert(id.clone(), range).is_some() {
            return Err(wrong("another step has this id; ids must be unique".to_owned()));
        }
    }
    Ok((drafts, names))
}

/// Builds a step without its needs, its condition and its index in the file. `offset` is the byte
/// offset of the step in the file.
fn build_step(
    file: &RawFile,
    (offset, raw): (usize, &RawStep),
    combination: &Combination,
) -> Result<WorkflowStep, FileMistake> {
    let work = parse_action(file, (offset, raw), combination)?;
    values::check_env(&raw.env)?;
    // The step's own variables override those of the file, and the variables of the matrix override
    // both.
    let mut env = file.env.clone();
    env.extend(raw.env.clone());
    let env = env.into_iter().map(|(name, value)| {
        let filled = combination.substitute(&format!("env.{name}"), value.get_ref());
        Ok::<_, FileMistake>((name, filled.map_err(FileMistake::at_value(&value))?))
    });
    let env = env.chain(combination.variables().map(Ok)).collect::<Result<_, FileMistake>>()?;
    Ok(WorkflowStep {
        id: combination.step_id(raw.id.get_ref()),
        file_step: 0,
        action: work,
        needs: Vec::new(),
        condition: Condition::default(),
        timeout: parse_optional(raw.timeout.as_ref(), |text| values::parse_timeout(text))?,
        retries: parse_optional(raw.retries.as_ref(), |number| values::parse_retries(*number))?
            .unwrap_or(0),
        cwd: parse_optional(raw.cwd.as_ref(), |cwd| combination.substitute("cwd", cwd))?,
        on: parse_optional(raw.on.as_ref(), |name| values::parse_executor(name))?,
        env,
        layer: 0,
    })
}

/// Parses `run` or `prompt` of a step, exactly one of which must be present.
fn parse_action(
    file: &RawFile,
    (offset, raw): (usize, &RawStep),
    combination: &Combination,
) -> Result<StepAction, FileMistake> {
    match (&raw.run, &raw.prompt) {
        (Some(command), None) => {
            if let Some(model) = &raw.model {
                return Err(FileMistake::at_value(model)("`model` requires `prompt`".to_owned()));
            }
            let (wrong, command) = (FileMistake::at_value(command), command.get_ref());
            values::check_not_empty("run", command).map_err(&wrong)?;
            combination.reject_placeholders(command).map_err(&wrong)?;
            Ok(StepAction::Command(command.clone()))
        }
        (None, Some(text)) => {
            if let Some(on) = &raw.on {
                return Err(FileMistake::at_value(on)("`on` requires `run`".to_owned()));
            }
            let (wrong, text) = (FileMistake::at_value(text), text.get_ref());
            values::check_not_empty("prompt", text).map_err(&wrong)?;
            let model = raw.model.as_ref().map(Spanned::get_ref).or(file.model.as_ref());
            let text = combination.substitute("prompt", text).map_err(&wrong)?;
            Ok(StepAction::Prompt { text, model: model.cloned() })
        }
        (None, None) => {
            let what =
                "it runs nothing: set `run` to a command, or `prompt` to a text for an agent";
            Err(FileMistake { offset, what: what.to_owned() })
        }
        (Some(run), Some(prompt)) => {
            // The mistake is reported at the value that comes second in the file.
            let second = if run.span().start > prompt.span().start { run } else { prompt };
            Err(FileMistake::at_value(second)("write `run` or `prompt`, not both".to_owned()))
        }
    }
}

/// Parses an optional value. A mistake is reported at the position of the value.
fn parse_optional<T, V>(
    value: Option<&Spanned<T>>,
    parse: impl Fn(&T) -> Result<V, String>,
) -> Result<Option<V>, FileMistake> {
    value.map(|value| parse(value.get_ref()).map_err(FileMistake::at_value(value))).transpose()
}

/// Resolves the needs and the condition of a step.
fn resolve_needs(draft: &StepDraft, names: &StepNames) -> Result<WorkflowStep, FileMistake> {
    let mut step = draft.step.clone();
    let id = step.id.clone();
    let wrong = |value, what: String| FileMistake::at_value::<String>(value)(what).in_step(&id);
    for need in &draft.needs {
        let Some(found) = names.get(need.get_ref()) else {
            let mut known: Vec<&str> = names.keys().map(String::as_str).collect();
            known.sort_unstable();
            let known = one_line(&known.join(", "), STEP_LIST_COLUMNS);
            let what = format!(
                "it needs `{}`, and there is no such step; the steps are {known}",
                need.get_ref()
            );
            return Err(wrong(need, what));
        };
        step.needs.extend(found.clone());
    }
    step.needs.sort_unstable();
    step.needs.dedup();
    if let Some(text) = &draft.condition {
        let find = |name: &str| {
            let found: Vec<usize> = names.get(name)?.clone().collect();
            found.iter().all(|at| step.needs.contains(at)).then_some(found)
        };
        let condition = Condition::parse(text.get_ref(), find);
        step.condition = condition.map_err(|what| wrong(text, what))?;
        if step.needs.is_empty() && step.condition.requires_needs() {
            let what = "`if`: it has no needs, so none can fail".to_owned();
            return Err(wrong(text, what));
        }
    }
    Ok(step)
}
