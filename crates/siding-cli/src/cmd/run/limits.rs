//! The flags of `siding run` that limit a command's resources.

use siding_model::settings::Key;

/// Resource limits of the command. Each is also a setting; `0` means no limit.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Memory of all processes of the task; shared memory counts once (`512MiB`, `4GiB`)
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<String>,
    /// Memory that the system must keep available; exceeded if less is available and this command
    /// uses at least the amount that is missing
    #[arg(long, value_name = "SIZE")]
    min_available: Option<String>,
    /// Number of concurrent processes
    #[arg(long, value_name = "N")]
    max_processes: Option<String>,
    /// Open descriptors of all processes of the task in total
    #[arg(long, value_name = "N")]
    max_fds: Option<String>,
    /// Time at nine tenths of a core or more without output
    #[arg(long, value_name = "D")]
    max_cpu_spin: Option<String>,
    /// Age of any TCP connection of the task
    #[arg(long, value_name = "D")]
    max_connection_age: Option<String>,
    /// Bytes sent over TCP to any single remote address
    #[arg(long, value_name = "SIZE")]
    max_sent: Option<String>,
    /// Output a second, averaged over ten seconds (`1MiB/s`)
    #[arg(long, value_name = "SIZE/s")]
    max_output_rate: Option<String>,
    /// Action when a limit is exceeded: `notice` records it and gives a notice, `stop` stops the
    /// task (default: on_limit, notice)
    #[arg(long, value_name = "WHAT")]
    on_limit: Option<String>,
}

impl LimitArgs {
    /// Returns each setting with the flag that overrides it, and the value if the flag was given.
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
