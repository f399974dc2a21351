//! Periodic timers with a descriptor (timerfd_create(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer whose descriptor becomes readable at the end of each period.
#[derive(Debug)]
pub struct PeriodicTimer(OwnedFd);

impl AsFd for PeriodicTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PeriodicTimer {
    /// Starts a timer with this period, which is at least a millisecond. The timer does not count
    /// suspended time.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `EMFILE` if this process has no descriptor left.
    pub fn start(period: Duration) -> io::Result<Self> {
        let period = period.max(Duration::from_millis(1));
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let period = Timespec {
            tv_sec: i64::try_from(period.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: period.subsec_nanos().into(),
        };
        let times = Itimerspec { it_interval: period, it_value: period };
        timerfd_settime(&fd, TimerfdTimerFlags::empty(), &times)?;
        Ok(Self(fd))
    }

    /// Returns whether a period has ended since the last call. Afterwards the descriptor is not
    /// readable until the next period has ended.
    #[must_use]
    pub fn has_elapsed(&self) -> bool {
        let mut count = [0; 8];
        matches!(rustix::io::read(&self.0, &mut count), Ok(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll;

    #[test]
    fn the_descriptor_is_readable_once_per_period() {
        let timer = PeriodicTimer::start(Duration::from_millis(5)).unwrap();
        for _ in 0..2 {
            assert_eq!(poll::wait_readable(&[timer.as_fd()], None).unwrap(), [true]);
            assert!(timer.has_elapsed());
        }
        let slow = PeriodicTimer::start(Duration::from_secs(3_600)).unwrap();
        assert!(!slow.has_elapsed());
        assert!(!poll::is_readable(slow.as_fd()));
    }
}
