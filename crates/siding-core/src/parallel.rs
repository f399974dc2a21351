//! Runs one function on many items in several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Maximum number of threads for work that uses almost no CPU, such as waiting for several shims.
pub const MAX_WAITING_THREADS: usize = 64;

/// Runs `worker` in `threads` threads, one of them the calling thread. If a thread cannot be
/// created (memory or process limit), the threads that exist do the work.
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

/// Returns the result of `work` for each item, in the order of the items, using up to `threads`
/// threads.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    run_in_threads(threads.min(items.len()), || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(item);
            done.lock().expect("no thread panics while holding the lock").push((at, result));
        }
    });
    let mut done = done.into_inner().expect("no thread panics while holding the lock");
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

    /// An item whose work waits does not block the other items.
    #[test]
    fn threads_run_concurrently() {
        let barrier = std::sync::Barrier::new(4);
        assert_eq!(map(&[1, 2, 3, 4], 4, |item| (barrier.wait(), *item).1), [1, 2, 3, 4]);
    }
}
