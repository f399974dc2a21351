//! The output file of the task whose page is open.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use siding_core::output::RawChunks;
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::inotify::Inotify;
use siding_model::id::TaskId;
use siding_model::record::OutputGap;
use siding_terminal::{Screen, TerminalHistory, TerminalReplay};

use crate::output_pane::ByteSource;

/// The output of a task, which is opened as soon as it exists.
#[derive(Debug)]
pub(crate) struct OutputFile {
    root: PathBuf,
    id: TaskId,
    chunks: Option<RawChunks>,
    /// Reports writes to the file; `None` if there is no file yet, or if the user has no inotify
    /// instance or watch left.
    watch: Option<Inotify>,
    /// The terminal of the task, which follows the output.
    replay: Option<TerminalReplay>,
}

impl OutputFile {
    pub(crate) fn new(root: PathBuf, id: TaskId) -> Self {
        Self { root, id, chunks: None, watch: None, replay: None }
    }

    /// Returns the descriptor that becomes readable when the task has written; `None` if writes are
    /// not reported, so that the size must be checked at intervals.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.as_fd())
    }

    /// Discards the reports of writes so far.
    pub(crate) fn clear_events(&self) {
        if let Some(watch) = &self.watch {
            let _best_effort = watch.read_events();
        }
    }

    /// Starts to watch the file at a path, unless a file is watched already.
    pub(crate) fn watch(&mut self, path: &str) {
        if self.watch.is_some() {
            return;
        }
        let watch = Inotify::new().and_then(|inotify| {
            inotify.watch_writes(Path::new(path))?;
            Ok(inotify)
        });
        self.watch = watch.ok();
    }

    /// Computes the screen of the task's terminal; `None` for a task without one.
    pub(crate) fn read_screen(&mut self) -> io::Result<Option<Screen>> {
        let dir = self.open_dir()?;
        let state = dir.read().map_err(io::Error::other)?.state;
        let Some(terminal) = &state.terminal else { return Ok(None) };
        let (history, has_ended) = (TerminalHistory::from(terminal), !state.is_live());
        let replay = match &mut self.replay {
            Some(replay) => {
                replay.advance(&dir, &history, None, has_ended)?;
                replay
            }
            none => none.insert(TerminalReplay::open(&dir, &history, None, has_ended)?),
        };
        Ok(Some(replay.screen()))
    }

    fn open_dir(&self) -> io::Result<TaskDir> {
        let open = || StateDir::open(&self.root)?.task_dir(self.id);
        open().map_err(io::Error::other)
    }

    fn chunks(&mut self) -> io::Result<Option<&mut RawChunks>> {
        if self.chunks.is_none() {
            self.chunks = RawChunks::open(&self.open_dir()?)?;
        }
        Ok(self.chunks.as_mut())
    }
}

impl ByteSource for OutputFile {
    fn written_bytes(&mut self) -> io::Result<u64> {
        self.chunks()?.map_or(Ok(0), |chunks| chunks.written_bytes())
    }

    fn read_chunk(
        &mut self,
        from: u64,
        to: u64,
        chunk: &mut Vec<u8>,
    ) -> io::Result<Option<OutputGap>> {
        chunk.clear();
        match self.chunks()? {
            Some(chunks) => chunks.read_chunk(from, to, chunk),
            None => Ok(None),
        }
    }

    fn gap_around(&mut self, offset: u64) -> io::Result<Option<OutputGap>> {
        self.chunks()?.map_or(Ok(None), |chunks| chunks.gap_around(offset))
    }
}
