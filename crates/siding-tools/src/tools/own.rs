//! Tasks that are this very program at other work, such as a subagent.

use siding_core::launch::IdleShim;
use siding_core::run::request::{self, TaskRequest};
use siding_core::run::{self, Duplicates, LaunchEnv, LaunchResult, RunError};
use siding_core::settings;
use siding_model::id::{TaskId, TaskKind};
use siding_model::net::NetPolicy;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::spec::StdinMode;

use super::run::{SETTLE, answered, followed, sources};
use crate::answer::{Answer, Refusal};
use crate::caller::{Caller, bearable};
use crate::host::{Host, PROGRAM};
use crate::sleep::block;

/// A task that is this program.
#[derive(Debug)]
pub struct Own {
    /// What kind of task it is.
    pub kind: TaskKind,
    /// A name for people.
    pub name: String,
    /// What it reads.
    pub stdin: StdinMode,
    /// Whether nothing but its start is waited for.
    pub background: bool,
    /// Seconds to wait before it goes on in the background.
    pub budget: Option<f64>,
    /// Deadline in seconds: how long it may live.
    pub timeout: Option<f64>,
}

/// Begins one in this process's directory, and waits for it as `run` does for a command. `prepare` is given
/// its id before there is anything of it, and returns the program's arguments; whatever else it returns is
/// kept until the task is on record.
///
/// # Errors
///
/// [`Refusal`]; nothing runs then.
pub async fn begin<C: Caller, P>(
    host: &Host,
    call: &mut C,
    own: Own,
    prepare: impl FnOnce(TaskId) -> Result<(Vec<String>, P), Refusal>,
) -> Result<Answer, Refusal> {
    let Own { kind, name, stdin, background, budget, timeout } = own;
    let (spec, link, budget, output_max) = block(|| {
        let settings = settings::load(&sources(budget, timeout)?)?;
        if background && !settings.background_tasks {
            return Err(Refusal::Arguments(
                "background tasks are turned off here; say `background` false".to_owned(),
            ));
        }
        let (placement, budget) = match background {
            true => (
                Placement::Background { why: BackgroundReason::Asked },
                Some(settings.settle.max(SETTLE)),
            ),
            false => {
                let wanted = host.budget(&settings, budget.is_some());
                (Placement::Foreground, bearable(call, wanted))
            }
        };
        let session_id = host.live_session().map_err(RunError::from)?;
        let id = host.root.new_id(kind).map_err(RunError::Id)?;
        let (arguments, _held) = prepare(id)?;
        if !call.begins(id) {
            return Err(Refusal::Cancelled);
        }
        let order = TaskRequest {
            kind,
            command: request::self_command(arguments),
            cwd: request::resolve_directory(None)?,
            session_id,
            name: Some(name),
            stdin,
            placement,
            deadline: settings.max_elapsed.min(settings.max_elapsed_hard_cap),
            keep: false,
            monitor: None,
            wait_for: Vec::new(),
        };
        let mut spec = request::task_spec_with_id(&host.root, &settings, order, id)?;
        // This program needs what whoever calls it has. The policy is for commands, also for those that it
        // runs.
        spec.net = NetPolicy::Unrestricted;
        // It is silent for as long as others take, and its deadline bounds that.
        spec.stall_after_ms = 0;
        let given = LaunchEnv { env: &[], env_clear: false, duplicates: Duplicates::Allowed };
        let begun = run::start_task(&host.root, &spec, &given, IdleShim::start(PROGRAM))?;
        let LaunchResult::Started(link) = begun else {
            // Not where duplicates are allowed.
            return Err(Refusal::Cancelled);
        };
        let output_max = usize::try_from(settings.output_max_bytes.0).unwrap_or(usize::MAX);
        Ok::<_, Refusal>((spec, link, budget, output_max))
    })?;
    let standing = followed(host, call, &spec, link, budget).await?;
    block(|| answered(host, standing, output_max))
}
