//! The time that an agent waits for the hooks of siding, at a tool call and at the start and the
//! end of its work.

use std::fs::File;
use std::process::Command;

use anyhow::Result;

use super::Row;
use crate::bench::Bench;
use crate::bench::idle_tasks;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::recorded_tasks::{self, RecordedState};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "hook";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "hooks of an agent, 1,000 ended and 10 running tasks", measure };

const ENDED_TASKS: usize = 1000;
const RUNNING_TASKS: usize = 10;
/// Target of each hook: the maximum of its median run time, in milliseconds.
const MAX_HOOK_MS: f64 = 20.0;

const HOOK_EVENT: &str = r#"{"session_id":"3b0e8c1a-6d0f-4a55-9a43-0d8f2f3b1c77","cwd":"/",
"tool_name":"Bash","tool_input":{"command":"cargo build --release 2>&1 | tail -n 20"},
"tool_response":{"stdout":"done","stderr":"","interrupted":false}}"#;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    recorded_tasks::write_tasks(&place, ENDED_TASKS, RecordedState::Ended)?;
    let client = place.client()?;
    let running: Vec<_> = (0..RUNNING_TASKS)
        .map(|_| idle_tasks::start_idle_task(&client))
        .collect::<Result<_, _>>()?;
    let event = place.dir.join("event");
    std::fs::write(&event, HOOK_EVENT)?;
    let hook = |name: &'static str| -> Result<Command> {
        let mut command = place.siding_command(["hook", name]);
        command.stdin(File::open(&event)?).env_remove("CLAUDE_ENV_FILE");
        Ok(command)
    };
    let events = ["session-start", "pre-tool-use", "post-tool-use", "stop"];
    let mut turns: Vec<Contender<'_>> = vec![Box::new(|| {
        time_command(Command::new("bash").args(["-c", "true"]).stdin(File::open("/dev/null")?))
    })];
    for name in events {
        turns.push(Box::new(move || time_command(&mut hook(name)?)));
    }
    let rounds = InterleavedRounds { warm_up: 5, counted: bench.mode.pick(50, 200) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    for (name, times_of) in events.into_iter().zip(&times[1..]) {
        table.add(
            TableLine::new(ROW_NAME, format!("`siding hook {name}`"), Unit::Ms, times_of.median())
                .with_reference("`bash -c true`", times[0].median())
                .with_target(Target::AtMost(MAX_HOOK_MS)),
        );
    }
    drop(turns);
    for id in running {
        let _ended = time_command(&mut place.siding_command(["stop", &id.to_string()]))?;
    }
    Ok(())
}
