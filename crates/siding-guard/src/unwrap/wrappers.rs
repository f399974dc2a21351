//! Programs that run the words behind them.

use super::expand::Field;

/// A program that runs another, which stands behind its own options and words.
#[derive(Debug)]
pub(super) struct Wrapper {
    pub(super) program: &'static str,
    /// Its subcommand that does so; empty when it needs none.
    pub(super) subcommand: &'static str,
    /// Options whose value is the next word.
    pub(super) values: &'static [&'static str],
    /// Its own words before the command.
    pub(super) own: usize,
}

const fn plain(program: &'static str, values: &'static [&'static str], own: usize) -> Wrapper {
    Wrapper { program, subcommand: "", values, own }
}

const fn sub(
    program: &'static str,
    subcommand: &'static str,
    values: &'static [&'static str],
    own: usize,
) -> Wrapper {
    Wrapper { program, subcommand, values, own }
}

const SUDO: &[&str] = &[
    "-u",
    "-g",
    "-h",
    "-p",
    "-C",
    "-c",
    "-D",
    "-R",
    "-r",
    "-t",
    "-T",
    "-U",
    "--user",
    "--group",
    "--host",
    "--prompt",
    "--chdir",
    "--chroot",
    "--role",
    "--type",
    "--other-user",
];
const CONTAINER: &[&str] = &[
    "-e",
    "--env",
    "-u",
    "--user",
    "-w",
    "--workdir",
    "--env-file",
    "-v",
    "--volume",
    "-p",
    "--publish",
    "--name",
    "--network",
    "--net",
    "--entrypoint",
    "-m",
    "--memory",
    "--cpus",
    "--mount",
    "-l",
    "--label",
    "--platform",
    "--gpus",
    "-h",
    "--hostname",
    "--add-host",
    "--restart",
    "--pull",
    "--index",
    "--detach-keys",
    "--cap-add",
    "--cap-drop",
    "--device",
    "--security-opt",
    "--shm-size",
    "--tmpfs",
    "--ulimit",
    "--userns",
    "--pid",
    "--ipc",
    "--link",
    "--dns",
    "--expose",
    "--log-driver",
    "--log-opt",
    "--cidfile",
    "--ip",
    "--stop-signal",
    "-f",
    "--file",
    "--profile",
    "--project-name",
];
const KUBERNETES: &[&str] =
    &["-n", "--namespace", "-c", "--container", "--context", "-f", "--filename", "--kubeconfig"];

/// Every wrapper whose command is a list of words.
pub(super) const WRAPPERS: &[Wrapper] = &[
    plain("sudo", SUDO, 0),
    plain("doas", &["-u", "-C"], 0),
    plain("pkexec", &["--user"], 0),
    plain("run0", &["-u", "-g", "-D"], 0),
    plain("env", &["-u", "-C", "--unset", "--chdir"], 0),
    plain("nice", &["-n", "--adjustment"], 0),
    plain("ionice", &["-c", "-n", "-p", "--class", "--classdata"], 0),
    plain("chrt", &["-T", "-P", "-D"], 1),
    plain("taskset", &[], 1),
    plain("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    plain("gtimeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    plain("nohup", &[], 0),
    plain("setsid", &[], 0),
    plain("stdbuf", &["-i", "-o", "-e"], 0),
    plain("unbuffer", &[], 0),
    // `! ! x`: the parser takes the second for a program.
    plain("!", &[], 0),
    plain("command", &[], 0),
    plain("builtin", &[], 0),
    plain("exec", &["-a"], 0),
    plain("time", &["-f", "-o", "--format", "--output"], 0),
    plain("busybox", &[], 0),
    plain("toybox", &[], 0),
    plain("chronic", &[], 0),
    plain("noglob", &[], 0),
    plain("caffeinate", &["-t", "-w"], 0),
    plain("xvfb-run", &["-n", "-s", "-e", "-f", "--server-num", "--server-args"], 0),
    plain("dbus-run-session", &[], 0),
    plain("strace", &["-e", "-o", "-p", "-s", "-u", "-E", "-P"], 0),
    plain("ltrace", &["-e", "-o", "-p", "-s", "-u"], 0),
    plain("valgrind", &[], 0),
    plain("perf", &["-o", "-e", "-F", "--call-graph"], 1),
    plain("rr", &[], 1),
    plain("chroot", &[], 1),
    plain("unshare", &["-S", "-G", "--setuid", "--setgid", "-R", "--root", "-w"], 0),
    plain("nsenter", &["-t", "--target", "-S", "-G"], 0),
    plain(
        "systemd-run",
        &["-p", "--property", "-u", "--unit", "-E", "--setenv", "--slice", "-M"],
        0,
    ),
    plain("systemd-inhibit", &[], 0),
    plain("runuser", &["-u", "-g", "-G"], 0),
    plain("setpriv", &["--reuid", "--regid", "--groups"], 0),
    plain("capsh", &[], 0),
    plain("firejail", &[], 0),
    plain("proot", &["-r", "-b", "-w"], 0),
    plain("fakeroot", &[], 0),
    plain("proxychains", &[], 0),
    plain("proxychains4", &[], 0),
    plain("torsocks", &[], 0),
    plain("tsocks", &[], 0),
    plain("catchsegv", &[], 0),
    plain("entr", &[], 0),
    plain("retry", &["-t", "-d", "--times", "--delay"], 0),
    plain("flock", &["-w", "-E", "--timeout", "--conflict-exit-code"], 1),
    plain("cgexec", &["-g"], 0),
    plain("prlimit", &["-p"], 0),
    plain("softlimit", &["-m", "-d", "-t"], 0),
    plain("sg", &[], 1),
    plain("setarch", &[], 1),
    plain("linux32", &[], 0),
    plain("linux64", &[], 0),
    plain("eatmydata", &[], 0),
    plain("faketime", &[], 1),
    plain("ccache", &[], 0),
    plain("sccache", &[], 0),
    plain("npx", &["-p", "--package", "-w", "--workspace"], 0),
    plain("bunx", &["-p", "--package"], 0),
    plain("pnpx", &[], 0),
    plain("uvx", &["--from", "--with", "-p", "--python"], 0),
    plain("pipx", &["--spec", "--python"], 1),
    plain("dotenv", &["-e", "-f"], 0),
    plain("coredumpctl", &[], 0),
    plain("alacritty", &["-T", "-t"], 0),
    plain("arch", &[], 0),
    plain("cmd", &[], 1),
    plain("cmd.exe", &[], 1),
    plain("daemonize", &["-c", "-e", "-l", "-o", "-p", "-u", "-E"], 0),
    plain("chpst", &["-u", "-U", "-e", "-n", "-l", "-L"], 0),
    plain("cross-env", &[], 0),
    plain("dbus-launch", &[], 0),
    plain("dumb-init", &[], 0),
    plain("env-cmd", &["-f", "-e"], 0),
    plain("fakechroot", &[], 0),
    plain("gnome-terminal", &["-t"], 0),
    plain("gosu", &[], 1),
    plain("i386", &[], 0),
    plain("ifne", &[], 0),
    plain("konsole", &[], 0),
    plain("mosh", &["-p"], 1),
    plain("numactl", &["-C", "-N", "-m", "-p"], 0),
    plain("s6-setuidgid", &[], 1),
    plain("shx", &[], 0),
    plain("sshpass", &["-d", "-f", "-p"], 0),
    plain("su-exec", &[], 1),
    plain("tini", &[], 0),
    plain("ts", &["-L", "-N"], 0),
    plain("tsp", &["-L", "-N"], 0),
    plain("watchexec", &["-e", "-w", "-i", "--exts", "--watch", "--ignore", "--shell"], 0),
    plain("wsl", &["-d", "-u", "--cd", "--distribution", "--user"], 0),
    plain("wsl.exe", &["-d", "-u", "--cd", "--distribution", "--user"], 0),
    plain("x86_64", &[], 0),
    plain("xterm", &["-T", "-geometry"], 0),
    sub("adb", "shell", &["-s"], 0),
    sub("devbox", "run", &[], 0),
    sub("incus", "exec", &[], 1),
    sub("limactl", "shell", &[], 1),
    sub("multipass", "exec", &[], 1),
    sub("nix", "develop", &[], 0),
    sub("nix", "shell", &[], 1),
    sub("railway", "run", &[], 0),
    sub("sops", "exec-env", &[], 1),
    sub("sops", "exec-file", &[], 1),
    sub("zellij", "run", &[], 0),
    sub("npm", "exec", &["-p", "--package", "-w"], 0),
    sub("npm", "x", &["-p", "--package", "-w"], 0),
    sub("pnpm", "exec", &["-F", "--filter"], 0),
    sub("pnpm", "dlx", &["--package"], 0),
    sub("yarn", "exec", &[], 0),
    sub("yarn", "dlx", &["-p"], 0),
    sub("bun", "x", &[], 0),
    sub(
        "uv",
        "run",
        &[
            "--with",
            "-p",
            "--python",
            "--extra",
            "--group",
            "--env-file",
            "--package",
            "--directory",
            "--project",
        ],
        0,
    ),
    sub("uv", "tool", &["--from", "--with"], 1),
    sub("poetry", "run", &["-C", "-P"], 0),
    sub("pipenv", "run", &[], 0),
    sub("hatch", "run", &["-e"], 0),
    sub("rye", "run", &[], 0),
    sub("pdm", "run", &["-p"], 0),
    sub("pixi", "run", &["-e", "--manifest-path"], 0),
    sub("conda", "run", &["-n", "-p", "--name", "--prefix"], 0),
    sub("mamba", "run", &["-n", "-p"], 0),
    sub("micromamba", "run", &["-n", "-p"], 0),
    sub("bundle", "exec", &[], 0),
    sub("rbenv", "exec", &[], 0),
    sub("pyenv", "exec", &[], 0),
    sub("nodenv", "exec", &[], 0),
    sub("asdf", "exec", &[], 0),
    sub("mise", "exec", &[], 0),
    sub("mise", "x", &[], 0),
    sub("direnv", "exec", &[], 1),
    sub("dotenvx", "run", &["-f"], 0),
    sub("doppler", "run", &["-p", "-c", "--project", "--config"], 0),
    sub("op", "run", &["--env-file"], 0),
    sub("infisical", "run", &["--env", "--path"], 0),
    sub("aws-vault", "exec", &["-d"], 1),
    sub("chamber", "exec", &[], 1),
    sub("heroku", "run", &["-a", "--app", "-s"], 0),
    sub("nix", "run", &[], 0),
    sub("docker", "run", CONTAINER, 1),
    sub("docker", "exec", CONTAINER, 1),
    sub("podman", "run", CONTAINER, 1),
    sub("podman", "exec", CONTAINER, 1),
    sub("nerdctl", "run", CONTAINER, 1),
    sub("nerdctl", "exec", CONTAINER, 1),
    sub("docker-compose", "exec", CONTAINER, 1),
    sub("docker-compose", "run", CONTAINER, 1),
    sub("docker compose", "exec", CONTAINER, 1),
    sub("docker compose", "run", CONTAINER, 1),
    sub("lxc", "exec", &[], 1),
    sub("kubectl", "exec", KUBERNETES, 1),
    sub("oc", "exec", KUBERNETES, 1),
    sub("kubectl", "run", KUBERNETES, 1),
];

/// Returns the words that a wrapper runs, `None` for a program that is none.
pub(super) fn inner<'f>(program: &str, args: &'f [Field]) -> Option<&'f [Field]> {
    let mut program = program;
    let mut args = args;
    if program == "docker" && args.first().is_some_and(|first| first.text == "compose") {
        program = "docker compose";
        args = &args[1..];
    }
    let of_program = WRAPPERS.iter().filter(|wrapper| wrapper.program == program);
    for wrapper in of_program {
        if wrapper.subcommand.is_empty() {
            return Some(behind(args, wrapper.values, wrapper.own));
        }
        // Options before the subcommand belong to the program: `kubectl -n web exec`.
        let at = args.iter().position(|field| field.text == wrapper.subcommand);
        let Some(at) = at.filter(|at| leads(&args[..*at], wrapper.values)) else { continue };
        return Some(behind(&args[at + 1..], wrapper.values, wrapper.own));
    }
    None
}

/// Whether these words are nothing but options and their values.
fn leads(mut words: &[Field], values: &[&str]) -> bool {
    while let Some((first, rest)) = words.split_first() {
        if !first.text.starts_with('-') {
            return false;
        }
        words = rest.get(usize::from(values.contains(&first.text.as_str()))..).unwrap_or_default();
    }
    true
}

/// Returns what stands behind options, assignments, and `own` further words.
pub(super) fn behind<'f>(args: &'f [Field], values: &[&str], own: usize) -> &'f [Field] {
    let mut rest = args;
    let mut own = own;
    let mut options_are_over = false;
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        if text == "--" && !options_are_over {
            options_are_over = true;
            rest = after;
            // `kubectl exec POD -- CMD`: what was still to come as own words is not there.
            continue;
        }
        let is_option = text.starts_with('-') && text.len() > 1 && !options_are_over;
        let is_assignment = own == 0 && is_assignment(text);
        if is_option {
            let skipped = usize::from(values.contains(&text) && !after.is_empty());
            rest = &after[skipped..];
        } else if is_assignment {
            rest = after;
        } else if own > 0 {
            own -= 1;
            rest = after;
        } else {
            break;
        }
    }
    rest
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let mut chars = name.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}
