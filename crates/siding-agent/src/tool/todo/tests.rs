//! Tests of to-do lists with random histories: several agents act, some of them die, and crashes
//! tear the journal.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use siding_model::process::{BootId, ProcRef, UnixMs};

use super::commands::{claim, complete, create, give_back};
use super::*;

/// Returns agent number `agent` as an owner, in the agent's process number `life`.
fn todo_owner(agent: usize, life: u64) -> TodoOwner {
    TodoOwner {
        owner: format!("agent {agent}"),
        process: ProcRef {
            pid: 100 + i32::try_from(agent).expect("the number fits in i32"),
            start_ticks: life,
        },
        boot: BootId("boot".to_owned()),
        namespace: 1,
        machine: "machine".to_owned(),
    }
}

fn id(number: usize) -> TodoId {
    format!("t{number}").parse().expect("valid to-do id")
}

fn draft_blocked_by(blocked_by: Vec<TodoId>) -> TodoDraft {
    TodoDraft { subject: "work\n".to_owned(), description: String::new(), blocked_by }
}

/// An action of an agent. `Die` replaces the agent's process with a new one.
#[derive(Debug, Clone)]
enum Action {
    Create(Vec<usize>),
    Claim(usize),
    Complete(usize),
    GiveBack(usize),
    Die,
}

fn action() -> impl Strategy<Value = Action> {
    let number = 1_usize..6;
    prop_oneof![
        3 => proptest::collection::vec(number.clone(), 0..3).prop_map(Action::Create),
        6 => number.clone().prop_map(Action::Claim),
        3 => number.clone().prop_map(Action::Complete),
        1 => number.prop_map(Action::GiveBack),
        1 => Just(Action::Die),
    ]
}

/// The agents that work on one list, and the to-dos that each of them has claimed.
#[derive(Debug, Default)]
struct Simulation {
    journal: Vec<u8>,
    /// How often each agent was restarted.
    restarts: BTreeMap<usize, u64>,
    /// The to-dos that the current process of each agent owns according to the answers that it
    /// received.
    owned: BTreeMap<usize, BTreeSet<TodoId>>,
}

impl Simulation {
    fn owner_of(&self, agent: usize) -> TodoOwner {
        todo_owner(agent, self.restarts.get(&agent).copied().unwrap_or(0))
    }

    fn presence(&self, other: &TodoOwner) -> OwnerPresence {
        let is_alive = (0..3).any(|agent| self.owner_of(agent) == *other);
        if is_alive { OwnerPresence::Running } else { OwnerPresence::Exited }
    }

    /// Applies an action of an agent. Returns `Some` if the action was allowed.
    fn apply(&mut self, agent: usize, act: &Action) -> Option<()> {
        let mut board = TodoState::replay(&self.journal).expect("supported format").state;
        let who = self.owner_of(agent);
        let presence_of = |other: &TodoOwner| self.presence(other);
        let deeds = match act {
            Action::Create(blockers) => create(
                &board,
                &draft_blocked_by(blockers.iter().map(|number| id(*number)).collect()),
            ),
            Action::Claim(number) => claim(&board, id(*number), &who, presence_of),
            Action::Complete(number) => complete(&board, id(*number), &who, presence_of),
            Action::GiveBack(number) => give_back(&board, id(*number), &who, presence_of),
            Action::Die => {
                *self.restarts.entry(agent).or_default() += 1;
                self.owned.remove(&agent);
                return Some(());
            }
        }
        .ok()?;
        let records = record::records_at(UnixMs(0), &deeds);
        self.journal.extend(record::encode_records(&records));
        for record in records {
            assert!(
                board.apply(record.clone()),
                "the change was allowed but does not apply: {record:?}"
            );
        }
        Some(())
    }
}

/// Checks an allowed action against the to-dos that each agent believes it owns.
fn check_invariants(world: &mut Simulation, before: &TodoState, agent: usize, act: &Action) {
    let after = TodoState::replay(&world.journal).expect("supported format");
    assert_eq!((after.ignored_lines, after.is_torn), (0, false));
    let is_completed = |id: &TodoId| {
        before.get(*id).is_some_and(|todo| matches!(todo.status, TodoStatus::Completed { .. }))
    };
    let name = world.owner_of(agent).owner;
    match act {
        Action::Claim(number) => {
            let id = id(*number);
            let todo = before.get(id).expect("a claimed to-do exists");
            assert!(
                todo.blocked_by.iter().all(is_completed),
                "{id} was claimed before its blockers were completed"
            );
            let others = world.owned.iter().filter(|(other, _)| **other != agent);
            for (other, own) in others {
                assert!(!own.contains(&id), "{id} belongs to agent {other}, which is running");
            }
            world.owned.entry(agent).or_default().insert(id);
        }
        Action::Complete(number) => {
            let id = id(*number);
            let todo = before.get(id).expect("a completed to-do exists");
            match &todo.status {
                TodoStatus::Pending => panic!("{id} was completed without a claim"),
                // The owner is the agent that completes the to-do, in this process or an earlier
                // one.
                TodoStatus::InProgress { by, .. } | TodoStatus::Completed { by, .. } => {
                    assert_eq!(by.owner, name)
                }
            }
            world.owned.entry(agent).or_default().remove(&id);
        }
        Action::GiveBack(number) => {
            world.owned.entry(agent).or_default().remove(&id(*number));
        }
        Action::Create(blockers) => {
            assert!(blockers.iter().all(|number| before.get(id(*number)).is_some()));
            assert_eq!(after.state.len(), before.len() + 1);
        }
        Action::Die => {}
    }
    // Each running agent still owns the to-dos that it has claimed.
    for (agent, own) in &world.owned {
        for id in own {
            let state = &after.state.get(*id).expect("the to-do exists").status;
            let who = world.owner_of(*agent);
            assert!(
                matches!(state, TodoStatus::InProgress { by, .. } if *by == who),
                "{id}: {state:?}"
            );
        }
    }
    // A to-do waits only for older ones, so there are no cycles.
    for (id, todo) in after.state.iter() {
        assert!(todo.blocked_by.iter().all(|blocker| *blocker < id));
    }
}

/// Generates arbitrary records, such as those after a lost lock, a merge of two files or an edit by
/// hand.
fn any_record() -> impl Strategy<Value = TodoRecord> {
    let number = 1_usize..5;
    let holders = || (0_usize..2, 0_u64..2).prop_map(|(agent, life)| todo_owner(agent, life));
    let deed = prop_oneof![
        (number.clone(), proptest::collection::vec(1_usize..5, 0..2)).prop_map(
            |(number, others)| {
                TodoChange::Created {
                    id: id(number),
                    subject: "work".to_owned(),
                    description: String::new(),
                    blocked_by: others.into_iter().map(id).collect(),
                }
            }
        ),
        (number.clone(), holders(), proptest::option::of(holders())).prop_map(
            |(number, by, instead_of)| TodoChange::Claimed { id: id(number), by, instead_of }
        ),
        (number.clone(), holders())
            .prop_map(|(number, by)| TodoChange::Returned { id: id(number), by }),
        (number, holders()).prop_map(|(number, by)| TodoChange::Completed { id: id(number), by }),
    ];
    deed.prop_map(|deed| TodoRecord { at: UnixMs(7), deed })
}

proptest! {
    #[test]
    fn no_sequence_of_actions_gives_a_todo_two_owners(
        acts in proptest::collection::vec((0_usize..3, action()), 0..60),
    ) {
        let mut world = Simulation::default();
        for (agent, act) in acts {
            let before = TodoState::replay(&world.journal).expect("supported format").state;
            if world.apply(agent, &act).is_some() {
                check_invariants(&mut world, &before, agent, &act);
            }
        }
    }

    #[test]
    fn arbitrary_records_never_replace_the_first_owner(
        records in proptest::collection::vec(any_record(), 0..40),
    ) {
        let mut board = TodoState::default();
        for record in records {
            let before = board.clone();
            if !board.apply(record.clone()) {
                prop_assert_eq!(&board, &before);
                continue;
            }
            let state = |board: &TodoState, id| board.get(id).map(|todo| todo.status.clone());
            match record.deed {
                TodoChange::Created { id, .. } => prop_assert_eq!(state(&before, id), None),
                TodoChange::Claimed { id, by, instead_of } => match state(&before, id) {
                    Some(TodoStatus::Pending) => prop_assert_eq!(instead_of, None),
                    Some(TodoStatus::InProgress { by: owner, .. }) => {
                        prop_assert_ne!(&owner, &by);
                        prop_assert_eq!(Some(owner), instead_of);
                    }
                    other => prop_assert!(false, "{id} was claimed and {other:?}"),
                },
                TodoChange::Completed { id, by } | TodoChange::Returned { id, by } => {
                    let is_owner = matches!(
                        state(&before, id), Some(TodoStatus::InProgress { by: owner, .. }) if owner == by
                    );
                    prop_assert!(is_owner);
                }
            }
        }
    }

    #[test]
    fn a_torn_journal_replays_every_complete_record(
        records in proptest::collection::vec(any_record(), 1..8),
        cut in 0_usize..4_000,
        after in any_record(),
    ) {
        let whole = record::encode_records(&records);
        let torn = &whole[..cut.min(whole.len())];
        let folded = TodoState::replay(torn).expect("supported format");
        prop_assert_eq!(folded.is_torn, !torn.is_empty() && !torn.ends_with(b"\n"));
        // A record that lacks only its newline is complete.
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        let there = ends.iter().filter(|end| torn.len() >= **end).count();
        let mut wanted = TodoState::default();
        for record in &records[..there] {
            let _best_effort = wanted.apply(record.clone());
        }
        prop_assert_eq!(&folded.state, &wanted);
        // The next write terminates the torn line. The record that it then appends is valid.
        let mut longer = torn.to_vec();
        if folded.is_torn {
            longer.push(b'\n');
        }
        longer.extend(record::encode_records(std::slice::from_ref(&after)));
        let _best_effort = wanted.apply(after);
        prop_assert_eq!(TodoState::replay(&longer).expect("supported format").state, wanted);
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let mut world = Simulation::default();
    let too_long = TodoDraft { subject: "x".repeat(201), ..draft_blocked_by(vec![]) };
    let empty = TodoDraft { subject: String::new(), ..draft_blocked_by(vec![]) };
    for (draft, part) in
        [(too_long, "201 bytes"), (empty, "0 bytes"), (draft_blocked_by(vec![id(1)]), "names t1")]
    {
        let why = create(&TodoState::default(), &draft).unwrap_err().to_string();
        assert!(why.contains(part), "{why}");
    }
    world.apply(0, &Action::Create(vec![])).unwrap();
    world.apply(0, &Action::Create(vec![1])).unwrap();
    let board = TodoState::replay(&world.journal).unwrap().state;
    let who = todo_owner(0, 0);
    let say = |result: Result<Vec<TodoChange>, TodoRefusal>| result.unwrap_err().to_string();
    let here = |_: &TodoOwner| OwnerPresence::Running;
    assert!(say(claim(&board, id(2), &who, here)).contains("t2 waits for t1"));
    assert!(say(claim(&board, id(9), &who, here)).contains("no to-do t9"));
    assert!(say(complete(&board, id(1), &who, here)).contains("claim it with claim_task"));
    world.apply(1, &Action::Claim(1)).unwrap();
    let board = TodoState::replay(&world.journal).unwrap().state;
    assert!(say(claim(&board, id(1), &who, here)).contains("belongs to agent 1 in process 101"));
    let unseen = |_: &TodoOwner| OwnerPresence::Unknown;
    assert!(say(claim(&board, id(1), &who, unseen)).contains("cannot be observed from here"));
    let gone = |_: &TodoOwner| OwnerPresence::Exited;
    assert!(say(complete(&board, id(1), &who, gone)).contains("claim it before"));
    assert_eq!(claim(&board, id(1), &who, gone).unwrap().len(), 1);
    assert_eq!(claim(&board, id(1), &todo_owner(1, 0), here), Ok(vec![]));
}

#[test]
fn a_journal_of_a_newer_format_is_refused() {
    assert_eq!(TodoState::replay(b"{\"format\":2}\n"), Err(state::UnsupportedFormat(2)));
    let header = record::header_line();
    assert_eq!(header, b"{\"format\":1}\n");
    let damaged = [&header[..], b"\x00\xff\n{\"did\":\"danced\"}\n"].concat();
    let folded = TodoState::replay(&damaged).unwrap();
    assert_eq!((folded.state.len(), folded.ignored_lines, folded.is_torn), (0, 2, false));
}

#[test]
fn the_first_format_stays_readable() {
    let journal = concat!(
        "{\"format\":1}\n",
        r#"{"at_ms":1,"did":"created","id":"t1","subject":"a","description":"","blocked_by":[],"later":1}"#,
        "\n",
        r#"{"at_ms":2,"did":"claimed","id":"t1","by":{"owner":"agent 0","process":{"pid":100,"#,
        r#""start_ticks":0},"boot":"boot","namespace":1,"machine":"machine"}}"#,
        "\n",
        r#"{"at_ms":3,"did":"completed","id":"t1","by":{"owner":"agent 0","process":{"pid":100,"#,
        r#""start_ticks":0},"boot":"boot","namespace":1,"machine":"machine"}}"#,
    );
    let folded = TodoState::replay(journal.as_bytes()).unwrap();
    let by = todo_owner(0, 0);
    assert_eq!(folded.ignored_lines, 0);
    assert_eq!(
        folded.state.get(id(1)).unwrap().status,
        TodoStatus::Completed { by, at: UnixMs(3) }
    );
}
