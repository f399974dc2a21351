//! Connects the terminal, the read model, the open output and the running actions with the state of
//! the screen. There is one poll(2), and nothing is drawn unless something has changed.

mod foreground;

use std::io;
use std::time::{Duration, Instant};

use siding_core::sys::clock;
use siding_live::{Changes, LiveTask, LiveView};
use siding_model::id::TaskId;
use siding_model::key_input::Key;
use siding_model::signal::Signal;

use crate::acts::{ActResult, Acts};
use crate::app::{App, Effect, OutputMove, TaskAction};
use crate::console::{Console, ConsoleEvent, WaitResult};
use crate::detail::DetailTab;
use crate::output_file::OutputFile;
use crate::output_pane::{Direction, Pattern, Scan, SearchStep};
use crate::source::{self, Present};
use crate::{TopError, TopOptions, UsualDurations, draw, panes, screen};

/// Interval at which the clocks on the screen advance.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two measurements of the visible tasks.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest time between two updates because of changed files, so that busy tasks do not keep this
/// process busy.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(50);
/// Time until the next attempt after the state directory could not be read.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of tasks that are measured if the order of the list depends on their usage.
const MAX_SAMPLED_TASKS: usize = 128;

/// The state of the program.
pub(crate) struct EventLoop {
    console: Console,
    view: LiveView,
    app: App,
    acts: Acts,
    usual_durations: UsualDurations,
    pager: Option<String>,
    output: Option<OutputFile>,
    /// Whether a new frame must be drawn.
    is_dirty: bool,
    /// Tasks whose usual duration has not been looked up.
    without_expectation: Vec<TaskId>,
    /// Whether a thread is looking up usual durations.
    is_looking_up: bool,
    next_sample: Instant,
    next_refresh: Instant,
    next_clock: Instant,
}

/// Whether the program continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Continue,
    Quit,
}

impl EventLoop {
    pub(crate) fn start(options: TopOptions) -> Result<Self, TopError> {
        let TopOptions { root, program, live, usual_durations, pager, user, .. } = options;
        // The signals are blocked before the first thread starts.
        let console = Console::open()?;
        let acts = Acts::new(&root, program, user).map_err(TopError::Terminal)?;
        let view = LiveView::open(root, live)?;
        let mut app = App::new(options.theme, options.is_read_only);
        app.options.filter = options.filter;
        let without_expectation =
            view.tasks().filter(|task| task.is_live()).map(|task| task.view.task_id).collect();
        let now = Instant::now();
        Ok(Self {
            console,
            view,
            app,
            acts,
            usual_durations,
            pager,
            output: None,
            is_dirty: true,
            without_expectation,
            is_looking_up: false,
            next_sample: now,
            next_refresh: now,
            next_clock: now + CLOCK_INTERVAL,
        })
    }

    /// Runs until a person quits, a signal ends the program or the terminal is closed.
    pub(crate) fn run(mut self) -> Result<(), TopError> {
        self.arrange();
        loop {
            self.draw()?;
            self.look_up_expectations();
            let result = self.wait()?;
            for event in result.events {
                if self.on_event(event)? == Flow::Quit {
                    return Ok(());
                }
            }
            let mut readable = result.readable.into_iter();
            if readable.next() == Some(true) {
                self.on_results();
            }
            // The other descriptors are only polled when an update is due.
            if readable.any(|is_readable| is_readable) {
                self.next_refresh = Instant::now() + MIN_REFRESH_INTERVAL;
                self.refresh();
            }
            self.on_time();
        }
    }

    fn wait(&mut self) -> Result<WaitResult, TopError> {
        let now = Instant::now();
        let mut sources = vec![self.acts.source()];
        let mut until: Option<Instant> = None;
        let mut wake_at = |at: Instant| until = Some(until.map_or(at, |earlier| earlier.min(at)));
        if now < self.next_refresh {
            wake_at(self.next_refresh);
        } else {
            sources.push(self.view.source());
            sources.extend(self.output.as_ref().and_then(OutputFile::source));
        }
        // While the terminal accepts no output, a newer frame is of no use.
        if self.shows_clocks() && !self.is_dirty {
            wake_at(self.next_clock);
            wake_at(self.next_sample);
        }
        let timeout = until.map(|until| {
            // poll(2) counts milliseconds, and must not return just before the time.
            until.saturating_duration_since(now) + Duration::from_millis(1)
        });
        self.console.wait(&sources, timeout).map_err(TopError::Terminal)
    }

    /// Returns whether anything on the screen changes with the time alone.
    fn shows_clocks(&self) -> bool {
        let list = &self.app.list;
        match &self.app.detail_row {
            Some(row) => row.is_live(),
            None if self.app.options.sort.needs_sample() => {
                list.totals.running + list.totals.queued > 0
            }
            None => !list.visible_live_ids(self.app.list_height()).is_empty(),
        }
    }

    fn draw(&mut self) -> Result<(), TopError> {
        if !self.is_dirty || !self.console.is_ready() {
            return Ok(());
        }
        (self.app.columns, self.app.rows) = self.console.size();
        self.app.now = clock::monotonic_now();
        self.load_rows();
        let (frame, cursor) = draw::draw(&self.app);
        self.is_dirty = false;
        self.console.draw(frame, cursor).map_err(TopError::Terminal)
    }

    fn on_event(&mut self, event: ConsoleEvent) -> Result<Flow, TopError> {
        match event {
            ConsoleEvent::Closed => Ok(Flow::Quit),
            ConsoleEvent::Signal(signal) => self.on_signal(signal),
            ConsoleEvent::Key(key) => self.on_key(key),
        }
    }

    fn on_key(&mut self, key: Key) -> Result<Flow, TopError> {
        self.is_dirty = true;
        let shown_tab = |app: &App| app.detail.as_ref().map(|detail| (detail.id, detail.tab));
        let before = shown_tab(&self.app);
        for effect in self.app.on_key(key) {
            if self.carry_out(effect)? == Flow::Quit {
                return Ok(Flow::Quit);
            }
        }
        if self.app.detail.is_none() {
            self.output = None;
            // The next key may apply to a task that was not on the screen before.
            self.load_rows();
        } else if shown_tab(&self.app) != before {
            self.update_detail(None);
        }
        Ok(Flow::Continue)
    }

    fn on_signal(&mut self, signal: Signal) -> Result<Flow, TopError> {
        match signal {
            Signal::TERM | Signal::HUP | Signal::QUIT | Signal::INT => return Ok(Flow::Quit),
            Signal::TSTP => self.console.suspend().map_err(TopError::Terminal)?,
            // The shell may have changed the mode of the terminal.
            Signal::CONT => self.console.reenter().map_err(TopError::Terminal)?,
            _ => {}
        }
        self.is_dirty = true;
        Ok(Flow::Continue)
    }

    fn carry_out(&mut self, effect: Effect) -> Result<Flow, TopError> {
        match effect {
            Effect::Quit => return Ok(Flow::Quit),
            Effect::Suspend => {
                self.console.suspend().map_err(TopError::Terminal)?;
                self.refresh();
            }
            Effect::Repaint => self.console.invalidate(),
            Effect::Arrange => self.arrange(),
            Effect::OpenDetail(id) => self.open_detail(id),
            Effect::Act(id, action) => self.start_action(id, action),
            Effect::Output(movement) => {
                if let Err(error) = self.move_output(&movement) {
                    self.show_read_error(error);
                } else if self.app.detail.as_ref().is_some_and(|detail| detail.screen.is_some()) {
                    // The task's screen is kept up to date only while it is shown.
                    self.update_output();
                }
            }
            Effect::CancelSearch => {
                self.acts.cancel_search();
            }
            Effect::Copy(text) => {
                self.app.show_message(format!("copied: {text}"));
                let sequence = screen::copy_sequence(&text);
                self.console.send(sequence.as_bytes()).map_err(TopError::Terminal)?;
            }
            Effect::OpenPager(id) => self.open_pager(id)?,
            Effect::Attach(id) => self.attach(id)?,
        }
        Ok(Flow::Continue)
    }

    fn start_action(&mut self, id: TaskId, action: TaskAction) {
        let note = match action {
            TaskAction::Stop => Some(format!("stopping {id}")),
            TaskAction::Explain { .. } | TaskAction::MeasurePeaks => Some(format!("asking {id}")),
            TaskAction::Extend(_)
            | TaskAction::Input(_)
            | TaskAction::Release
            | TaskAction::Acknowledge => None,
        };
        if let Err(error) = self.acts.start(id, action) {
            self.app.show_error(format!("could not start a thread: {error}"));
        } else if let Some(note) = note {
            self.app.show_progress(note);
        }
    }

    fn on_results(&mut self) {
        for result in self.acts.take_results() {
            self.is_dirty = true;
            match result {
                ActResult::Message(text) => self.app.show_message(text),
                ActResult::Failed(text) => self.app.show_error(text),
                ActResult::Stopped { title, lines } => self.app.show_report(title, lines),
                ActResult::Answer { id, tab, lines } => self.app.set_answer(id, tab, lines),
                ActResult::UsualDurations(found) => {
                    self.is_looking_up = false;
                    for (id, usual) in found {
                        self.view.set_expectation(id, usual);
                    }
                    self.arrange();
                    self.update_detail(None);
                }
                ActResult::Search { scan, found, .. } => self.on_search_result(&scan, found),
            }
        }
    }

    fn on_search_result(&mut self, scan: &Scan, found: Result<Option<u64>, String>) {
        self.app.end_search();
        let size = self.app.output_size();
        let (Some(detail), Some(output)) = (&mut self.app.detail, &mut self.output) else { return };
        match found {
            Ok(Some(offset)) => {
                if let Err(error) = detail.output.show_match(offset, size, output) {
                    self.show_read_error(error);
                }
            }
            Ok(None) => self.app.show_error(describe_no_match(scan)),
            Err(error) => self.show_read_error(error),
        }
    }

    /// Reads the changes of the state directory and of the open output, and updates the parts of
    /// the screen that show them.
    fn refresh(&mut self) {
        let changes = match self.view.refresh() {
            Ok(changes) => changes,
            Err(error) => {
                // A later call may succeed, for example once descriptors are free again.
                self.next_refresh = Instant::now() + RETRY_INTERVAL;
                self.app.show_error(error.to_string());
                self.is_dirty = true;
                return;
            }
        };
        self.without_expectation.extend(&changes.appeared);
        if !changes.is_empty() {
            self.arrange();
        }
        self.update_detail(Some(&changes));
        self.update_output();
    }

    /// Advances the clocks and measures tasks, each when it is due.
    fn on_time(&mut self) {
        let now = Instant::now();
        if !self.shows_clocks() {
            return;
        }
        let is_tick = now >= self.next_clock;
        if is_tick {
            // The ticks keep their distance, so that a measurement shares the wake-up of a tick.
            self.next_clock = (self.next_clock + CLOCK_INTERVAL).max(now);
            self.refresh();
        }
        // The first measurement follows the first frame, which it would delay.
        if now >= self.next_sample && !self.is_dirty {
            self.next_sample = self.next_clock + (SAMPLE_INTERVAL - CLOCK_INTERVAL);
            let ids = self.sampled_ids();
            self.view.sample(&ids);
            self.arrange();
            self.update_measured();
        }
        self.is_dirty |= is_tick;
    }

    /// Returns the tasks to measure: that of the open page; otherwise the live ones on the screen,
    /// or up to [`MAX_SAMPLED_TASKS`] live ones if the order depends on their usage.
    fn sampled_ids(&self) -> Vec<TaskId> {
        if let Some(detail) = &self.app.detail {
            return vec![detail.id];
        }
        if self.app.options.sort.needs_sample() {
            let live = self.view.tasks().filter(|task| task.is_live());
            return live.map(LiveTask::id).take(MAX_SAMPLED_TASKS).collect();
        }
        self.app.list.visible_live_ids(self.app.list_height())
    }

    /// Starts a thread that looks up the usual durations of new tasks, unless one is running.
    fn look_up_expectations(&mut self) {
        if self.is_looking_up || self.without_expectation.is_empty() {
            return;
        }
        let ids = std::mem::take(&mut self.without_expectation);
        let tasks = ids.iter().filter_map(|id| self.view.task(*id));
        let views: Vec<_> =
            tasks.filter(|task| task.is_live()).map(|task| task.view.clone()).collect();
        if !views.is_empty() {
            // Without a thread the screen lacks the usual durations, and nothing else.
            self.is_looking_up = self.acts.look_up(&self.usual_durations, views).is_ok();
        }
    }

    fn present() -> Present {
        Present { awake: clock::monotonic_now(), wall: clock::unix_now() }
    }

    fn arrange(&mut self) {
        let groups = source::list_groups(&self.view, &self.app.options);
        self.app.set_groups(groups, source::count_tasks(&self.view));
        self.is_dirty = true;
    }

    /// Builds the rows of the visible part of the list, unless the page of a task is open.
    fn load_rows(&mut self) {
        if self.app.detail.is_some() {
            return;
        }
        let (height, now) = (self.app.list_height(), Self::present());
        let view = &self.view;
        self.app.list.load_rows(height, |id| Some(source::task_row(view, view.task(id)?, now)));
    }

    fn open_detail(&mut self, id: TaskId) {
        self.output = Some(OutputFile::new(self.view.root().path().to_owned(), id));
        self.view.sample(&[id]);
        self.update_detail(None);
        self.update_output();
    }

    /// Updates the page of a task. With `changes`, updates it only if they contain the task or any
    /// session.
    fn update_detail(&mut self, changes: Option<&Changes>) {
        let Some(detail) = &mut self.app.detail else { return };
        let id = detail.id;
        let is_affected =
            changes.is_none_or(|changes| changes.contains(id) || !changes.sessions.is_empty());
        if !is_affected {
            return;
        }
        let Some(task) = self.view.task(id) else {
            let text = match self.view.unreadable().get(&id) {
                Some(why) => format!("{id} cannot be read: {why}"),
                None => format!("{id} was removed"),
            };
            return self.app.show_error(text);
        };
        let present = Self::present();
        detail.set_lines(panes::tab_lines(detail.tab, &self.view, task, present.awake));
        self.app.set_detail_row(source::task_row(&self.view, task, present));
        self.is_dirty = true;
    }

    /// Updates the page of a task after a measurement.
    fn update_measured(&mut self) {
        let Some(detail) = &self.app.detail else { return };
        match detail.tab {
            DetailTab::Processes | DetailTab::Limits => self.update_detail(None),
            DetailTab::Output | DetailTab::Events | DetailTab::Notices | DetailTab::Facts => {
                let row = |task| source::task_row(&self.view, task, Self::present());
                if let Some(row) = self.view.task(detail.id).map(row) {
                    self.app.set_detail_row(row);
                }
            }
        }
    }

    /// Loads new output of the open task.
    fn update_output(&mut self) {
        let (Some(detail), Some(output)) = (&mut self.app.detail, &mut self.output) else { return };
        if let Some(row) = &self.app.detail_row {
            output.watch(&row.output_path);
        }
        output.clear_events();
        let refreshed = detail.output.refresh(output).and_then(|has_changed| {
            let has_terminal = self.app.detail_row.as_ref().is_some_and(|row| row.has_terminal);
            let is_shown = detail.tab == DetailTab::Output && detail.output.is_following();
            if !has_terminal || !is_shown {
                return Ok(has_changed);
            }
            // The size of the terminal can change without output.
            let screen = output.read_screen()?;
            let is_redrawn = screen != detail.screen;
            detail.screen = screen;
            Ok(has_changed || is_redrawn)
        });
        match refreshed {
            Ok(has_changed) => self.is_dirty |= has_changed && detail.tab == DetailTab::Output,
            Err(error) => self.show_read_error(error),
        }
    }

    fn show_read_error(&mut self, error: impl std::fmt::Display) {
        self.app.show_error(format!("the output could not be read: {error}"));
    }

    fn move_output(&mut self, movement: &OutputMove) -> io::Result<()> {
        let size = self.app.output_size();
        let (Some(detail), Some(output)) = (&mut self.app.detail, &mut self.output) else {
            return Ok(());
        };
        let (id, pane) = (detail.id, &mut detail.output);
        let step = match movement {
            OutputMove::Scroll(direction, rows) => {
                return pane.scroll(*direction, *rows, size, output);
            }
            OutputMove::Start => return pane.go_to_start(output),
            OutputMove::End => return pane.go_to_end(output),
            OutputMove::ToggleFollowing => return pane.toggle_following(size, output),
            OutputMove::Search(needle, direction) => pane.search(needle, *direction, size),
            OutputMove::FirstError => SearchStep::Scan(pane.first_error_scan()),
        };
        match step {
            SearchStep::Found => {}
            SearchStep::NoText => self.app.show_error("/ searches"),
            SearchStep::Scan(scan) => match self.acts.search(id, scan) {
                Ok(()) => self.app.show_search(),
                Err(error) => self.app.show_error(format!("could not start a thread: {error}")),
            },
        }
        Ok(())
    }
}

/// Returns a sentence about a search that has found no line.
fn describe_no_match(scan: &Scan) -> String {
    match (&scan.pattern, scan.direction) {
        (Pattern::Error, _) => "no line looks like an error".to_owned(),
        (Pattern::Text(needle), Direction::Backward) => {
            format!("not found above; n searches below: {needle}")
        }
        (Pattern::Text(needle), Direction::Forward) => {
            format!("not found below; N searches above: {needle}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output_pane::OutputPane;

    #[test]
    fn a_search_without_a_result_is_described() {
        let mut pane = OutputPane::new();
        let mut text = |needle, direction| {
            let SearchStep::Scan(scan) = pane.search(needle, direction, (80, 24)) else {
                panic!("nothing is loaded")
            };
            describe_no_match(&scan)
        };
        assert_eq!(text("X", Direction::Forward), "not found below; N searches above: x");
        assert_eq!(text("", Direction::Backward), "not found above; n searches below: x");
        assert_eq!(describe_no_match(&pane.first_error_scan()), "no line looks like an error");
    }
}
