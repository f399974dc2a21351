//! The cost of tasks on a Slurm cluster, next to `sbatch --wait` and submitit, and the load that
//! their supervision puts on the cluster's controller.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::Result;

use super::Row;
use crate::bench::Bench;
use crate::bench::engine;
use crate::bench::executor_client::ExecutorClient;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, with_progress};
use crate::bench::slurm_cluster::{self, CallCounts, SlurmCluster, Submitit};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "slurm";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "tasks on a Slurm cluster, next to `sbatch --wait` and submitit",
    measure,
};

/// Numbers of tasks that are submitted together; a quick run measures only the first two.
const TASK_COUNTS: [usize; 3] = [1, 100, 500];
/// Maximum number of calls per second that query the states of jobs: one call in five seconds.
const MAX_QUERIES_PER_SECOND: f64 = 0.2;

/// The contenders of the row, and the machine that they share.
struct SlurmBench {
    cluster: SlurmCluster,
    client: ExecutorClient,
    /// `None` if submitit could not be installed.
    submitit: Option<Submitit>,
}

/// A program that siding is compared with. Its failure ends its own comparison, and not the row.
#[derive(Debug)]
struct ReferenceProgram {
    name: String,
    /// The error of the first run that failed.
    failure: RefCell<Option<String>>,
}

/// The calls of Slurm's commands during a run of siding.
#[derive(Debug, Clone, Default)]
struct CountedRun {
    calls: CallCounts,
    took: Duration,
}

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    if let Some(reason) = engine::missing_reason(slurm_cluster::SCRIPT) {
        table.add_note(ROW_NAME, format!("skipped: {reason}"));
        return Ok(());
    }
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let cluster = SlurmCluster::start(&place)?;
    let client = ExecutorClient::create(&place, "kind = \"slurm\"\n", cluster.counted_variables())?;
    let submitit = Submitit::install(&place.dir);
    if submitit.is_none() {
        table.add_note(
            ROW_NAME,
            "not compared with submitit: python3, its modules venv and pip, and the package index \
             are needed",
        );
    }
    let slurm_bench = SlurmBench { cluster, client, submitit };
    let counts = &TASK_COUNTS[..bench.mode.pick(2, TASK_COUNTS.len())];
    counts.iter().try_for_each(|count| slurm_bench.measure_count(*count, table))
}

impl SlurmBench {
    fn measure_count(&self, count: usize, table: &mut ResultTable) -> Result<()> {
        let last_run = Cell::new(CountedRun::default());
        let sbatch =
            ReferenceProgram::new(format!("{count} × `sbatch --wait --wrap true &`, `wait`"));
        let array = ReferenceProgram::new(format!("submitit, one array of {count}"));
        let own_turn: Contender<'_> = Box::new(|| {
            let run = self.run_tasks(count)?;
            let took = run.took;
            last_run.set(run);
            Ok(took)
        });
        let mut turns: Vec<Contender<'_>> = vec![
            with_progress(format!("{count} tasks of siding"), own_turn),
            sbatch.contender(|| self.cluster.time_sbatch(count)),
        ];
        if let Some(submitit) = &self.submitit {
            turns.push(array.contender(|| submitit.time_tasks(&self.cluster, count)));
        }
        let rounds = match count {
            1 => InterleavedRounds { warm_up: 1, counted: 3 },
            _ => InterleavedRounds { warm_up: 0, counted: 1 },
        };
        let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
        drop(turns);
        let what = format!("{count} tasks: start until all ended");
        for (reference, theirs) in [&sbatch, &array].into_iter().zip(times.iter().skip(1)) {
            let line = TableLine::new(ROW_NAME, what.as_str(), Unit::Ms, times[0].median());
            match reference.failure.take() {
                None => table.add(line.with_reference(reference.name.as_str(), theirs.median())),
                Some(error) => {
                    table.add(line);
                    table.add_note(ROW_NAME, format!("{} not measured: {error}", reference.name));
                }
            }
        }
        add_queries(count, &last_run.take(), table);
        Ok(())
    }

    fn run_tasks(&self, count: usize) -> Result<CountedRun> {
        let before = self.cluster.call_counts()?;
        let took = self.client.time_background_tasks(count)?;
        let calls = self.cluster.call_counts()?.since(&before);
        self.client.wait_until_idle()?;
        Ok(CountedRun { calls, took })
    }
}

impl ReferenceProgram {
    fn new(name: String) -> Self {
        Self { name, failure: RefCell::new(None) }
    }

    /// Returns the contender of this program, which is not run again after a failure.
    fn contender<'a>(&'a self, measure: impl Fn() -> Result<Duration> + 'a) -> Contender<'a> {
        let run = move || {
            if self.failure.borrow().is_some() {
                return Ok(Duration::ZERO);
            }
            measure().or_else(|error| {
                self.failure.replace(Some(format!("{error:#}")));
                Ok(Duration::ZERO)
            })
        };
        with_progress(self.name.clone(), Box::new(run))
    }
}

/// Adds the rate of the calls that query the states of jobs. The rate has a target only for the
/// largest number of tasks, because even a run of a few seconds may need one call.
fn add_queries(count: usize, run: &CountedRun, table: &mut ResultTable) {
    let rate = run.calls.queries() as f64 / run.took.as_secs_f64();
    let line = TableLine::new(ROW_NAME, "  squeue, sacct and scontrol", Unit::PerSecond, rate);
    table.add(if TASK_COUNTS.last() == Some(&count) {
        line.with_target(Target::AtMost(MAX_QUERIES_PER_SECOND))
    } else {
        line
    });
    let text = format!(
        "{count} tasks, calls of siding in {:.1} s: {}",
        run.took.as_secs_f64(),
        run.calls.text()
    );
    table.add_note(ROW_NAME, text);
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_reference_that_fails_is_run_once_and_does_not_fail_the_row() {
        let runs = Cell::new(0);
        let reference = ReferenceProgram::new("submitit".to_owned());
        let failing = reference.contender(|| {
            runs.set(runs.get() + 1);
            bail!("it took longer than 360 s")
        });
        let rounds = InterleavedRounds { warm_up: 1, counted: 3 };
        let times = interleaved_runs::run_rounds(rounds, &mut [failing]).expect("no failure");
        assert_eq!((times.len(), runs.get()), (1, 1));
        assert_eq!(reference.failure.take().as_deref(), Some("it took longer than 360 s"));
    }
}
