//! Simple commands, and what is redirected.

use std::rc::Rc;

use super::call::{Arg, Seen};
use super::expand::{self, Field};
use super::walk::{CHOICES_MAX, Place, Walker};
use crate::ast::{Assignment, Redirect, Span, Word};

impl Walker {
    pub(super) fn redirect(&mut self, redirect: &Redirect, place: &Place, own: &mut Option<Place>) {
        let (Redirect::Writes { to: word, .. }
        | Redirect::Reads(word)
        | Redirect::Given(word)
        | Redirect::Other(word)) = redirect;
        self.word(word, place);
        match redirect {
            Redirect::Writes { to, appends } => {
                for field in expand::fields(to, &self.variables, 0) {
                    for directory in self.directories() {
                        let to = Arg { text: field.text.clone(), span: field.span };
                        self.seen.push(Seen::Write { to, appends: *appends, directory });
                    }
                }
            }
            Redirect::Given(word) => {
                let field = expand::joined(word, &self.variables, 0);
                let own = own.get_or_insert_with(|| place.clone());
                own.stdin = Some(field);
                own.has_input = true;
                own.input = None;
                own.upstream.clear();
            }
            Redirect::Reads(word) => {
                let field = expand::joined(word, &self.variables, 0);
                for directory in self.directories() {
                    let from = Arg { text: field.text.clone(), span: field.span };
                    self.seen.push(Seen::Read { from, directory });
                }
                let own = own.get_or_insert_with(|| place.clone());
                // `bash < <(curl …)` reads what curl writes.
                let (programs, text) = field.process.clone().unwrap_or_default();
                own.upstream = programs;
                own.has_input = true;
                own.input = field.process.is_none().then(|| field.text.clone());
                own.stdin = text.map(|text| Field { text, at: None, ..field });
            }
            Redirect::Other(_) => {}
        }
    }

    pub(super) fn simple(
        &mut self,
        assignments: &[Assignment],
        words: &[Word],
        span: Span,
        place: &Place,
    ) {
        if words.is_empty() {
            self.assign(assignments, place);
            return;
        }
        if words.iter().any(Word::has_commands) {
            // `curl -d "$(cat x)"` reads what is written there.
            let mut inside = place.clone();
            inside.downstream.extend(words[0].fixed());
            self.words(words, &inside);
        }
        let choices = expand::choices(words, &self.variables).min(CHOICES_MAX);
        let ways: Vec<Vec<Field>> = (0..choices)
            .map(|choice| {
                words
                    .iter()
                    .flat_map(|word| expand::fields(word, &self.variables, choice))
                    .collect()
            })
            .collect();
        // They hold for the command alone; a text that it runs sees them.
        let before = Rc::clone(&self.variables);
        self.assign(assignments, place);
        let directories = self.variables.count("PWD");
        for choice in 0..(ways.len() * directories).min(CHOICES_MAX) {
            self.place_choice = choice / ways.len();
            self.call(&ways[choice % ways.len()], span, place);
        }
        self.place_choice = 0;
        if !assignments.is_empty() {
            self.variables = before;
        }
        let entered = std::mem::take(&mut self.entered);
        if !entered.is_empty() {
            let left = self.directories();
            let variables = Rc::make_mut(&mut self.variables);
            variables.set_one_of("OLDPWD", left);
            variables.set_one_of("PWD", entered);
        }
        self.sets(words, place);
    }
}
