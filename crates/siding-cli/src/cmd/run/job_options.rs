//! The flags of `siding run` for a job in a Slurm cluster.

use siding_model::executor::{SlurmOptions, is_job_argument, parse_memory_mib, parse_time_minutes};

/// Options of a job in a Slurm cluster (`--on slurm`). Each replaces the value of the settings.
#[derive(Debug, Default, Clone, clap::Args)]
#[command(next_help_heading = "Slurm")]
pub(super) struct JobArgs {
    /// Processors of the job
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Memory of the job on each node (`8G`)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_mib)]
    memory: Option<u64>,
    /// Graphics processors, perhaps with their type (`2`, `a100:2`)
    #[arg(long, value_name = "N")]
    gpus: Option<String>,
    /// Nodes; the command runs on the first one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Time limit of the allocation, in whole minutes: `90m`, or as in Slurm `1-12:00:00` (default:
    /// a little more than --timeout)
    #[arg(long, value_name = "D", value_parser = parse_time_minutes)]
    time: Option<u64>,
    /// Account that pays for the job
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Further option of sbatch, such as `--engine-arg=--qos=high`; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, value_parser = parse_option)]
    engine_arg: Vec<String>,
}

impl JobArgs {
    pub(super) fn to_options(&self) -> SlurmOptions {
        let Self { cpus, memory, gpus, nodes, time, account, engine_arg } = self.clone();
        SlurmOptions {
            partition: None,
            account,
            cpus,
            memory_mib: memory,
            gpus,
            nodes,
            time_minutes: time,
            arguments: engine_arg,
            directory: None,
            array: None,
        }
    }
}

fn parse_option(text: &str) -> Result<String, String> {
    if is_job_argument(text) {
        return Ok(text.to_owned());
    }
    if text.starts_with('-') {
        let why =
            "siding sets this option of sbatch itself, or sbatch submits no single job with it";
        return Err(why.to_owned());
    }
    Err("an option of sbatch begins with `-`, such as `--engine-arg=--qos=high`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_of_a_single_job_are_passed_on() {
        assert!(parse_option("--qos=high").is_ok() && parse_option("qos").is_err());
        assert!(parse_option("--array=1-2").is_err_and(|why| why.contains("itself")));
    }
}
