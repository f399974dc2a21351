//! Walks a simple command and its redirections, for up to [`MAX_CHOICES`] of the possible
//! combinations of variable values and working directory.

use std::rc::Rc;

use super::expand::{self, Field};
use super::observation::{Arg, Observation};
use super::variables::DIRECTORY_KEY;
use super::walk::{ExecContext, MAX_CHOICES, Walker};
use crate::ast::{Assignment, Redirect, Span, Word};

impl Walker {
    pub(super) fn walk_redirect(
        &mut self,
        redirect: &Redirect,
        context: &ExecContext,
        redirected: &mut Option<ExecContext>,
    ) {
        let (Redirect::Writes { to: word, .. }
        | Redirect::Reads(word)
        | Redirect::Heredoc(word)
        | Redirect::Other(word)) = redirect;
        self.walk_word(word, context);
        match redirect {
            Redirect::Writes { to, is_append: appends } => {
                for field in expand::expand_fields(to, &self.variables, 0) {
                    for directory in self.possible_directories() {
                        let to = Arg { text: field.text.clone(), span: field.span };
                        self.observations.push(Observation::FileWrite {
                            to,
                            is_append: *appends,
                            directory,
                        });
                    }
                }
            }
            Redirect::Heredoc(word) => {
                let field = expand::expand_unsplit(word, &self.variables, 0);
                let redirected = redirected.get_or_insert_with(|| context.clone());
                redirected.stdin = Some(field);
                redirected.has_redirected_stdin = true;
                redirected.stdin_file = None;
                redirected.upstream.clear();
            }
            Redirect::Reads(word) => {
                let field = expand::expand_unsplit(word, &self.variables, 0);
                for directory in self.possible_directories() {
                    let from = Arg { text: field.text.clone(), span: field.span };
                    self.observations.push(Observation::FileRead { from, directory });
                }
                let redirected = redirected.get_or_insert_with(|| context.clone());
                // `bash < <(curl …)` reads the output of curl.
                let (programs, text) = field.process_substitution.clone().unwrap_or_default();
                redirected.upstream = programs;
                redirected.has_redirected_stdin = true;
                redirected.stdin_file =
                    field.process_substitution.is_none().then(|| field.text.clone());
                redirected.stdin = text.map(|text| Field { text, offset: None, ..field });
            }
            Redirect::Other(_) => {}
        }
    }

    pub(super) fn walk_simple(
        &mut self,
        assignments: &[Assignment],
        words: &[Word],
        span: Span,
        context: &ExecContext,
    ) {
        if words.is_empty() {
            self.assign(assignments, context);
            return;
        }
        if words.iter().any(Word::may_run_commands) {
            // In `curl -d "$(cat x)"`, curl receives the output of cat.
            let mut inside = context.clone();
            inside.downstream.extend(words[0].static_text());
            self.walk_words(words, &inside);
        }
        let choices = expand::count_choices(words, &self.variables).min(MAX_CHOICES);
        let variants: Vec<Vec<Field>> = (0..choices)
            .map(|choice| {
                words
                    .iter()
                    .flat_map(|word| expand::expand_fields(word, &self.variables, choice))
                    .collect()
            })
            .collect();
        if let Some(field) = variants.iter().flatten().find(|field| field.has_unexpanded_braces) {
            self.report_too_deep(field.span);
        }
        // The assignments apply only to this command and to a text that the command runs.
        let before = Rc::clone(&self.variables);
        self.assign(assignments, context);
        let directories = self.variables.count_values(DIRECTORY_KEY);
        for choice in 0..(variants.len() * directories).min(MAX_CHOICES) {
            self.directory_choice = choice / variants.len();
            self.resolve_call(&variants[choice % variants.len()], span, context);
        }
        self.directory_choice = 0;
        if !assignments.is_empty() {
            self.variables = before;
        }
        let entered = std::mem::take(&mut self.cd_targets);
        if !entered.is_empty() {
            let previous_directories = self.possible_directories();
            let variables = Rc::make_mut(&mut self.variables);
            variables.set_alternatives("OLDPWD", previous_directories);
            variables.set_alternatives(DIRECTORY_KEY, entered);
            variables.unset("PWD");
        }
        self.follow_setting_builtins(words, context);
    }
}
