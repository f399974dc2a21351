//! Finds the command in the arguments of wrappers such as `sudo` and `docker exec`.

mod value_options;

use super::expand::Field;
use super::variables::is_variable_name;
use value_options::{
    CONTAINER_VALUE_OPTIONS, KUBECTL_VALUE_OPTIONS, RUN0_VALUE_OPTIONS, SUDO_VALUE_OPTIONS,
    SYSTEMD_VALUE_OPTIONS,
};

/// A program that runs the command that follows the program's own options and operands.
#[derive(Debug)]
pub(super) struct Wrapper {
    pub(super) program: &'static str,
    /// The subcommand that runs a command; empty if the program needs none.
    pub(super) subcommand: &'static str,
    /// The wrapper's options whose value is the next word.
    pub(super) value_options: &'static [&'static str],
    /// Number of operands of the wrapper that precede the command.
    pub(super) positional_count: usize,
}

const fn plain(
    program: &'static str,
    value_options: &'static [&'static str],
    positional_count: usize,
) -> Wrapper {
    Wrapper { program, subcommand: "", value_options, positional_count }
}

const fn with_subcommand(
    program: &'static str,
    subcommand: &'static str,
    value_options: &'static [&'static str],
    positional_count: usize,
) -> Wrapper {
    Wrapper { program, subcommand, value_options, positional_count }
}

/// The wrappers whose command is a list of words.
pub(super) const WRAPPERS: &[Wrapper] = &[
    plain("sudo", SUDO_VALUE_OPTIONS, 0),
    plain("doas", &["-u", "-C"], 0),
    plain("pkexec", &["--user"], 0),
    plain("run0", RUN0_VALUE_OPTIONS, 0),
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
    // The parser returns the second `!` in `! ! x` as a program.
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
    plain("chroot", &["--userspec", "--groups"], 1),
    plain("unshare", &["-S", "-G", "--setuid", "--setgid", "-R", "--root", "-w"], 0),
    plain("nsenter", &["-t", "--target", "-S", "-G"], 0),
    plain("systemd-run", SYSTEMD_VALUE_OPTIONS, 0),
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
    with_subcommand("adb", "shell", &["-s"], 0),
    with_subcommand("devbox", "run", &[], 0),
    with_subcommand("incus", "exec", &[], 1),
    with_subcommand("limactl", "shell", &[], 1),
    with_subcommand("multipass", "exec", &[], 1),
    with_subcommand("nix", "develop", &[], 0),
    with_subcommand("nix", "shell", &[], 1),
    with_subcommand("railway", "run", &[], 0),
    with_subcommand("sops", "exec-env", &[], 1),
    with_subcommand("sops", "exec-file", &[], 1),
    with_subcommand("zellij", "run", &[], 0),
    with_subcommand("npm", "exec", &["-p", "--package", "-w"], 0),
    with_subcommand("npm", "x", &["-p", "--package", "-w"], 0),
    with_subcommand("pnpm", "exec", &["-F", "--filter"], 0),
    with_subcommand("pnpm", "dlx", &["--package"], 0),
    with_subcommand("yarn", "exec", &[], 0),
    with_subcommand("yarn", "dlx", &["-p"], 0),
    with_subcommand("bun", "x", &[], 0),
    with_subcommand(
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
    with_subcommand("uv", "tool", &["--from", "--with"], 1),
    with_subcommand("poetry", "run", &["-C", "-P"], 0),
    with_subcommand("pipenv", "run", &[], 0),
    with_subcommand("hatch", "run", &["-e"], 0),
    with_subcommand("rye", "run", &[], 0),
    with_subcommand("pdm", "run", &["-p"], 0),
    with_subcommand("pixi", "run", &["-e", "--manifest-path"], 0),
    with_subcommand("conda", "run", &["-n", "-p", "--name", "--prefix"], 0),
    with_subcommand("mamba", "run", &["-n", "-p"], 0),
    with_subcommand("micromamba", "run", &["-n", "-p"], 0),
    with_subcommand("bundle", "exec", &[], 0),
    with_subcommand("rbenv", "exec", &[], 0),
    with_subcommand("pyenv", "exec", &[], 0),
    with_subcommand("nodenv", "exec", &[], 0),
    with_subcommand("asdf", "exec", &[], 0),
    with_subcommand("mise", "exec", &[], 0),
    with_subcommand("mise", "x", &[], 0),
    with_subcommand("direnv", "exec", &[], 1),
    with_subcommand("dotenvx", "run", &["-f"], 0),
    with_subcommand("doppler", "run", &["-p", "-c", "--project", "--config"], 0),
    with_subcommand("op", "run", &["--env-file"], 0),
    with_subcommand("infisical", "run", &["--env", "--path"], 0),
    with_subcommand("aws-vault", "exec", &["-d"], 1),
    with_subcommand("chamber", "exec", &[], 1),
    with_subcommand("heroku", "run", &["-a", "--app", "-s"], 0),
    with_subcommand("nix", "run", &[], 0),
    with_subcommand("docker", "run", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("docker", "exec", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("podman", "run", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("podman", "exec", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("nerdctl", "run", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("nerdctl", "exec", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("docker-compose", "exec", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("docker-compose", "run", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("docker compose", "exec", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("docker compose", "run", CONTAINER_VALUE_OPTIONS, 1),
    with_subcommand("lxc", "exec", &[], 1),
    with_subcommand("kubectl", "exec", KUBECTL_VALUE_OPTIONS, 1),
    with_subcommand("oc", "exec", KUBECTL_VALUE_OPTIONS, 1),
    with_subcommand("kubectl", "run", KUBECTL_VALUE_OPTIONS, 1),
];

/// The command in the arguments of a wrapper.
#[derive(Debug)]
pub(super) struct WrappedCommand<'f> {
    /// The variables that the wrapper sets for the command: `sudo A=1 make`.
    pub(super) assignments: Vec<&'f Field>,
    pub(super) words: &'f [Field],
}

/// Returns the command that a wrapper runs. Returns `None` if the program is not a wrapper, or is
/// called without the subcommand that runs a command.
pub(super) fn wrapped_command<'f>(program: &str, args: &'f [Field]) -> Option<WrappedCommand<'f>> {
    let mut program = program;
    let mut args = args;
    if program == "docker" {
        let is_group = |field: &Field| matches!(field.text.as_str(), "compose" | "container");
        let group = args.iter().position(is_group);
        let is_first = |at: &usize| are_options_only(&args[..*at], CONTAINER_VALUE_OPTIONS);
        if let Some(at) = group.filter(is_first) {
            if args[at].text == "compose" {
                program = "docker compose";
            }
            args = &args[at + 1..];
        }
    }
    let of_program = WRAPPERS.iter().filter(|wrapper| wrapper.program == program);
    for wrapper in of_program {
        if wrapper.subcommand.is_empty() {
            return Some(wrapper.find_command(args));
        }
        // Only options of the program may precede the subcommand: `kubectl -n web exec`.
        let at = args.iter().position(|field| field.text == wrapper.subcommand);
        let Some(at) = at.filter(|at| are_options_only(&args[..*at], wrapper.value_options)) else {
            continue;
        };
        return Some(wrapper.find_command(&args[at + 1..]));
    }
    None
}

/// Returns whether these words are only options and their values.
fn are_options_only(mut words: &[Field], values: &[&str]) -> bool {
    while let Some((first, rest)) = words.split_first() {
        if !first.text.starts_with('-') {
            return false;
        }
        words = rest.get(usize::from(takes_next_word(&first.text, values))..).unwrap_or_default();
    }
    true
}

/// Returns whether the next word is the value of this option. In a group of letters (`-Eu root`),
/// the first letter with a value takes the rest of the group or, at its end, the next word.
fn takes_next_word(option: &str, values: &[&str]) -> bool {
    if values.contains(&option) {
        return true;
    }
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    let Some(letters) = letters else { return false };
    let has_value = |letter: char| {
        let is_letter = |name: &str| name.chars().eq([letter]);
        values.iter().any(|value| value.strip_prefix('-').is_some_and(is_letter))
    };
    let first = letters.char_indices().find(|(_, letter)| has_value(*letter));
    first.is_some_and(|(at, letter)| at + letter.len_utf8() == letters.len())
}

impl Wrapper {
    /// Returns the command after the options, the operands and the variables of a wrapper.
    fn find_command<'f>(&self, args: &'f [Field]) -> WrappedCommand<'f> {
        let mut assignments = vec![];
        let mut words = skip_options(args, self.value_options, self.positional_count);
        while let Some((first, after)) =
            words.split_first().filter(|(first, _)| is_assignment(first))
        {
            assignments.push(first);
            words = skip_options(after, self.value_options, 0);
        }
        WrappedCommand { assignments, words }
    }
}

/// Returns the words after the options and `positional_count` operands. `values` are the options
/// whose value is the next word. An assignment is not skipped, because it may be the beginning of a
/// shell text: `bash -c 'A=1; make'`.
pub(super) fn skip_options<'f>(
    args: &'f [Field],
    values: &[&str],
    positional_count: usize,
) -> &'f [Field] {
    let mut rest = args;
    let mut positional_count = positional_count;
    let mut options_ended = false;
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        if text == "--" && !options_ended {
            options_ended = true;
            rest = after;
            // `--` may precede the operands (`flock -- FILE CMD`) or follow them (`kubectl exec POD
            // -- CMD`), so it does not change the number of missing operands.
            continue;
        }
        let is_option = text.starts_with('-') && text.len() > 1 && !options_ended;
        if is_option {
            let skipped = usize::from(takes_next_word(text, values) && !after.is_empty());
            rest = &after[skipped..];
        } else if positional_count > 0 {
            positional_count -= 1;
            rest = after;
        } else {
            break;
        }
    }
    rest
}

fn is_assignment(field: &Field) -> bool {
    field.text.split_once('=').is_some_and(|(name, _)| is_variable_name(name))
}
