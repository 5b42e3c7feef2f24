//! Wakes that tell a task what it is just doing itself.
//!
//! Whoever takes a piece of a body from hyper wakes the connection that the piece came over. Where both are driven by one
//! task, it is woken while it runs; it is then run again, and by another thread, since this one is busy. For a small
//! call that is a third of its cost. So a connection is driven with a waker that is silent while its own task takes
//! something from it ([`suppress_wakes`]); whoever does that sees to what is left over.

use std::{
    cell::Cell,
    sync::Arc,
    task::{Context, Wake, Waker},
};

thread_local! {
    /// Whether this thread takes something from a connection that its own task drives.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The silent waker of one task; kept, so that it stays the same as long as the task's own does.
#[derive(Debug, Default)]
pub(crate) struct QuietWaker {
    of: Option<(Arc<SuppressibleWaker>, Waker)>,
}

/// Wakes a task, unless its own thread says so suppress_wakes.
#[derive(Debug)]
struct SuppressibleWaker {
    task: Waker,
}

impl QuietWaker {
    /// The waker of this task, silent while something is done [`suppress_wakes`] on the same thread.
    pub(crate) fn waker(&mut self, context: &Context<'_>) -> &Waker {
        let known = self.of.take_if(|(muffled, _)| muffled.task.will_wake(context.waker()));
        let (_, waker) = self.of.insert(known.unwrap_or_else(|| {
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

/// Does something of which nobody is told who is driven with a [`QuietWaker`] waker. What runs here must not wait for a wake
/// that it causes itself.
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
    fn a_task_hears_everybody_but_itself() {
        let woken = Arc::new(Counting::default());
        let task = Waker::from(Arc::clone(&woken));
        let mut quiet = QuietWaker::default();
        let waker = quiet.waker(&Context::from_waker(&task)).clone();
        suppress_wakes(|| waker.wake_by_ref());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        waker.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        suppress_wakes(|| thread::scope(|threads| drop(threads.spawn(|| waker.wake_by_ref()).join())));
        assert_eq!(woken.0.load(Ordering::SeqCst), 2, "another thread knows nothing of it");
        drop(std::panic::catch_unwind(|| suppress_wakes(|| panic!("whatever"))));
        waker.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::SeqCst), 3, "it is over, however it ended");
    }

    #[test]
    fn it_is_the_same_waker_as_long_as_the_task_is_the_same() {
        let (one, other) = (Waker::from(Arc::new(Counting::default())), Waker::from(Arc::new(Counting::default())));
        let mut quiet = QuietWaker::default();
        let first = quiet.waker(&Context::from_waker(&one)).clone();
        assert!(first.will_wake(quiet.waker(&Context::from_waker(&one))));
        assert!(!first.will_wake(quiet.waker(&Context::from_waker(&other))));
    }
}
