//! What a workflow consists of, checked: every step exists once, needs only steps that are there, and
//! can come to its turn.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siding_model::text::one_line;

use super::condition::Condition;
use super::file::Mistake;
use super::matrix::{self, Combination};
use super::raw::{RawFile, RawStep};
use super::{graph, values};

/// Most steps, after every matrix was expanded: more cannot be looked at.
pub(super) const STEPS_MAX: usize = 1_000;
/// Columns of a list of steps in an error.
const LIST: usize = 300;

/// What a failed step means for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// What runs is stopped and nothing else begins, but for steps that are there for failures.
    #[default]
    Stop,
    /// Whatever does not need it goes on.
    Continue,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A text for the shell.
    Command(String),
    /// A prompt for an agent.
    Prompt {
        /// The prompt.
        text: String,
        /// The model; the agent's default where none is named.
        model: Option<String>,
    },
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its id, with the values of its matrix: `test[os=a,py=3]`.
    pub id: String,
    /// What it does.
    pub work: Work,
    /// Places of the steps that must be over before, each once, in their order.
    pub needs: Vec<usize>,
    /// When it runs, once they are.
    pub condition: Condition,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Attempts beside the first.
    pub retries: u32,
    /// The directory, relative to that of the workflow.
    pub cwd: Option<String>,
    /// Variables that are set for it.
    pub env: Vec<(String, String)>,
    /// How many steps are before it on the longest way to it.
    pub layer: usize,
}

/// A workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// A name for people.
    pub name: Option<String>,
    /// What a failed step means for the others.
    pub on_failure: OnFailure,
    /// How many steps may run at once.
    pub max_parallel: Option<usize>,
    /// How long all of it may take.
    pub timeout: Option<Duration>,
    steps: Vec<Step>,
    /// Places of the steps, each behind those that it needs.
    order: Vec<usize>,
}

/// What each name stands for: places of steps that follow each other.
type Names = HashMap<String, Range<usize>>;

/// A step before the names that it uses are looked up.
struct Draft {
    offset: usize,
    step: Step,
    needs: Vec<String>,
    condition: Option<String>,
}

impl Plan {
    /// Returns the steps, as they stand in the file.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the places of the steps, each behind those that it needs.
    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the place of a step.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }

    pub(super) fn of(file: RawFile) -> Result<Self, Mistake> {
        let whole = |what: String| Mistake { offset: 0, what };
        let timeout =
            file.timeout.as_deref().map(|text| values::time(text).map_err(whole)).transpose()?;
        let max_parallel =
            file.max_parallel.map(|number| values::parallel(number).map_err(whole)).transpose()?;
        values::check_env(&file.env).map_err(whole)?;
        let (drafts, names) = drafts(&file)?;
        if drafts.is_empty() {
            return Err(whole("it has no step: begin one with `[[step]]`".to_owned()));
        }
        let mut steps =
            drafts.iter().map(|draft| resolve(draft, &names)).collect::<Result<Vec<_>, _>>()?;
        let order = graph::order(&steps).map_err(|at| Mistake {
            offset: drafts[at[0]].offset,
            what: graph::circle(&steps, &at),
        })?;
        for &at in &order {
            let before = steps[at].needs.iter().map(|need| steps[*need].layer + 1).max();
            steps[at].layer = before.unwrap_or(0);
        }
        let (name, on_failure) = (file.name, file.on_failure);
        Ok(Self { name, on_failure, max_parallel, timeout, steps, order })
    }
}

/// Expands every matrix. Returns the steps and what each name stands for.
fn drafts(file: &RawFile) -> Result<(Vec<Draft>, Names), Mistake> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut names = Names::new();
    for raw in &file.step {
        let (offset, raw) = (raw.span().start, raw.get_ref());
        let wrong = |what: String| Mistake::of_step(offset, &raw.id, &what);
        values::check_id(&raw.id).map_err(|what| Mistake { offset, what })?;
        let from = drafts.len();
        let left = STEPS_MAX.saturating_sub(from);
        for combination in matrix::expand(&raw.matrix, left.max(1)).map_err(wrong)? {
            let step = step(file, raw, &combination).map_err(wrong)?;
            if drafts.len() >= STEPS_MAX {
                return Err(wrong(format!("a workflow has at most {STEPS_MAX} steps")));
            }
            let (needs, condition) = (raw.needs.clone(), raw.condition.clone());
            drafts.push(Draft { offset, step, needs, condition });
        }
        let range = from..drafts.len();
        for at in range.clone() {
            let id = drafts[at].step.id.clone();
            if id != raw.id && names.insert(id.clone(), at..at + 1).is_some() {
                return Err(wrong(format!("`{id}` is there twice")));
            }
        }
        if names.insert(raw.id.clone(), range).is_some() {
            return Err(wrong("another step has this id; each has its own".to_owned()));
        }
    }
    Ok((drafts, names))
}

/// Makes one step of what was written, but for the steps that it names.
fn step(file: &RawFile, raw: &RawStep, combination: &Combination) -> Result<Step, String> {
    let work = match (&raw.run, &raw.prompt) {
        (Some(command), None) if raw.model.is_none() => {
            values::not_empty("run", command)?;
            combination.keep_out_of(command)?;
            Work::Command(command.clone())
        }
        (Some(_), None) => return Err("`model` is for a step with `prompt`".to_owned()),
        (None, Some(text)) => {
            values::not_empty("prompt", text)?;
            let model = raw.model.as_ref().or(file.model.as_ref());
            Work::Prompt { text: combination.fill("prompt", text)?, model: model.cloned() }
        }
        (None, None) => {
            return Err(
                "it does nothing: write `run`, a command, or `prompt`, for an agent".to_owned()
            );
        }
        (Some(_), Some(_)) => return Err("write `run` or `prompt`, not both".to_owned()),
    };
    values::check_env(&raw.env)?;
    // The step's own win over those of all, and none of them over the values of the matrix.
    let mut env = file.env.clone();
    env.extend(raw.env.clone());
    let env = env.into_iter().map(|(name, value)| {
        let value = combination.fill(&format!("env.{name}"), &value)?;
        Ok::<_, String>((name, value))
    });
    let env = env.chain(combination.variables().map(Ok)).collect::<Result<_, String>>()?;
    Ok(Step {
        id: combination.id(&raw.id),
        work,
        needs: Vec::new(),
        condition: Condition::default(),
        timeout: raw.timeout.as_deref().map(values::time).transpose()?,
        retries: values::retries(raw.retries)?,
        cwd: raw.cwd.as_ref().map(|cwd| combination.fill("cwd", cwd)).transpose()?,
        env,
        layer: 0,
    })
}

/// Finds the steps that a step names.
fn resolve(draft: &Draft, names: &Names) -> Result<Step, Mistake> {
    let mut step = draft.step.clone();
    let id = step.id.clone();
    let wrong = |what: String| Mistake::of_step(draft.offset, &id, &what);
    for need in &draft.needs {
        let Some(found) = names.get(need) else {
            let mut known: Vec<&str> = names.keys().map(String::as_str).collect();
            known.sort_unstable();
            let known = one_line(&known.join(", "), LIST);
            return Err(wrong(format!(
                "it needs `{need}`, and there is no such step; there are {known}"
            )));
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
        step.condition = Condition::parse(text, find).map_err(wrong)?;
        if step.needs.is_empty() && step.condition.wants_needs() {
            return Err(wrong("`if`: it needs no step, so none of those can fail".to_owned()));
        }
    }
    Ok(step)
}
