//! Random process trees, planned as a pure function of a seed. Puppet's verb `tree` executes the
//! plan. A test computes the same plan from the same seed, and derives from this plan how many
//! members will announce themselves.

/// Maximum number of members of a tree, even if depth and width would allow more.
pub const MAX_TREE_MEMBERS: usize = 150;

/// The way in which a parent creates a member of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnMode {
    /// The child stays in the process group and session of its parent.
    Fork,
    /// The child becomes the leader of a process group.
    Group,
    /// The child becomes the leader of a session.
    Session,
    /// The child is forked twice, with its own session, an empty environment, no descriptors and
    /// another name.
    Daemon,
    /// The child is forked twice, and the intermediate parent exits.
    Orphan,
}

/// The behavior of a member after it has started its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberBehavior {
    /// Appends to the beat file forever.
    Beat,
    /// Waits forever.
    Hang,
    /// Stops itself; waits forever if it is continued.
    Stopped,
    /// Ends the main thread while a second thread continues.
    LeaderExits,
    /// Exits immediately and orphans its children.
    Exit,
}

/// A process of a planned tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeMember {
    /// Position in the tree: `0` is the root, `0.2` its third child.
    pub path: String,
    /// The way in which the member is created. Ignored for the root, which is the process that runs
    /// `tree`.
    pub spawn_mode: SpawnMode,
    /// Whether the member ignores TERM and INT; all members ignore HUP.
    pub ignores_term: bool,
    /// Whether the member clears its environment.
    pub clears_env: bool,
    /// Whether the member is a subreaper for its descendants.
    pub subreaper: bool,
    /// The member's behavior once all its children are started.
    pub behavior: MemberBehavior,
    /// The member's children, in starting order.
    pub children: Vec<Self>,
}

impl TreeMember {
    /// Returns the number of members that announce themselves, including this one.
    pub fn count(&self) -> usize {
        1 + self.children.iter().map(Self::count).sum::<usize>()
    }

    /// Returns the number of members that stay alive once the tree is complete, including this one.
    pub fn lasting_count(&self) -> usize {
        usize::from(self.behavior != MemberBehavior::Exit)
            + self.children.iter().map(Self::lasting_count).sum::<usize>()
    }

    /// Returns whether this member or a descendant appends to the beat file.
    pub fn has_beating_member(&self) -> bool {
        self.behavior == MemberBehavior::Beat || self.children.iter().any(Self::has_beating_member)
    }
}

/// Plans the tree of `seed`. The tree has at most `depth` levels below the root, and each member
/// above the last level has 1 to `width` children, as long as [`MAX_TREE_MEMBERS`] permits. The
/// root always beats and does not ignore TERM or INT, so that every tree can be started as a task
/// in the same way.
pub fn plan_tree(seed: u64, depth: usize, width: usize) -> TreeMember {
    let mut rng = SplitMix64(seed);
    let mut room = MAX_TREE_MEMBERS - 1;
    let children = plan_children(&mut rng, "0", depth, width, &mut room);
    TreeMember {
        path: "0".to_owned(),
        spawn_mode: SpawnMode::Fork,
        ignores_term: false,
        clears_env: false,
        subreaper: false,
        behavior: MemberBehavior::Beat,
        children,
    }
}

fn plan_children(
    rng: &mut SplitMix64,
    above: &str,
    depth: usize,
    width: usize,
    room: &mut usize,
) -> Vec<TreeMember> {
    if depth == 0 || width == 0 {
        return vec![];
    }
    let wanted = 1 + rng.next_below(width as u64) as usize;
    let number = wanted.min(*room);
    *room -= number;
    (0..number)
        .map(|index| {
            let path = format!("{above}.{index}");
            let birth = [
                SpawnMode::Fork,
                SpawnMode::Group,
                SpawnMode::Session,
                SpawnMode::Daemon,
                SpawnMode::Orphan,
            ][rng.next_below(5) as usize];
            let life = match rng.next_below(10) {
                0..=3 => MemberBehavior::Beat,
                4..=5 => MemberBehavior::Hang,
                6 => MemberBehavior::Stopped,
                7 => MemberBehavior::LeaderExits,
                _ => MemberBehavior::Exit,
            };
            TreeMember {
                spawn_mode: birth,
                ignores_term: rng.next_below(3) == 0,
                clears_env: rng.next_below(3) == 0,
                subreaper: rng.next_below(8) == 0,
                behavior: life,
                children: plan_children(rng, &path, depth - 1, width, room),
                path,
            }
        })
        .collect()
}

/// The random number generator splitmix64 (Steele, Lea and Flood 2014). The field is its state,
/// which starts as the seed.
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns a number that is at least 0 and less than `bound`.
    pub fn next_below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Returns one of the elements, or `None` if there are none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        from.get(self.next_below(from.len() as u64) as usize).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_determined_by_the_seed() {
        assert_eq!(plan_tree(7, 3, 3), plan_tree(7, 3, 3));
        assert_ne!(plan_tree(7, 3, 3), plan_tree(8, 3, 3));
    }

    #[test]
    fn the_member_count_is_bounded() {
        for seed in 0..50 {
            assert!(plan_tree(seed, 20, 20).count() <= MAX_TREE_MEMBERS);
        }
    }

    #[test]
    fn every_spawn_mode_and_behavior_occurs() {
        fn collect(member: &TreeMember, seen: &mut Vec<String>) {
            seen.push(format!("{:?}", member.spawn_mode));
            seen.push(format!("{:?}", member.behavior));
            member.children.iter().for_each(|child| collect(child, seen));
        }
        let mut seen = vec![];
        (0..40).for_each(|seed| collect(&plan_tree(seed, 3, 3), &mut seen));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 10, "{seen:?}");
    }
}
