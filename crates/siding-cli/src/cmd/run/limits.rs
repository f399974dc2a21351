//! The flags of `siding run` that limit a command's resources.

use siding_model::settings::Key;

/// What the command may use. Each is also a setting; `0` is no limit.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Memory of all its processes; what they share counts once (`512MiB`, `4GiB`)
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<String>,
    /// Memory that the machine is to have left: passed when this command alone could make up for
    /// what is missing
    #[arg(long, value_name = "SIZE")]
    min_available: Option<String>,
    /// Processes at once
    #[arg(long, value_name = "N")]
    max_processes: Option<String>,
    /// Open descriptors of all its processes together
    #[arg(long, value_name = "N")]
    max_fds: Option<String>,
    /// Time at nine tenths of a core or more without any output
    #[arg(long, value_name = "D")]
    max_cpu_spin: Option<String>,
    /// Age of any of its TCP connections
    #[arg(long, value_name = "D")]
    max_connection_age: Option<String>,
    /// Bytes sent over TCP to any one remote address
    #[arg(long, value_name = "SIZE")]
    max_sent: Option<String>,
    /// Output a second, averaged over ten seconds (`1MiB/s`)
    #[arg(long, value_name = "SIZE/s")]
    max_output_rate: Option<String>,
    /// What happens when a limit is passed: `notice` puts it on record, `stop` ends the task
    /// (default: on_limit, notice)
    #[arg(long, value_name = "WHAT")]
    on_limit: Option<String>,
}

impl LimitArgs {
    /// Returns each limit with its setting, flag and value.
    pub(super) fn flags(&self) -> [(Key, &'static str, Option<&String>); 9] {
        [
            (Key::MaxMemory, "--max-memory", self.max_memory.as_ref()),
            (Key::MinAvailable, "--min-available", self.min_available.as_ref()),
            (Key::MaxProcesses, "--max-processes", self.max_processes.as_ref()),
            (Key::MaxFds, "--max-fds", self.max_fds.as_ref()),
            (Key::MaxCpuSpin, "--max-cpu-spin", self.max_cpu_spin.as_ref()),
            (Key::MaxConnectionAge, "--max-connection-age", self.max_connection_age.as_ref()),
            (Key::MaxSent, "--max-sent", self.max_sent.as_ref()),
            (Key::MaxOutputRate, "--max-output-rate", self.max_output_rate.as_ref()),
            (Key::OnLimit, "--on-limit", self.on_limit.as_ref()),
        ]
    }
}
