//! The cost of `siding web`: a page of a thousand tasks, and fifty open pages of a busy log.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Row;
use crate::bench::Bench;
use crate::bench::client::{BenchClient, shell_command};
use crate::bench::idle_tasks;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds};
use crate::bench::process_usage;
use crate::bench::recorded_tasks::{self, RecordedState};
use crate::bench::samples::Samples;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "web";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "`siding web`: a page of 1,000 tasks, 100 of which run, and 50 pages of a busy log",
    measure,
};

const RUNNING_COUNT: usize = 100;
const ENDED_COUNT: usize = 900;
/// Number of open pages. Each holds two event streams: one of the output and one of the list of
/// tasks.
const PAGE_COUNT: usize = 50;
/// The token with which the bench signs in.
const TOKEN: &str = "a-token-of-the-bench-0123456789";

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    recorded_tasks::write_tasks(&place, ENDED_COUNT, RecordedState::Ended)?;
    let mut client = place.client()?;
    client.is_background = true;
    let _shims = idle_tasks::start_idle_tasks(&client, RUNNING_COUNT)?;
    let server = Server::start(&place)?;
    let mut times = Samples::default();
    let mut size = 0;
    for _ in 0..bench.mode.pick(5, 21) {
        let started = Instant::now();
        size = server.get("/")?;
        times.push_time(started.elapsed());
    }
    table.add(
        TableLine::new(ROW_NAME, "overview: request to last byte", Unit::Ms, times.median())
            .with_target(Target::AtMost(300.0)),
    );
    table.add(
        TableLine::new(ROW_NAME, "  its size", Unit::KiB, size as f64 / 1024.0)
            .with_target(Target::AtMost(200_000.0 / 1024.0)),
    );
    measure_busy_log(bench, &client, &server, table)?;
    server.stop()?;
    place.stop_all()
}

/// Compares a command that writes lines while 50 pages show them with the same command while no
/// page is open.
fn measure_busy_log(
    bench: &Bench,
    client: &BenchClient,
    server: &Server,
    table: &mut ResultTable,
) -> Result<()> {
    let lines = bench.mode.pick(50_000, 200_000);
    let mut turns: [Contender<'_>; 2] = [
        Box::new(|| write_log(client, lines, Some(server))),
        Box::new(|| write_log(client, lines, None)),
    ];
    let rounds = InterleavedRounds { warm_up: 1, counted: bench.mode.pick(2, 9) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    table.add(
        TableLine::new(ROW_NAME, "a busy log with 50 pages", Unit::Ms, times[0].median())
            .with_reference("without a page", times[1].median())
            .with_target(Target::RatioAtMost(1.1)),
    );
    let pid = i32::try_from(server.program.id())?;
    let peak = process_usage::peak_resident(pid).context("`siding web` has exited")?;
    table.add(
        TableLine::new(ROW_NAME, "  peak memory of the server", Unit::KiB, peak)
            .with_target(Target::AtMost(100.0 * 1024.0)),
    );
    Ok(())
}

/// Returns the time that a shell needs to write `lines` lines, from its permission to begin until
/// its end is known. The pages, if any, are opened before that.
fn write_log(client: &BenchClient, lines: usize, server: Option<&Server>) -> Result<Duration> {
    let gate = tempfile::NamedTempFile::new_in("/tmp")?.into_temp_path();
    let text = format!(
        "while [ -e {} ]; do sleep 0.01; done; \
         for ((i = 0; i < {lines}; i++)); do echo \"   Compiling part-$i v0.1.0\"; done",
        gate.display()
    );
    let task = client.start(shell_command(text))?;
    task.wait_until_running()?;
    let pages = match server {
        Some(server) => (0..PAGE_COUNT)
            .map(|_| server.open_page(&task.id.to_string()))
            .collect::<Result<Vec<_>>>()?,
        None => Vec::new(),
    };
    let started = Instant::now();
    gate.close()?;
    task.wait_until_closed()?;
    let took = started.elapsed();
    pages.into_iter().try_for_each(OpenPage::close)?;
    task.wait_for_shim_exit()?;
    client.ensure_success(task.id)?;
    Ok(took)
}

/// A running `siding web`.
struct Server {
    program: Child,
    port: u16,
}

impl Server {
    fn start(place: &RowDir) -> Result<Self> {
        let mut command = place.siding_command(["web", "--addr", "127.0.0.1:0"]);
        command.env("SIDING_WEB_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = command.spawn()?;
        let port = read_port(&mut program);
        if port.is_err() {
            program.kill()?;
        }
        Ok(Self { program, port: port? })
    }

    fn request(&self, path: &str, connection: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Connection: {connection}\r\n\r\n",
            self.port
        )?;
        Ok(stream)
    }

    /// Requests a page and returns the number of bytes of the response.
    fn get(&self, path: &str) -> Result<usize> {
        let mut response = Vec::new();
        self.request(path, "close")?.read_to_end(&mut response)?;
        let status = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
        ensure!(status == b"HTTP/1.1 200 OK", "{path}: {}", String::from_utf8_lossy(status));
        Ok(response.len())
    }

    /// Opens the streams of a task's page, and reads them as fast as they arrive.
    fn open_page(&self, task: &str) -> Result<OpenPage> {
        let paths = [format!("/tasks/{task}/follow?from=0"), "/api/v1/events".to_owned()];
        let streams = paths.iter().map(|path| Stream::open(self, path));
        Ok(OpenPage { streams: streams.collect::<Result<_>>()? })
    }

    fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.program);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.program.wait()?;
        Ok(())
    }
}

/// Reads the port from the link that the server prints at its start.
fn read_port(program: &mut Child) -> Result<u16> {
    let mut printed = Vec::new();
    let stdout = program.stdout.as_mut().context("no standard output")?;
    let mut piece = [0; 4096];
    loop {
        let count = stdout.read(&mut piece)?;
        ensure!(count > 0, "`siding web` printed no link: {}", String::from_utf8_lossy(&printed));
        printed.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&printed);
        let Some((_, rest)) = text.split_once("http://127.0.0.1:") else { continue };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if rest.len() > digits.len() {
            return digits.parse().context("the link has no port");
        }
    }
}

/// The event streams of one page.
struct OpenPage {
    streams: Vec<Stream>,
}

impl OpenPage {
    fn close(self) -> Result<()> {
        self.streams.into_iter().try_for_each(Stream::close)
    }
}

/// An event stream, and the thread that reads it.
struct Stream {
    socket: TcpStream,
    /// Returns the number of bytes that the thread has read.
    reader: JoinHandle<usize>,
}

impl Stream {
    /// Opens a stream and waits for its first bytes.
    fn open(server: &Server, path: &str) -> Result<Self> {
        let mut socket = server.request(path, "keep-alive")?;
        let mut status = [0; 15];
        socket.read_exact(&mut status)?;
        ensure!(&status == b"HTTP/1.1 200 OK", "{path}: {}", String::from_utf8_lossy(&status));
        let read_half = socket.try_clone()?;
        let reader = std::thread::spawn(move || count_bytes(read_half));
        Ok(Self { socket, reader })
    }

    fn close(self) -> Result<()> {
        // The server may have closed the stream at the end of the task.
        let _closed = self.socket.shutdown(Shutdown::Both);
        let count = self.reader.join().ok().context("the reader of a stream panicked")?;
        ensure!(count > 0, "a page received nothing");
        Ok(())
    }
}

/// Reads a stream to its end, which is an error if the server still sends when it is closed.
fn count_bytes(mut stream: TcpStream) -> usize {
    let mut piece = [0; 65_536];
    let mut total = 0;
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        total += count;
    }
    total
}
