//! Suppresses wake-ups that a task causes for itself.
//!
//! Reading from a hyper body wakes the connection that the body belongs to. If one task drives both, the task wakes itself
//! while it runs; the runtime then schedules it again, on another thread because this one is busy. Without it a small call
//! of a client with one connection costs 63 µs of processor time instead of 46 µs (`docs/decisions/0010-gateway.md`). A
//! connection is therefore driven with a [`QuietWaker`], which ignores wake-ups inside
//! [`suppress_wakes`]. The caller of `suppress_wakes` must poll again itself if work is left.

use std::{
    cell::Cell,
    sync::Arc,
    task::{Context, Wake, Waker},
};

thread_local! {
    /// Whether wake-ups of [`QuietWaker`]s are suppressed on this thread.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Wraps the waker of one task; cached, so that `will_wake` holds while the task's own waker stays the same.
#[derive(Debug, Default)]
pub(crate) struct QuietWaker {
    cached: Option<(Arc<SuppressibleWaker>, Waker)>,
}

/// Wakes a task, unless wake-ups are suppressed on the current thread.
#[derive(Debug)]
struct SuppressibleWaker {
    task: Waker,
}

impl QuietWaker {
    /// Returns a waker for the task of `context` that does nothing inside [`suppress_wakes`] on the same thread.
    pub(crate) fn waker(&mut self, context: &Context<'_>) -> &Waker {
        let known = self.cached.take_if(|(muffled, _)| muffled.task.will_wake(context.waker()));
        let (_, waker) = self.cached.insert(known.unwrap_or_else(|| {
            let muffled = Arc::new(SuppressibleWaker { task: context.waker().clone() });
            (Arc::clone(&muffled), Waker::from(muffled))
        }));
        waker
    }
}

impl Wake for SuppressibleWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !QUIET.get() {
            self.task.wake_by_ref();
        }
    }
}

/// Runs `act` with wake-ups of [`QuietWaker`]s suppressed on this thread. `act` must not depend on a wake-up that it
/// causes itself.
pub(crate) fn suppress_wakes<T>(act: impl FnOnce() -> T) -> T {
    struct Until(bool);
    impl Drop for Until {
        fn drop(&mut self) {
            QUIET.set(self.0);
        }
    }
    let _until = Until(QUIET.replace(true));
    act()
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Wake, Waker},
        thread,
    };

    use super::{QuietWaker, suppress_wakes};

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn only_wakes_from_the_own_thread_are_suppressed() {
        let woken = Arc::new(Counting::default());
        let task = Waker::from(Arc::clone(&woken));
        let mut quiet = QuietWaker::default();
        let waker = quiet.waker(&Context::from_waker(&task)).clone();
        suppress_wakes(|| waker.wake_by_ref());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        waker.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        suppress_wakes(|| thread::scope(|threads| drop(threads.spawn(|| waker.wake_by_ref()).join())));
        assert_eq!(woken.0.load(Ordering::SeqCst), 2, "another thread is not affected");
        drop(std::panic::catch_unwind(|| suppress_wakes(|| panic!("whatever"))));
        waker.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::SeqCst), 3, "suppression ends after a panic");
    }

    #[test]
    fn waker_is_cached_while_the_task_stays_the_same() {
        let (one, other) = (Waker::from(Arc::new(Counting::default())), Waker::from(Arc::new(Counting::default())));
        let mut quiet = QuietWaker::default();
        let first = quiet.waker(&Context::from_waker(&one)).clone();
        assert!(first.will_wake(quiet.waker(&Context::from_waker(&one))));
        assert!(!first.will_wake(quiet.waker(&Context::from_waker(&other))));
    }
}
