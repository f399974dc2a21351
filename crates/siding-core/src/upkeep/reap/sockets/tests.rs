use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use super::*;

struct WatchedDir {
    dir: tempfile::TempDir,
    pattern: SocketPattern,
}

impl WatchedDir {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let text = format!("{}/claude-http-*.sock", dir.path().display());
        let pattern = SocketPattern::parse(&text).expect("legal");
        Self { dir, pattern }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("claude-http-{name}.sock"))
    }

    /// Creates an old socket file that no process holds.
    fn leave_dead_socket(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        drop(UnixListener::bind(&path).expect("binds"));
        make_old(&path);
        path
    }

    fn reap(&self) -> Vec<String> {
        removed_paths(reap_sockets(std::slice::from_ref(&self.pattern), false))
    }
}

fn removed_paths(steps: Vec<ReapStep>) -> Vec<String> {
    let path = |step: ReapStep| {
        let ReapStep::SocketRemoved { path } = step else { panic!("{step:?}") };
        path
    };
    steps.into_iter().map(path).collect()
}

/// Sets the modification time of a file without following a link. Runs touch(1), because a socket
/// file cannot be opened for a call of futimens(3).
fn make_old(path: &Path) {
    let mut touch = std::process::Command::new("touch");
    let touched = touch.args(["-h", "-d", "61 seconds ago"]).arg(path).status();
    assert!(touched.expect("touch is installed").success(), "{}", path.display());
}

#[test]
fn only_unheld_socket_files_are_removed() {
    let watched = WatchedDir::new();
    let dead = watched.leave_dead_socket("dead");
    let held = watched.path("held");
    let _keeps_alive = UnixListener::bind(&held).expect("binds");
    let packets = watched.path("packets");
    let _keeps_alive = UnixDatagram::unbound().and(UnixDatagram::bind(&packets)).expect("binds");
    // Two connected datagram sockets accept only each other, and refuse others with `EPERM`.
    let (one, other) = (watched.path("one"), watched.path("other"));
    let (first, second) =
        (UnixDatagram::bind(&one).expect("binds"), UnixDatagram::bind(&other).expect("binds"));
    first.connect(&other).and(second.connect(&one)).expect("connect");
    let regular = watched.path("file");
    File::create(&regular).expect("own directory");
    let elsewhere = watched.dir.path().join("elsewhere.sock");
    drop(UnixListener::bind(&elsewhere).expect("binds"));
    let link = watched.path("link");
    symlink(&elsewhere, &link).expect("own directory");
    let directory = watched.path("directory");
    std::fs::create_dir(&directory).expect("own directory");
    let fifo = watched.path("fifo");
    let dir = File::open(watched.dir.path()).expect("own directory");
    crate::sys::file::create_fifo(dir.as_fd(), "claude-http-fifo.sock").expect("own directory");
    let all = [&held, &packets, &one, &other, &regular, &elsewhere, &link, &directory, &fifo];
    all.iter().for_each(|path| make_old(path));
    let foretold = removed_paths(reap_sockets(std::slice::from_ref(&watched.pattern), true));
    assert!(dead.exists());
    assert_eq!(watched.reap(), [dead.display().to_string()]);
    assert_eq!(foretold, [dead.display().to_string()]);
    assert!(!dead.exists());
    for path in all {
        assert!(path.symlink_metadata().is_ok(), "{}", path.display());
    }
}

/// Between bind(2) and listen(2), a stream socket refuses all connections, as if no process held
/// it.
#[test]
fn a_bound_socket_that_does_not_listen_yet_is_kept() {
    for kind in unix_socket::CONNECTED_SOCKET_TYPES {
        let watched = WatchedDir::new();
        let path = watched.path("early");
        let early = unix_socket::bind_without_listen(&path, kind).expect("binds");
        make_old(&path);
        assert_eq!(watched.reap(), Vec::<String>::new());
        // The socket is also kept after a rename, although it was bound to the old name.
        let moved = watched.path("moved");
        std::fs::rename(&path, &moved).expect("own directory");
        assert_eq!(watched.reap(), Vec::<String>::new());
        drop(early);
        assert_eq!(watched.reap(), [moved.display().to_string()]);
    }
}

#[test]
fn checking_a_listener_does_not_wake_it() {
    let watched = WatchedDir::new();
    let path = watched.path("quiet");
    let listener = UnixListener::bind(&path).expect("binds");
    make_old(&path);
    assert_eq!(watched.reap(), Vec::<String>::new());
    listener.set_nonblocking(true).expect("own socket");
    let caller = listener.accept().expect_err("no caller has connected");
    assert_eq!(caller.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_socket_file_younger_than_a_minute_is_kept() {
    let watched = WatchedDir::new();
    let path = watched.path("new");
    drop(UnixListener::bind(&path).expect("binds"));
    assert_eq!(watched.reap(), Vec::<String>::new());
    make_old(&path);
    assert_eq!(watched.reap(), [path.display().to_string()]);
}

#[test]
fn symbolic_links_to_a_watched_directory_are_not_followed() {
    let watched = WatchedDir::new();
    let dead = watched.leave_dead_socket("dead");
    let link = watched.dir.path().join("link");
    symlink(watched.dir.path(), &link).expect("own directory");
    let text = format!("{}/claude-http-*.sock", link.display());
    let through = SocketPattern::parse(&text).expect("legal");
    assert_eq!(reap_sockets(&[through], false), []);
    assert!(dead.symlink_metadata().expect("the file exists").file_type().is_socket());
    // A file that two patterns match is reported once.
    let twice = [watched.pattern.clone(), watched.pattern.clone()];
    assert_eq!(removed_paths(reap_sockets(&twice, true)).len(), 1);
}

#[test]
fn a_socket_file_of_another_user_is_kept() {
    if process::effective_uid() != 0 {
        eprintln!("left out: only root can make another user's file");
        return;
    }
    let watched = WatchedDir::new();
    let path = watched.leave_dead_socket("theirs");
    std::os::unix::fs::lchown(&path, Some(61_234), None).expect("root may");
    make_old(&path);
    assert_eq!(watched.reap(), Vec::<String>::new());
    assert!(path.exists());
}
