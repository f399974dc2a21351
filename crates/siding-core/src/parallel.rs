//! The same for many things, several at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Lanes for work that only waits: few threads, many tasks.
pub const MAX_WAITING_THREADS: usize = 64;

/// Lets `lane` run in `lanes` threads, of which the calling one is the first. Where no thread is to be
/// had, for want of memory or at a limit of processes, those that are there do the work.
pub(crate) fn run_in_threads(threads: usize, worker: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 1..threads {
            if Builder::new().spawn_scoped(scope, &worker).is_err() {
                break;
            }
        }
        worker();
    });
}

/// Returns what `work` makes of each item, in their order, up to `lanes` at once.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    run_in_threads(threads.min(items.len()), || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(item);
            done.lock().expect("nobody panics with it").push((at, result));
        }
    });
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_mapped_once_and_in_order() {
        let items: Vec<usize> = (0..1_000).collect();
        for lanes in [0, 1, 7, 2_000] {
            assert_eq!(map(&items, lanes, |item| item * 2), map(&items, 1, |item| item + item));
        }
        assert_eq!(map(&[], 4, |item: &usize| *item), Vec::<usize>::new());
    }

    /// A lane that waits keeps nobody else from working.
    #[test]
    fn threads_run_concurrently() {
        let barrier = std::sync::Barrier::new(4);
        assert_eq!(map(&[1, 2, 3, 4], 4, |item| (barrier.wait(), *item).1), [1, 2, 3, 4]);
    }
}
