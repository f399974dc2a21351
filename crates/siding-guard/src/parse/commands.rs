//! Converts the commands of the parser crate's tree into the types in [`ast`](crate::ast).

use std::rc::Rc;

use shuck_ast::{
    AlwaysCommand, ArithmeticForCommand, ArrayElem, AssignmentValue, BinaryCommand, BinaryOp,
    BuiltinCommand, Command, CompoundCommand, DeclOperand, RedirectKind, RedirectTarget, Stmt,
    StmtSeq, StmtTerminator,
};

use super::AstConverter;
use crate::ast::{Assignment, GroupKind, Loop, LoopKind, Node, Piece, Redirect, Statement, Word};

impl AstConverter<'_> {
    // The recursion in this module is bounded, because the parser limits the nesting to 100 levels,
    // and a chain is flattened in a loop.
    pub(super) fn statements(&mut self, sequence: &StmtSeq) -> Vec<Statement> {
        sequence.iter().map(|statement| self.statement(statement)).collect()
    }

    fn statement(&mut self, statement: &Stmt) -> Statement {
        let redirects = statement.redirects.iter().map(|one| self.redirect(one)).collect();
        Statement {
            node: self.command(&statement.command),
            redirects,
            is_background: matches!(statement.terminator, Some(StmtTerminator::Background(_))),
            span: self.span(statement.span),
        }
    }

    fn command(&mut self, command: &Command) -> Node {
        match command {
            Command::Simple(command) => {
                let mut assignments = self.convert_assignments(&command.assignments);
                // For `A=1` without a program, the parser returns a command name without parts.
                let name = (!command.name.parts.is_empty()).then(|| self.word(&command.name));
                let name = name.filter(|word| {
                    word.static_text()
                        .is_none_or(|text| !text.is_empty() || word.span.end > word.span.start)
                });
                let arguments: Vec<_> = command.args.iter().map(|word| self.word(word)).collect();
                let mut words: Vec<Word> = name.into_iter().chain(arguments).collect();
                attach_process_substitution(&mut assignments, &mut words);
                Node::Simple { assignments, words }
            }
            Command::Builtin(builtin) => {
                let words = self.jump_words(builtin);
                let depth = words.first().and_then(Word::static_text);
                let is_own_continue = matches!(builtin, BuiltinCommand::Continue(_))
                    && depth.is_none_or(|depth| depth == "1");
                Node::Jump { words, leaves_loop: !is_own_continue }
            }
            Command::Decl(clause) => {
                let mut assignments = self.convert_assignments(&clause.assignments);
                let mut words = vec![];
                for operand in &clause.operands {
                    match operand {
                        DeclOperand::Flag(word) | DeclOperand::Dynamic(word) => {
                            words.push(self.word(word));
                        }
                        DeclOperand::Name(name) => words.extend(self.subscript_words(name)),
                        DeclOperand::Assignment(one) => {
                            assignments.push(self.convert_assignment(one))
                        }
                    }
                }
                attach_process_substitution(&mut assignments, &mut words);
                Node::Declaration { assignments, words }
            }
            Command::Binary(binary) => self.pipeline_or_chain(binary),
            Command::Compound(compound) => self.compound(compound),
            Command::Function(function) => Node::Function {
                name: function.static_names().next().map(ToString::to_string),
                body: Rc::new(self.statement(&function.body)),
            },
            Command::AnonymousFunction(function) => Node::Group {
                body: vec![self.statement(&function.body)],
                kind: GroupKind::CurrentShell,
            },
        }
    }

    fn jump_words(&mut self, builtin: &BuiltinCommand) -> Vec<Word> {
        let (first, rest) = match builtin {
            BuiltinCommand::Break(it) => (&it.depth, &it.extra_args),
            BuiltinCommand::Continue(it) => (&it.depth, &it.extra_args),
            BuiltinCommand::Return(it) => (&it.code, &it.extra_args),
            BuiltinCommand::Exit(it) => (&it.code, &it.extra_args),
        };
        first.iter().chain(rest).map(|word| self.word(word)).collect()
    }

    /// Flattens commands that are joined by one kind of operator. The parser nests such commands to
    /// the left, one level for each operator.
    fn pipeline_or_chain(&mut self, command: &BinaryCommand) -> Node {
        let is_pipe = |op: BinaryOp| matches!(op, BinaryOp::Pipe | BinaryOp::PipeAll);
        let piped = is_pipe(command.op);
        let mut reversed = vec![self.statement(&command.right)];
        let mut left = &command.left;
        while let Command::Binary(inner) = &left.command
            && is_pipe(inner.op) == piped
            && left.redirects.is_empty()
        {
            reversed.push(self.statement(&inner.right));
            left = &inner.left;
        }
        reversed.push(self.statement(left));
        reversed.reverse();
        if piped { Node::Pipeline(reversed) } else { Node::Chain(reversed) }
    }

    fn compound(&mut self, compound: &CompoundCommand) -> Node {
        let here = |body| Node::Group { body, kind: GroupKind::CurrentShell };
        match compound {
            CompoundCommand::If(branch) => {
                let mut maybe = vec![self.statements(&branch.then_branch)];
                for (condition, body) in &branch.elif_branches {
                    maybe.push(self.statements(condition));
                    maybe.push(self.statements(body));
                }
                maybe.extend(branch.else_branch.as_ref().map(|body| self.statements(body)));
                Node::Branches { words: vec![], always: self.statements(&branch.condition), maybe }
            }
            CompoundCommand::Case(case) => {
                let mut words = vec![self.word(&case.word)];
                let patterns = case.cases.iter().flat_map(|item| &item.patterns);
                words.extend(patterns.flat_map(|pattern| self.pattern_words(pattern)));
                let maybe = case.cases.iter().map(|item| self.statements(&item.body)).collect();
                Node::Branches { words, always: vec![], maybe }
            }
            CompoundCommand::For(each) => {
                let name = each.targets.first().and_then(|target| target.name.as_ref());
                let words = each.words.iter().flatten().map(|word| self.word(word)).collect();
                self.for_loop(name.map(ToString::to_string), words, &each.body)
            }
            CompoundCommand::Foreach(each) => {
                let words = each.words.iter().map(|word| self.word(word)).collect();
                self.for_loop(Some(each.variable.to_string()), words, &each.body)
            }
            CompoundCommand::Select(each) => {
                let words = each.words.iter().map(|word| self.word(word)).collect();
                let variable = Some(each.variable.to_string());
                let body = self.statements(&each.body);
                let (kind, condition) = (LoopKind::Menu, vec![]);
                Node::Loop(Box::new(Loop { kind, variable, words, condition, body }))
            }
            CompoundCommand::Repeat(repeat) => {
                let words = vec![self.word(&repeat.count)];
                self.for_loop(None, words, &repeat.body)
            }
            CompoundCommand::ArithmeticFor(each) => self.arithmetic_for(each),
            CompoundCommand::While(each) => {
                self.while_loop(LoopKind::While, &each.condition, &each.body)
            }
            CompoundCommand::Until(each) => {
                self.while_loop(LoopKind::Until, &each.condition, &each.body)
            }
            CompoundCommand::Subshell(body) => {
                Node::Group { body: self.statements(body), kind: GroupKind::Subshell }
            }
            CompoundCommand::BraceGroup(body) => here(self.statements(body)),
            CompoundCommand::Time(time) => {
                here(time.command.iter().map(|timed| self.statement(timed)).collect())
            }
            CompoundCommand::Always(always) => {
                let AlwaysCommand { body, always_body, .. } = &**always;
                let mut body = self.statements(body);
                body.extend(self.statements(always_body));
                here(body)
            }
            CompoundCommand::Coproc(coproc) => {
                Node::Group { body: vec![self.statement(&coproc.body)], kind: GroupKind::Coprocess }
            }
            CompoundCommand::Arithmetic(command) => {
                let span = command.expr_span.unwrap_or(command.span);
                Node::Expression(vec![self.arithmetic_word(span)])
            }
            CompoundCommand::Conditional(test) => {
                Node::Expression(self.condition_words(&test.expression))
            }
        }
    }

    fn for_loop(&mut self, variable: Option<String>, words: Vec<Word>, body: &StmtSeq) -> Node {
        let (kind, condition) = (LoopKind::For, vec![]);
        Node::Loop(Box::new(Loop { kind, variable, words, condition, body: self.statements(body) }))
    }

    fn arithmetic_for(&mut self, each: &ArithmeticForCommand) -> Node {
        let spans = [each.init_span, each.condition_span, each.step_span];
        let words = spans.into_iter().flatten().map(|span| self.arithmetic_word(span)).collect();
        let has_condition =
            each.condition_span.is_some_and(|span| !span.slice(self.text).trim().is_empty());
        let kind = if has_condition { LoopKind::For } else { LoopKind::Endless };
        let (variable, condition) = (None, vec![]);
        let body = self.statements(&each.body);
        Node::Loop(Box::new(Loop { kind, variable, words, condition, body }))
    }

    fn while_loop(&mut self, kind: LoopKind, condition: &StmtSeq, body: &StmtSeq) -> Node {
        Node::Loop(Box::new(Loop {
            kind,
            variable: None,
            words: vec![],
            condition: self.statements(condition),
            body: self.statements(body),
        }))
    }

    fn convert_assignments(&mut self, all: &[shuck_ast::Assignment]) -> Vec<Assignment> {
        all.iter().map(|one| self.convert_assignment(one)).collect()
    }

    fn convert_assignment(&mut self, assignment: &shuck_ast::Assignment) -> Assignment {
        let mut words = self.subscript_words(&assignment.target);
        let mut elements = None;
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) => Some(self.word(word)),
            AssignmentValue::Compound(array) => {
                // The parser accepts `a=(b`, for which bash waits for the closing parenthesis. In a
                // `declare`, the span of an array covers only the elements, so the text after the
                // span is checked too.
                let behind = self.text.get(array.span.end.offset()..).unwrap_or_default();
                let is_closed = array.span.slice(self.text).ends_with(')')
                    || behind.trim_start().starts_with(')');
                if !is_closed {
                    let array_span = self.span(array.span);
                    self.report_error(array_span, "`(` is never closed");
                }
                for element in &array.elements {
                    if let ArrayElem::Keyed { key, .. } | ArrayElem::KeyedAppend { key, .. } =
                        element
                    {
                        words.extend(key.word_ast().map(|word| self.word(word)));
                    }
                }
                let all = array.elements.iter().map(|element| self.word(&element.value().word));
                elements = Some(all.collect());
                None
            }
        };
        let element = self.element_name(&assignment.target);
        // The value of an array element with a computed index must not become the value of the
        // variable.
        let is_named = assignment.target.subscript.is_none() || element.is_some();
        let name = element.unwrap_or_else(|| assignment.target.name.to_string());
        let value = value.filter(|_| is_named);
        Assignment { name, value, elements, words, is_append: assignment.append }
    }

    fn redirect(&mut self, redirect: &shuck_ast::Redirect) -> Redirect {
        let word = match &redirect.target {
            RedirectTarget::Word(word) => self.word(word),
            RedirectTarget::Heredoc(heredoc) => return Redirect::Heredoc(self.heredoc(heredoc)),
        };
        match redirect.kind {
            RedirectKind::Output | RedirectKind::Clobber | RedirectKind::OutputBoth => {
                Redirect::Writes { to: word, is_append: false }
            }
            RedirectKind::Append | RedirectKind::ReadWrite => {
                Redirect::Writes { to: word, is_append: true }
            }
            RedirectKind::Input => Redirect::Reads(word),
            RedirectKind::HereString => Redirect::Heredoc(word),
            RedirectKind::HereDoc | RedirectKind::HereDocStrip => Redirect::Heredoc(word),
            // `>&file` writes to a file; `>&2` and `>&-` do not.
            RedirectKind::DupOutput if is_file_target(&word) => {
                Redirect::Writes { to: word, is_append: false }
            }
            RedirectKind::DupOutput | RedirectKind::DupInput => Redirect::Other(word),
        }
    }
}

/// Repairs `NAME=<(…)`: the parser ends the assignment before `<` and returns `<(…)` as a word.
fn attach_process_substitution(assignments: &mut [Assignment], words: &mut Vec<Word>) {
    let Some(value) = assignments.last_mut().and_then(|last| last.value.as_mut()) else { return };
    let is_rest = |word: &Word| {
        word.span.start == value.span.end
            && matches!(word.pieces.first(), Some(Piece::ProcessSubstitution { .. }))
    };
    let is_empty = value.span.start == value.span.end;
    if let Some(at) = words.iter().position(is_rest).filter(|_| is_empty) {
        *value = words.remove(at);
    }
}

fn is_file_target(word: &Word) -> bool {
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '-');
    match word.pieces.as_slice() {
        [Piece::Text { text, .. }] => !is_number(text),
        _ => false,
    }
}
