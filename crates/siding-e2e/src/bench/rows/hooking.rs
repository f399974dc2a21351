//! What an agent waits for at each of its calls: the hooks.

use std::fs::File;
use std::process::Command;

use anyhow::Result;

use super::Row;
use crate::bench::Bench;
use crate::bench::population;
use crate::bench::recorded::{self, Past};
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn, timed};

const NAME: &str = "hook";

pub(super) const ROW: Row =
    Row { name: NAME, about: "hooks of an agent, 1,000 ended and 10 running tasks", measure };

const ENDED: usize = 1000;
const RUNNING: usize = 10;
/// Issue: a hook answers within 20 ms.
const MOST_MS: f64 = 20.0;

const EVENT: &str = r#"{"session_id":"3b0e8c1a-6d0f-4a55-9a43-0d8f2f3b1c77","cwd":"/",
"tool_name":"Bash","tool_input":{"command":"cargo build --release 2>&1 | tail -n 20"},
"tool_response":{"stdout":"done","stderr":"","interrupted":false}}"#;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    recorded::tasks(&place, ENDED, Past::Ended)?;
    let client = place.client()?;
    let running: Vec<_> =
        (0..RUNNING).map(|_| population::add(&client)).collect::<Result<_, _>>()?;
    let event = place.dir.join("event");
    std::fs::write(&event, EVENT)?;
    let hook = |name: &'static str| -> Result<Command> {
        let mut command = place.siding(["hook", name]);
        command.stdin(File::open(&event)?).env_remove("CLAUDE_ENV_FILE");
        Ok(command)
    };
    let events = ["session-start", "pre-tool-use", "post-tool-use", "stop"];
    let mut turns: Vec<Turn<'_>> = vec![Box::new(|| {
        timed(Command::new("bash").args(["-c", "true"]).stdin(File::open("/dev/null")?))
    })];
    for name in events {
        turns.push(Box::new(move || timed(&mut hook(name)?)));
    }
    let rounds = Rounds { warm_up: 5, counted: bench.pace.of(50, 200) };
    let times = turns::take(rounds, &mut turns)?;
    for (name, times_of) in events.into_iter().zip(&times[1..]) {
        table.add(
            Line::new(NAME, format!("`siding hook {name}`"), Unit::Ms, times_of.median())
                .against("`bash -c true`", times[0].median())
                .target(Target::AtMost(MOST_MS)),
        );
    }
    drop(turns);
    for id in running {
        let _ended = timed(&mut place.siding(["stop", &id.to_string()]))?;
    }
    Ok(())
}
