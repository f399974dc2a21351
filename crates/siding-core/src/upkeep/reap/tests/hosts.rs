use std::cell::Cell;
use std::os::unix::process::CommandExt as _;

use siding_model::host::{HOST_RECORD_FORMAT, HostRecord};
use siding_model::id::HostMark;

use super::*;
use crate::host::HostFiles;
use crate::sys::descriptor::{run_test_with_few_descriptors, take_descriptors};

impl ReapFixture {
    fn add_host(&self, host: ProcRef) -> HostMark {
        let random = crate::sys::random_u64().expect("a number");
        let mark = HostMark::from_random(random, u64::MAX).expect("a mark");
        self.root.hosts_dir(true).expect("made");
        self.root.create_host(mark).expect("made");
        let record = HostRecord {
            format: HOST_RECORD_FORMAT,
            mark,
            host,
            name: "agent".to_owned(),
            program: None,
            boot: procfs::boot_id().expect("is there"),
            pid_namespace: procfs::pid_namespace(),
            wall: clock::unix_now(),
        };
        let json = serde_json::to_vec(&record).expect("JSON");
        std::fs::write(self.path(&format!("hosts/{mark}/record")), json).expect("own directory");
        mark
    }
}

/// Removes the signals, which a dry run cannot predict.
fn without_signals(mut steps: Vec<ReapStep>) -> Vec<ReapStep> {
    for step in &mut steps {
        if let ReapStep::HostProcessEnded { signal, .. } = step {
            *signal = None;
        }
    }
    steps
}

#[test]
fn a_dry_run_predicts_the_steps_for_an_ended_host() {
    let place = ReapFixture::new();
    // The names of a host's sockets contain its process ID, so no other test uses these names.
    let own_pid = procfs::self_ref().expect("this process").pid;
    let host = ProcRef { pid: own_pid, start_ticks: u64::MAX };
    let mark = place.add_host(host).birthmark();
    let relay_socket = place.path("relay.sock");
    let listen = format!("UNIX-LISTEN:{},fork", relay_socket.display());
    let relay = MarkedChild::start_program(
        mark,
        MarkedChild::program().arg(listen).env("SOCKET", &relay_socket),
    );
    let spared = MarkedChild::start_program(mark, MarkedChild::program().arg0("kate"));
    let host_socket = Path::new("/tmp").join(format!("srt-mux-{own_pid}-test.sock"));
    let _already_removed = std::fs::remove_file(&host_socket);
    drop(UnixListener::bind(&host_socket).expect("own file"));
    let planned = place.plan_all();
    assert!(relay.runs() && relay_socket.exists() && host_socket.exists());
    assert_eq!(
        step_kinds(&planned),
        ["host_process_ended", "host_process_spared", "socket_removed", "socket_removed"]
    );
    let done = place.reap_all();
    assert_eq!(without_signals(done), planned);
    assert!(!relay.runs() && spared.runs());
    assert!(!relay_socket.exists() && !host_socket.exists());
}

#[test]
fn the_kill_of_a_process_that_was_started_late_is_logged() {
    let place = ReapFixture::new();
    let mark = place.add_host(DEAD_PROCESS);
    let files = HostFiles::open(&place.root, mark).expect("its directory");
    let record = files.record().expect("its record");
    let late = Cell::new(None);
    let start = || {
        let child = MarkedChild::start_program(mark.birthmark(), &mut MarkedChild::program());
        late.set(Some(child));
    };
    let steps = super::super::hosts::end_host(&place.root, &files, &record, &start);
    assert_eq!(step_kinds(&steps), ["host_process_ended"]);
    let late = late.take().expect("was started");
    let log = std::fs::read_to_string(place.path("reaped.log")).expect("is there");
    let pid = format!("\"pid\":{},", late.0.id());
    assert!(log.contains(&pid) && log.contains("SIGKILL"), "{log}");
}

/// A host may leave more processes than the reaper may open descriptors. The test runs in a process
/// of its own, because it uses up its descriptors.
#[test]
fn no_process_of_an_ended_host_is_missed_for_lack_of_descriptors() {
    run_test_with_few_descriptors("upkeep::reap::tests::hosts::end_of_a_host_with_few_descriptors");
}

#[test]
#[ignore = "takes most descriptors of its process"]
fn end_of_a_host_with_few_descriptors() {
    const PROCESSES: usize = 24;
    let place = ReapFixture::new();
    let mark = place.add_host(DEAD_PROCESS);
    let files = HostFiles::open(&place.root, mark).expect("its directory");
    let record = files.record().expect("its record");
    let end_host = || super::super::hosts::end_host(&place.root, &files, &record, &|| ());
    let start = |_| MarkedChild::start_program(mark.birthmark(), &mut MarkedChild::program());
    let children: Vec<_> = (0..PROCESSES).map(start).collect();

    let taken = take_descriptors(0);
    let steps = end_host();
    drop(taken);
    assert_eq!(step_kinds(&steps), ["host_failed"]);
    assert!(children.iter().all(MarkedChild::runs));

    let taken = take_descriptors(PROCESSES / 2);
    let steps = end_host();
    drop(taken);
    assert_eq!(count_by_kind(&steps), BTreeMap::from([("host_process_ended", PROCESSES)]));
    assert!(!children.iter().any(MarkedChild::runs));
}

/// The start of such a host crashed before any process was marked.
#[test]
fn a_host_without_a_record_is_removed_without_a_step() {
    let place = ReapFixture::new();
    let mark = place.add_host(DEAD_PROCESS);
    std::fs::remove_file(place.path(&format!("hosts/{mark}/record"))).expect("own file");
    assert_eq!(place.plan_all(), []);
    assert!(place.path(&format!("hosts/{mark}")).exists());
    assert_eq!(place.reap_all(), []);
    assert!(!place.path(&format!("hosts/{mark}")).exists());
}
