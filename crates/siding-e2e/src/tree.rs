//! Random process trees, planned purely from a seed.
//!
//! Puppet's verb `tree` acts the plan out; a test makes the same plan to know how many members
//! will announce themselves.

/// Most members a tree may have, whatever depth and width ask for.
pub const MEMBERS_MAX: usize = 150;

/// How a member comes into being.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Birth {
    /// A plain fork.
    Fork,
    /// A fork that leads its own process group.
    Group,
    /// A fork that leads its own session.
    Session,
    /// Forked twice, own session, no environment, no descriptors, another name.
    Daemon,
    /// Forked twice; the parent between has ended.
    Orphan,
}

/// What a member does once its own children are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Appends to the beat file for ever.
    Beat,
    /// Waits for ever.
    Hang,
    /// Stops itself, and waits for ever when it was continued.
    Stopped,
    /// Lets its main thread end while a second thread lives on.
    LeaderExits,
    /// Ends at once and leaves its children without their parent.
    Exit,
}

/// One member of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Place in the tree: `0` is the root, `0.2` its third child.
    pub path: String,
    /// How it comes into being; the root is the process that was told to make a tree.
    pub birth: Birth,
    /// Whether it ignores TERM and INT; all members ignore HUP.
    pub ignores_term: bool,
    /// Whether it wipes its environment.
    pub clears_env: bool,
    /// Whether it takes in orphans of its own descendants.
    pub subreaper: bool,
    /// What it does in the end.
    pub life: Life,
    /// Those it starts, in this order.
    pub children: Vec<Self>,
}

impl Member {
    /// Number of members that announce themselves, this one included.
    pub fn count(&self) -> usize {
        1 + self.children.iter().map(Self::count).sum::<usize>()
    }

    /// Number of members that stay.
    pub fn staying(&self) -> usize {
        usize::from(self.life != Life::Exit)
            + self.children.iter().map(Self::staying).sum::<usize>()
    }

    /// Whether any member beats.
    pub fn beats(&self) -> bool {
        self.life == Life::Beat || self.children.iter().any(Self::beats)
    }
}

/// Plans the tree of `seed`: at most `depth` levels below the root, 1 to `width` children each.
///
/// The root is plain and beats, so a test can start it as a task without special cases.
pub fn plan(seed: u64, depth: usize, width: usize) -> Member {
    let mut dice = Dice(seed);
    let mut room = MEMBERS_MAX - 1;
    let children = plan_children(&mut dice, "0", depth, width, &mut room);
    Member {
        path: "0".to_owned(),
        birth: Birth::Fork,
        ignores_term: false,
        clears_env: false,
        subreaper: false,
        life: Life::Beat,
        children,
    }
}

fn plan_children(
    dice: &mut Dice,
    above: &str,
    depth: usize,
    width: usize,
    room: &mut usize,
) -> Vec<Member> {
    if depth == 0 || width == 0 {
        return vec![];
    }
    let wanted = 1 + dice.below(width as u64) as usize;
    let number = wanted.min(*room);
    *room -= number;
    (0..number)
        .map(|index| {
            let path = format!("{above}.{index}");
            let birth = [Birth::Fork, Birth::Group, Birth::Session, Birth::Daemon, Birth::Orphan]
                [dice.below(5) as usize];
            let life = match dice.below(10) {
                0..=3 => Life::Beat,
                4..=5 => Life::Hang,
                6 => Life::Stopped,
                7 => Life::LeaderExits,
                _ => Life::Exit,
            };
            Member {
                birth,
                ignores_term: dice.below(3) == 0,
                clears_env: dice.below(3) == 0,
                subreaper: dice.below(8) == 0,
                life,
                children: plan_children(dice, &path, depth - 1, width, room),
                path,
            }
        })
        .collect()
}

/// The generator splitmix64 (Steele, Lea and Flood 2014): tiny, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number from 0 up to, but without, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_tree_and_seeds_differ() {
        assert_eq!(plan(7, 3, 3), plan(7, 3, 3));
        assert_ne!(plan(7, 3, 3), plan(8, 3, 3));
    }

    #[test]
    fn a_tree_is_bounded() {
        for seed in 0..50 {
            assert!(plan(seed, 20, 20).count() <= MEMBERS_MAX);
        }
    }

    #[test]
    fn every_birth_and_life_occurs() {
        fn collect(member: &Member, seen: &mut Vec<String>) {
            seen.push(format!("{:?}", member.birth));
            seen.push(format!("{:?}", member.life));
            member.children.iter().for_each(|child| collect(child, seen));
        }
        let mut seen = vec![];
        (0..40).for_each(|seed| collect(&plan(seed, 3, 3), &mut seen));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 10, "{seen:?}");
    }
}
