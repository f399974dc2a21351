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
                    let to = Arg { text: field.text, span: field.span };
                    let directory = self.directory();
                    self.seen.push(Seen::Write { to, appends: *appends, directory });
                }
            }
            Redirect::Given(word) => {
                let field = expand::joined(word, &self.variables, 0);
                let own = own.get_or_insert_with(|| place.clone());
                own.stdin = Some(field);
                own.upstream.clear();
            }
            Redirect::Reads(word) => {
                let field = expand::joined(word, &self.variables, 0);
                let own = own.get_or_insert_with(|| place.clone());
                // `bash < <(curl …)` reads what curl writes.
                let (programs, text) = field.process.clone().unwrap_or_default();
                own.upstream = programs;
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
        self.words(words, place);
        if words.is_empty() {
            self.assign(assignments, place);
            return;
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
        for fields in ways {
            self.call(&fields, span, place);
        }
        if !assignments.is_empty() {
            self.variables = before;
        }
        self.reads(words);
    }
}
