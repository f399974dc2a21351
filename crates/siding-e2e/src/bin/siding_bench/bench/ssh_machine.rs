//! A machine that is reached over ssh: an sshd on 127.0.0.1 whose commands have a home directory of
//! their own. `tools/engines/README.md` describes it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use siding_core::remote::ssh::SSH_OPTIONS;

use super::engine::Engine;
use super::executor_client::write_settings;
use super::workspace::{self, RowDir};

/// The script of `tools/engines` that starts the sshd.
pub(super) const SCRIPT: &str = "sshd.sh";
/// The destination, as the configuration of the script names it.
pub(super) const DESTINATION: &str = "remote";

/// The sshd, and a program `ssh` whose configuration contains it. Dropping this value closes both
/// shared connections, that of siding and that of plain calls.
#[derive(Debug)]
pub(super) struct SshMachine {
    engine: Engine,
    /// The directory that contains the program `ssh`.
    wrapper_dir: PathBuf,
}

impl SshMachine {
    pub(super) fn start(place: &RowDir) -> Result<Self> {
        let engine = Engine::start(SCRIPT, place.dir.join("ssh"))?;
        let wrapper_dir = place.dir.join("bin");
        let ssh = find_program("ssh")?;
        // siding passes no configuration to ssh, so both contenders call this program.
        let script =
            format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), engine.config.display());
        write_program(&wrapper_dir.join("ssh"), &script)?;
        let machine = Self { engine, wrapper_dir };
        // Otherwise the remote siding would terminate unowned processes of this machine.
        let text = "foreign_reap = \"off\"\nsupervise_hosts = false\n";
        write_settings(&machine.home().join(".config"), text)?;
        Ok(machine)
    }

    fn home(&self) -> PathBuf {
        self.engine.dir().join("remote-home")
    }

    /// Returns the `PATH` with the program `ssh` of this machine.
    pub(super) fn path_variable(&self) -> OsString {
        prepend_to_path(&self.wrapper_dir)
    }

    /// Protects the user's key with a passphrase, for which every later login asks.
    pub(super) fn protect_key(&self, passphrase: &str) -> Result<()> {
        let mut call = Command::new("ssh-keygen");
        call.args(["-q", "-p", "-P", "", "-N", passphrase, "-f"]);
        call.arg(self.engine.dir().join("user_key"));
        let status = call.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "ssh-keygen ended with {status}");
        Ok(())
    }

    /// Prepares a plain call of ssh that runs a shell text. All of these calls share one
    /// connection, with the options that siding passes to ssh.
    pub(super) fn ssh_command(&self, text: &str) -> Command {
        let mut command = Command::new(self.wrapper_dir.join("ssh"));
        command.arg("-T");
        for option in SSH_OPTIONS {
            command.args(["-o", option]);
        }
        let socket = self.engine.dir().join("plain-connection");
        command.arg("-o").arg(format!("ControlPath={}", socket.display()));
        command.args(["--", DESTINATION, text]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Returns the number of connections that sshd has accepted since its start, shared ones and
    /// others.
    pub(super) fn accepted_connections(&self) -> Result<usize> {
        let log = fs::read_to_string(self.engine.dir().join("sshd.log"))?;
        Ok(log.lines().filter(|line| line.contains("Accepted publickey")).count())
    }

    /// Waits until no task is marked live on the remote machine.
    pub(super) fn wait_until_idle(&self) -> Result<()> {
        workspace::wait_until_idle(&self.home().join(".local/state/siding"))
    }
}

/// Writes an executable script, and creates its directory.
pub(super) fn write_program(path: &Path, script: &str) -> Result<()> {
    let dir = path.parent().context("a program is in a directory")?;
    fs::create_dir_all(dir)?;
    fs::write(path, script)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Returns the `PATH` of this process with `dir` as its first directory.
pub(super) fn prepend_to_path(dir: &Path) -> OsString {
    let mut path = dir.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// Returns the path of a program in the `PATH` of this process.
pub(super) fn find_program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("found no `{name}` in PATH"))
}
