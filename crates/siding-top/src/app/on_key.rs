//! Maps keys and mouse events to changes of the screen and to effects.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a key that is not bound on a page has no effect there, and neither has a new key"
)]

use siding_model::duration;
use siding_model::id::TaskId;
use siding_model::key_input::{Key, MouseAction, MouseEvent};
use siding_model::text::one_line;

use super::{App, DEFAULT_EXTENSION, Effect, Message, OutputMove, Overlay, PromptKind, TaskAction};
use crate::detail::{Detail, DetailTab, PaneLine, wrap_lines};
use crate::output_pane::Direction;
use crate::row::TaskRow;
use crate::{columns, geometry, help};

/// Tasks or rows by which the wheel of the mouse scrolls.
const WHEEL_ROWS: usize = 3;
/// Maximum number of bytes of an input line.
const MAX_PROMPT_BYTES: usize = 4096;
/// Maximum width of a command in a question.
const QUESTION_COMMAND_COLUMNS: usize = 40;

/// A movement that the list, the output and the other tabs have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Movement {
    Lines(isize),
    Start,
    End,
}

impl App {
    /// Handles a key. Returns the effects in the order in which they must be carried out.
    pub(crate) fn on_key(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Ctrl('z') => return vec![Effect::Suspend],
            Key::Ctrl('l') => return vec![Effect::Repaint],
            _ => {}
        }
        self.remove_message();
        let mut effects = self.on_bound_key(key);
        let is_move = |effect: &Effect| matches!(effect, Effect::Output(_));
        if (self.detail.is_none() || effects.iter().any(is_move)) && self.end_search() {
            effects.insert(0, Effect::CancelSearch);
        }
        self.open_waiting_report();
        effects
    }

    /// Handles a key on the page, or in the box or input line over it.
    fn on_bound_key(&mut self, key: Key) -> Vec<Effect> {
        match self.overlay.take() {
            None => self.on_page_key(key),
            Some(Overlay::Prompt { kind, text }) => self.on_prompt_key(kind, text, key),
            Some(Overlay::Confirmation { id, action, question }) => match key {
                Key::Char('y' | 'Y') => vec![Effect::Act(id, action)],
                Key::Mouse(_) => {
                    self.overlay = Some(Overlay::Confirmation { id, action, question });
                    Vec::new()
                }
                _ => {
                    self.show_message("nothing was done");
                    Vec::new()
                }
            },
            Some(Overlay::Help(top)) => {
                if let Some(top) = self.scrolled_box(&key, top, &help::help_lines()) {
                    self.overlay = Some(Overlay::Help(top));
                }
                Vec::new()
            }
            Some(Overlay::Report { title, lines, top }) => {
                if let Some(top) = self.scrolled_box(&key, top, &lines) {
                    self.overlay = Some(Overlay::Report { title, lines, top });
                }
                Vec::new()
            }
        }
    }

    /// Returns the first visible row of a box after a key, or `None` if the key closes the box.
    fn scrolled_box(&self, key: &Key, top: usize, lines: &[PaneLine]) -> Option<usize> {
        let height = geometry::box_height(self.rows);
        let rows = wrap_lines(lines, geometry::box_text_columns(self.columns));
        let last_top = rows.len().saturating_sub(height);
        Some(match self.movement(key, height)? {
            // In a terminal that has become wider, `top` may be beyond the last position.
            Movement::Lines(by) => top.min(last_top).saturating_add_signed(by).min(last_top),
            Movement::Start => 0,
            Movement::End => last_top,
        })
    }

    /// Returns the movement that a key requests on a page with this number of rows; `None` for
    /// another key.
    fn movement(&self, key: &Key, height: usize) -> Option<Movement> {
        let page = height.max(1).cast_signed();
        let half = (height / 2).max(1).cast_signed();
        Some(match key {
            Key::Down | Key::Char('j') | Key::Ctrl('n') => Movement::Lines(1),
            Key::Up | Key::Char('k') | Key::Ctrl('p') => Movement::Lines(-1),
            Key::PageDown | Key::Ctrl('f') => Movement::Lines(page),
            Key::PageUp | Key::Ctrl('b') => Movement::Lines(-page),
            Key::Ctrl('d') => Movement::Lines(half),
            Key::Ctrl('u') => Movement::Lines(-half),
            Key::Home | Key::Char('g') => Movement::Start,
            Key::End | Key::Char('G') => Movement::End,
            Key::Mouse(MouseEvent { action: MouseAction::WheelDown, .. }) => {
                Movement::Lines(WHEEL_ROWS.cast_signed())
            }
            Key::Mouse(MouseEvent { action: MouseAction::WheelUp, .. }) => {
                Movement::Lines(-WHEEL_ROWS.cast_signed())
            }
            _ => return None,
        })
    }

    fn on_page_key(&mut self, key: Key) -> Vec<Effect> {
        if let Key::Mouse(MouseEvent { action: MouseAction::Press, column, row }) = key {
            return self.on_click(usize::from(column), usize::from(row));
        }
        let height = if self.detail.is_some() { self.pane_height() } else { self.list_height() };
        if let Some(movement) = self.movement(&key, height) {
            return self.move_by(movement);
        }
        let page_effects =
            if self.detail.is_some() { self.on_detail_key(&key) } else { self.on_list_key(&key) };
        page_effects.unwrap_or_else(|| self.on_task_key(&key))
    }

    fn move_by(&mut self, movement: Movement) -> Vec<Effect> {
        let size = (self.columns, self.pane_height());
        let Some(detail) = &mut self.detail else {
            self.list.move_selection(match movement {
                Movement::Lines(by) => by,
                Movement::Start => isize::MIN / 2,
                Movement::End => isize::MAX / 2,
            });
            return Vec::new();
        };
        if detail.tab != DetailTab::Output {
            detail.scroll(
                match movement {
                    Movement::Lines(by) => by,
                    Movement::Start => isize::MIN / 2,
                    Movement::End => isize::MAX / 2,
                },
                size,
            );
            return Vec::new();
        }
        vec![Effect::Output(match movement {
            Movement::Lines(by) if by < 0 => {
                OutputMove::Scroll(Direction::Backward, by.unsigned_abs())
            }
            Movement::Lines(by) => OutputMove::Scroll(Direction::Forward, by.unsigned_abs()),
            Movement::Start => OutputMove::Start,
            Movement::End => OutputMove::End,
        })]
    }

    /// Handles a key of the list. Returns `None` if the key has no meaning there.
    fn on_list_key(&mut self, key: &Key) -> Option<Vec<Effect>> {
        match key {
            Key::Char('q') | Key::Ctrl('c') => return Some(vec![Effect::Quit]),
            Key::Enter | Key::Newline | Key::Right | Key::Char('l') => {
                return Some(self.open_selected());
            }
            Key::Char('/') => {
                let text = self.options.filter.clone();
                self.overlay = Some(Overlay::Prompt { kind: PromptKind::Filter, text });
                return Some(Vec::new());
            }
            Key::Escape if self.options.filter.is_empty() => return Some(Vec::new()),
            Key::Escape => self.options.filter.clear(),
            Key::Char('s') => self.options.cycle_sort(true),
            Key::Char('S') => self.options.cycle_sort(false),
            Key::Char('t') => self.options.cycle_grouping(),
            Key::Char('a') => self.options.hides_ended = !self.options.hides_ended,
            _ => return None,
        }
        Some(vec![Effect::Arrange])
    }

    fn open_selected(&mut self) -> Vec<Effect> {
        let Some(row) = self.list.selected().cloned() else { return Vec::new() };
        let id = row.id;
        self.detail = Some(Detail::new(id));
        self.detail_row = Some(row);
        vec![Effect::OpenDetail(id)]
    }

    /// Handles a key of the page of a task. Returns `None` if the key has no meaning there.
    fn on_detail_key(&mut self, key: &Key) -> Option<Vec<Effect>> {
        if *key == Key::Escape && self.detail.is_some() && self.end_search() {
            self.show_message("the search was canceled");
            return Some(vec![Effect::CancelSearch]);
        }
        let detail = self.detail.as_mut()?;
        match key {
            Key::Ctrl('c') => return Some(vec![Effect::Quit]),
            Key::Char('q' | 'h') | Key::Escape | Key::Left => {
                (self.detail, self.detail_row) = (None, None);
                return Some(Vec::new());
            }
            Key::Tab | Key::Right => detail.select_tab(detail.tab.cycle(true)),
            Key::BackTab => detail.select_tab(detail.tab.cycle(false)),
            Key::Char(digit @ '1'..='6') => {
                let index = usize::from(*digit as u8 - b'1');
                detail.select_tab(DetailTab::ALL_TABS[index]);
            }
            Key::Char('/') => {
                detail.select_tab(DetailTab::Output);
                self.prompt(PromptKind::Search);
            }
            Key::Char('a') => return Some(self.attach()),
            Key::Char('n' | 'N' | 'E' | 'f' | ' ') => {
                detail.select_tab(DetailTab::Output);
                let search = |direction| OutputMove::Search(String::new(), direction);
                return Some(vec![Effect::Output(match key {
                    Key::Char('n') => search(Direction::Forward),
                    Key::Char('N') => search(Direction::Backward),
                    Key::Char('E') => OutputMove::FirstError,
                    _ => OutputMove::ToggleFollowing,
                })]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Requests the terminal of the task whose page is open.
    fn attach(&mut self) -> Vec<Effect> {
        let Some(row) = &self.detail_row else { return Vec::new() };
        let (id, has_terminal, is_live) = (row.id, row.has_terminal, row.is_live());
        match (has_terminal, is_live) {
            (true, true) => return vec![Effect::Attach(id)],
            (true, false) => self.show_error(format!("{id} has ended")),
            (false, _) => self.show_error(format!(
                "{id} has no terminal; `siding run --pty` starts a command with one"
            )),
        }
        Vec::new()
    }

    /// Handles `?`, and the keys that apply to a task in the list and on its page.
    fn on_task_key(&mut self, key: &Key) -> Vec<Effect> {
        if *key == Key::Char('?') {
            self.overlay = Some(Overlay::Help(0));
            return Vec::new();
        }
        let Some(row) = self.current().cloned() else { return Vec::new() };
        match key {
            Key::Char('y') => return vec![Effect::Copy(row.id.to_string())],
            Key::Char('Y') => return vec![Effect::Copy(row.command)],
            Key::Char('p') => return vec![Effect::Copy(row.output_path)],
            Key::Char('o') => return vec![Effect::OpenPager(row.id)],
            Key::Char('w') => return self.explain(&row),
            Key::Char('x' | 'e' | 'i' | 'r' | 'A') if self.is_read_only => {
                self.show_error("siding top was started with --read-only");
            }
            Key::Char('x') => self.ask_stop(&row),
            Key::Char('e') if row.is_live() => self.prompt(PromptKind::Extend(row.id)),
            Key::Char('i') if row.is_live() => self.prompt(PromptKind::Input(row.id)),
            Key::Char('r') => self.ask_release(&row),
            Key::Char('A') if row.unread_notices > 0 => {
                return vec![Effect::Act(row.id, TaskAction::Acknowledge)];
            }
            Key::Char('A') => self.show_message(format!("no notice of {} is new", row.id)),
            Key::Char('e' | 'i') => self.show_error(format!("{} has ended", row.id)),
            _ => {}
        }
        Vec::new()
    }

    fn explain(&mut self, row: &TaskRow) -> Vec<Effect> {
        if !row.is_live() {
            self.show_message(format!("{} has ended: {}", row.id, row.state_text));
            return Vec::new();
        }
        if self.detail.as_ref().is_some_and(|detail| detail.tab == DetailTab::Limits) {
            return vec![Effect::Act(row.id, TaskAction::MeasurePeaks)];
        }
        let mut effects = Vec::new();
        if self.detail.is_none() {
            effects = self.open_selected();
        }
        if let Some(detail) = &mut self.detail {
            detail.select_tab(DetailTab::Processes);
        }
        let may_repair = !self.is_read_only;
        effects.push(Effect::Act(row.id, TaskAction::Explain { may_repair }));
        effects
    }

    fn prompt(&mut self, kind: PromptKind) {
        self.overlay = Some(Overlay::Prompt { kind, text: String::new() });
    }

    fn ask_stop(&mut self, row: &TaskRow) {
        if !row.is_live() {
            return self.show_error(format!("{} has already ended: {}", row.id, row.state_text));
        }
        let command = one_line(&row.title_line(), QUESTION_COMMAND_COLUMNS);
        let processes = match row.processes {
            Some(count) if count > 1 => format!(" and its {count} processes"),
            Some(_) | None => String::new(),
        };
        self.confirm(row.id, TaskAction::Stop, format!("stop {} ({command}){processes}?", row.id));
    }

    fn ask_release(&mut self, row: &TaskRow) {
        if !row.is_adopted || !row.is_live() {
            return self.show_error("only an adopted process that is running can be released");
        }
        let question = format!("release {}, so that siding no longer stops it?", row.id);
        self.confirm(row.id, TaskAction::Release, question);
    }

    fn confirm(&mut self, id: TaskId, action: TaskAction, question: String) {
        self.overlay = Some(Overlay::Confirmation { id, action, question });
    }

    fn on_prompt_key(&mut self, kind: PromptKind, mut text: String, key: Key) -> Vec<Effect> {
        let is_filter = kind == PromptKind::Filter;
        match key {
            Key::Enter | Key::Newline => return self.submit(kind, text),
            Key::Escape | Key::Ctrl('c') => {
                if is_filter {
                    self.options.filter.clear();
                    return vec![Effect::Arrange];
                }
                return Vec::new();
            }
            Key::Char(c) if text.len() + c.len_utf8() <= MAX_PROMPT_BYTES => text.push(c),
            Key::Paste(pasted) if text.len() + pasted.len() <= MAX_PROMPT_BYTES => {
                text.extend(pasted.chars().filter_map(|c| pasted_char(c, &kind)));
            }
            Key::Paste(_) => {
                let limit = format!("an input line has at most {MAX_PROMPT_BYTES} bytes");
                self.message = Some(Message { text: limit, is_error: true });
            }
            Key::Backspace => {
                text.pop();
            }
            Key::Ctrl('u') => text.clear(),
            Key::Ctrl('w') => {
                let kept = text.trim_end().trim_end_matches(|c: char| !c.is_whitespace()).len();
                text.truncate(kept);
            }
            _ => {}
        }
        let effects = if is_filter && self.options.filter != text {
            self.options.filter.clone_from(&text);
            vec![Effect::Arrange]
        } else {
            Vec::new()
        };
        self.overlay = Some(Overlay::Prompt { kind, text });
        effects
    }

    fn submit(&mut self, kind: PromptKind, text: String) -> Vec<Effect> {
        match kind {
            PromptKind::Filter => Vec::new(),
            PromptKind::Search => {
                vec![Effect::Output(OutputMove::Search(text, Direction::Forward))]
            }
            PromptKind::Input(id) => {
                let newline = if text.ends_with('\n') { "" } else { "\n" };
                vec![Effect::Act(id, TaskAction::Input(text + newline))]
            }
            PromptKind::Extend(id) => self.submit_extension(id, text),
        }
    }

    fn submit_extension(&mut self, id: TaskId, text: String) -> Vec<Effect> {
        let more = if text.trim().is_empty() { DEFAULT_EXTENSION } else { text.trim() };
        match duration::parse(more) {
            Ok(more) => vec![Effect::Act(id, TaskAction::Extend(more))],
            Err(error) => {
                // The message is about the input line, so it is shown before that line is closed.
                self.message = Some(Message { text: error.to_string(), is_error: true });
                self.overlay = Some(Overlay::Prompt { kind: PromptKind::Extend(id), text });
                Vec::new()
            }
        }
    }

    /// Handles a click: selects the task or tab, opens a task that was selected already, and sorts
    /// by the column of a heading.
    fn on_click(&mut self, column: usize, row: usize) -> Vec<Effect> {
        if let Some(detail) = &mut self.detail {
            if row == geometry::TABS_ROW
                && let Some(tab) = geometry::tab_at(column, self.columns, detail.tab)
            {
                detail.select_tab(tab);
            }
            return Vec::new();
        }
        if row == geometry::HEADINGS_ROW
            && let Some(heading) =
                columns::column_at(column, self.columns, &self.list.empty_columns())
        {
            self.options.sort = heading.sort_key();
            return vec![Effect::Arrange];
        }
        let Some(row) = row.checked_sub(geometry::FIRST_TASK_ROW) else { return Vec::new() };
        if row >= self.list_height() {
            return Vec::new();
        }
        let before = self.list.selected_id();
        if self.list.select_visible(row) && self.list.selected_id() == before {
            return self.open_selected();
        }
        Vec::new()
    }
}

/// Returns the character that a pasted one becomes in an input line; `None` if it is left out. A
/// task receives pasted lines as they are; in other input lines their ends separate words.
fn pasted_char(c: char, kind: &PromptKind) -> Option<char> {
    let keeps_lines = matches!(kind, PromptKind::Input(_));
    match c {
        '\n' | '\t' if keeps_lines => Some(c),
        '\n' | '\t' => Some(' '),
        _ => (!c.is_control()).then_some(c),
    }
}
