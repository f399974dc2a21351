//! Parses signals from names and numbers.

const SIGNAL_NAMES: [(&str, i32); 28] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("SYS", libc::SIGSYS),
];
const HIGHEST_SIGNAL: i32 = 64;

/// Parses one signal: a name with or without `SIG`, or a number.
pub(super) fn parse_signal(word: &str) -> Result<i32, String> {
    let name = word.strip_prefix("SIG").unwrap_or(word);
    let named = SIGNAL_NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    named
        .or_else(|| word.parse().ok())
        .filter(|number| (1..=HIGHEST_SIGNAL).contains(number))
        .ok_or_else(|| format!("there is no signal `{word}`"))
}

/// Parses one signal, or for `ALL` every signal whose disposition a program can set.
pub(super) fn parse_signals(word: &str) -> Result<Vec<i32>, String> {
    if word != "ALL" {
        return Ok(vec![parse_signal(word)?]);
    }
    let fixed = [libc::SIGKILL, libc::SIGSTOP, 32, 33];
    Ok((1..=HIGHEST_SIGNAL).filter(|number| !fixed.contains(number)).collect())
}
