//! Random histories of a list: what several agents do, of which some die, and what a crash leaves of
//! the file.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use siding_model::process::{BootId, ProcRef, UnixMs};

use super::decide::{claim, complete, create, give_back};
use super::*;

/// An agent in its `life`th process.
fn holder(agent: usize, life: u64) -> Holder {
    Holder {
        owner: format!("agent {agent}"),
        process: ProcRef { pid: 100 + i32::try_from(agent).expect("is small"), start_ticks: life },
        boot: BootId("boot".to_owned()),
        namespace: 1,
        machine: "machine".to_owned(),
    }
}

fn id(number: usize) -> TodoId {
    format!("t{number}").parse().expect("is one")
}

fn draft(blocked_by: Vec<TodoId>) -> Draft {
    Draft { subject: "work\n".to_owned(), description: String::new(), blocked_by }
}

/// What an agent does, or what happens to it.
#[derive(Debug, Clone)]
enum Act {
    Create(Vec<usize>),
    Claim(usize),
    Complete(usize),
    GiveBack(usize),
    Die,
}

fn act() -> impl Strategy<Value = Act> {
    let number = 1_usize..6;
    prop_oneof![
        3 => proptest::collection::vec(number.clone(), 0..3).prop_map(Act::Create),
        6 => number.clone().prop_map(Act::Claim),
        3 => number.clone().prop_map(Act::Complete),
        1 => number.prop_map(Act::GiveBack),
        1 => Just(Act::Die),
    ]
}

/// Agents at work on one list, each of which knows what it was told.
#[derive(Debug, Default)]
struct World {
    journal: Vec<u8>,
    /// How often each agent was started again.
    lives: BTreeMap<usize, u64>,
    /// What each living process was told is its own.
    own: BTreeMap<usize, BTreeSet<TodoId>>,
}

impl World {
    fn who(&self, agent: usize) -> Holder {
        holder(agent, self.lives.get(&agent).copied().unwrap_or(0))
    }

    fn looks(&self, other: &Holder) -> Presence {
        let is_alive = (0..3).any(|agent| self.who(agent) == *other);
        if is_alive { Presence::Here } else { Presence::Gone }
    }

    /// Does what an agent wants. `Some` when it was allowed.
    fn act(&mut self, agent: usize, act: &Act) -> Option<()> {
        let mut board = Board::fold(&self.journal).expect("is of this format").board;
        let who = self.who(agent);
        let looks = |other: &Holder| self.looks(other);
        let deeds = match act {
            Act::Create(blockers) => {
                create(&board, &draft(blockers.iter().map(|number| id(*number)).collect()))
            }
            Act::Claim(number) => claim(&board, id(*number), &who, looks),
            Act::Complete(number) => complete(&board, id(*number), &who, looks),
            Act::GiveBack(number) => give_back(&board, id(*number), &who, looks),
            Act::Die => {
                *self.lives.entry(agent).or_default() += 1;
                self.own.remove(&agent);
                return Some(());
            }
        }
        .ok()?;
        let records = record::records(UnixMs(0), &deeds);
        self.journal.extend(record::lines(&records));
        for record in records {
            assert!(board.apply(record.clone()), "decided and not possible: {record:?}");
        }
        Some(())
    }
}

/// Checks what was allowed against what all agents know, by other means than the board's.
fn check(world: &mut World, before: &Board, agent: usize, act: &Act) {
    let after = Board::fold(&world.journal).expect("is of this format");
    assert_eq!((after.void, after.is_torn), (0, false));
    let is_completed = |id: &TodoId| {
        before.get(*id).is_some_and(|todo| matches!(todo.state, State::Completed { .. }))
    };
    let name = world.who(agent).owner;
    match act {
        Act::Claim(number) => {
            let id = id(*number);
            let todo = before.get(id).expect("only what is there is claimed");
            assert!(todo.blocked_by.iter().all(is_completed), "{id} was not next");
            let others = world.own.iter().filter(|(other, _)| **other != agent);
            for (other, own) in others {
                assert!(!own.contains(&id), "{id} belongs to {other}, who lives");
            }
            world.own.entry(agent).or_default().insert(id);
        }
        Act::Complete(number) => {
            let id = id(*number);
            let todo = before.get(id).expect("only what is there is completed");
            match &todo.state {
                State::Pending => panic!("{id} was completed without a claim"),
                // Its own, of this life or an earlier one.
                State::InProgress { by, .. } | State::Completed { by, .. } => {
                    assert_eq!(by.owner, name)
                }
            }
            world.own.entry(agent).or_default().remove(&id);
        }
        Act::GiveBack(number) => {
            world.own.entry(agent).or_default().remove(&id(*number));
        }
        Act::Create(blockers) => {
            assert!(blockers.iter().all(|number| before.get(id(*number)).is_some()));
            assert_eq!(after.board.len(), before.len() + 1);
        }
        Act::Die => {}
    }
    // Whoever lives and was told that something is its own is found to be the owner.
    for (agent, own) in &world.own {
        for id in own {
            let state = &after.board.get(*id).expect("is there").state;
            let who = world.who(*agent);
            assert!(matches!(state, State::InProgress { by, .. } if *by == who), "{id}: {state:?}");
        }
    }
    // What waits, waits for what was there before: nothing goes round.
    for (id, todo) in after.board.all() {
        assert!(todo.blocked_by.iter().all(|blocker| *blocker < id));
    }
}

/// Records that nobody decided on: of two who did not wait for each other, of a merge, of anybody.
fn any_record() -> impl Strategy<Value = Record> {
    let number = 1_usize..5;
    let holders = || (0_usize..2, 0_u64..2).prop_map(|(agent, life)| holder(agent, life));
    let deed = prop_oneof![
        (number.clone(), proptest::collection::vec(1_usize..5, 0..2)).prop_map(
            |(number, others)| {
                Deed::Created {
                    id: id(number),
                    subject: "work".to_owned(),
                    description: String::new(),
                    blocked_by: others.into_iter().map(id).collect(),
                }
            }
        ),
        (number.clone(), holders(), proptest::option::of(holders()))
            .prop_map(|(number, by, instead_of)| Deed::Claimed { id: id(number), by, instead_of }),
        (number.clone(), holders()).prop_map(|(number, by)| Deed::Returned { id: id(number), by }),
        (number, holders()).prop_map(|(number, by)| Deed::Completed { id: id(number), by }),
    ];
    deed.prop_map(|deed| Record { at: UnixMs(7), deed })
}

proptest! {
    #[test]
    fn no_history_has_two_owners(
        acts in proptest::collection::vec((0_usize..3, act()), 0..60),
    ) {
        let mut world = World::default();
        for (agent, act) in acts {
            let before = Board::fold(&world.journal).expect("is of this format").board;
            if world.act(agent, &act).is_some() {
                check(&mut world, &before, agent, &act);
            }
        }
    }

    #[test]
    fn whatever_a_file_says_the_first_owner_stays(
        records in proptest::collection::vec(any_record(), 0..40),
    ) {
        let mut board = Board::default();
        for record in records {
            let before = board.clone();
            if !board.apply(record.clone()) {
                prop_assert_eq!(&board, &before);
                continue;
            }
            let state = |board: &Board, id| board.get(id).map(|todo| todo.state.clone());
            match record.deed {
                Deed::Created { id, .. } => prop_assert_eq!(state(&before, id), None),
                Deed::Claimed { id, by, instead_of } => match state(&before, id) {
                    Some(State::Pending) => prop_assert_eq!(instead_of, None),
                    Some(State::InProgress { by: owner, .. }) => {
                        prop_assert_ne!(&owner, &by);
                        prop_assert_eq!(Some(owner), instead_of);
                    }
                    other => prop_assert!(false, "{id} was claimed and {other:?}"),
                },
                Deed::Completed { id, by } | Deed::Returned { id, by } => {
                    let is_owner = matches!(
                        state(&before, id), Some(State::InProgress { by: owner, .. }) if owner == by
                    );
                    prop_assert!(is_owner);
                }
            }
        }
    }

    #[test]
    fn a_file_that_was_torn_anywhere_says_what_is_whole(
        records in proptest::collection::vec(any_record(), 1..8),
        cut in 0_usize..4_000,
        after in any_record(),
    ) {
        let whole = record::lines(&records);
        let torn = &whole[..cut.min(whole.len())];
        let folded = Board::fold(torn).expect("is of this format");
        prop_assert_eq!(folded.is_torn, !torn.is_empty() && !torn.ends_with(b"\n"));
        // Those whose lines are there; a newline alone may be missing.
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        let there = ends.iter().filter(|end| torn.len() >= **end).count();
        let mut wanted = Board::default();
        for record in &records[..there] {
            let _may_be_void = wanted.apply(record.clone());
        }
        prop_assert_eq!(&folded.board, &wanted);
        // The next one ends the line that was torn, and counts itself.
        let mut longer = torn.to_vec();
        if folded.is_torn {
            longer.push(b'\n');
        }
        longer.extend(record::lines(std::slice::from_ref(&after)));
        let _may_be_void = wanted.apply(after);
        prop_assert_eq!(Board::fold(&longer).expect("is of this format").board, wanted);
    }
}

#[test]
fn what_is_refused_says_what_to_do() {
    let mut world = World::default();
    let too_long = Draft { subject: "x".repeat(201), ..draft(vec![]) };
    let empty = Draft { subject: String::new(), ..draft(vec![]) };
    for (draft, part) in
        [(too_long, "201 bytes"), (empty, "0 bytes"), (draft(vec![id(1)]), "names t1")]
    {
        let why = create(&Board::default(), &draft).unwrap_err().to_string();
        assert!(why.contains(part), "{why}");
    }
    world.act(0, &Act::Create(vec![])).unwrap();
    world.act(0, &Act::Create(vec![1])).unwrap();
    let board = Board::fold(&world.journal).unwrap().board;
    let who = holder(0, 0);
    let say = |result: Result<Vec<Deed>, Refusal>| result.unwrap_err().to_string();
    let here = |_: &Holder| Presence::Here;
    assert!(say(claim(&board, id(2), &who, here)).contains("t2 waits for t1"));
    assert!(say(claim(&board, id(9), &who, here)).contains("no to-do t9"));
    assert!(say(complete(&board, id(1), &who, here)).contains("claim it with claim_task"));
    world.act(1, &Act::Claim(1)).unwrap();
    let board = Board::fold(&world.journal).unwrap().board;
    assert!(say(claim(&board, id(1), &who, here)).contains("worked on by agent 1 in process 101"));
    let unseen = |_: &Holder| Presence::Unseen;
    assert!(say(claim(&board, id(1), &who, unseen)).contains("cannot be seen from here"));
    let gone = |_: &Holder| Presence::Gone;
    assert!(say(complete(&board, id(1), &who, gone)).contains("claim it before"));
    assert_eq!(claim(&board, id(1), &who, gone).unwrap().len(), 1);
    assert_eq!(claim(&board, id(1), &holder(1, 0), here), Ok(vec![]));
}

#[test]
fn a_file_of_a_newer_siding_is_not_read() {
    assert_eq!(Board::fold(b"{\"format\":2}\n"), Err(board::TooNew(2)));
    let header = record::header();
    assert_eq!(header, b"{\"format\":1}\n");
    let damaged = [&header[..], b"\x00\xff\n{\"did\":\"danced\"}\n"].concat();
    let folded = Board::fold(&damaged).unwrap();
    assert_eq!((folded.board.len(), folded.void, folded.is_torn), (0, 2, false));
}

/// What files hold must be read for ever.
#[test]
fn the_first_format_is_read() {
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
    let folded = Board::fold(journal.as_bytes()).unwrap();
    let by = holder(0, 0);
    assert_eq!(folded.void, 0);
    assert_eq!(folded.board.get(id(1)).unwrap().state, State::Completed { by, at: UnixMs(3) });
}
