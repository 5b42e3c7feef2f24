//! Waker and flags of a POST that is driven by the task waiting for its response.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake},
};

use futures_util::task::AtomicWaker;

use crate::exchange::ReadyFlag;

/// State of one POST. Its waker sets a flag and wakes the waiting task, which polls the POST only if the flag is set.
#[derive(Debug, Default)]
pub(super) struct PostWaker {
    /// Whether an idle connection has taken the request.
    pub(super) taken: AtomicBool,
    /// Whether the POST was moved to its own task.
    pub(super) detached: AtomicBool,
    woken: AtomicBool,
    waiter: AtomicWaker,
}

impl Wake for PostWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.waiter.wake();
    }
}

impl ReadyFlag for PostWaker {
    fn take_ready(&self, context: &Context<'_>) -> bool {
        // Registered before the flag is read, so that no wake-up is missed.
        self.waiter.register(context.waker());
        self.woken.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{Context, Waker},
    };

    use super::{PostWaker, ReadyFlag};

    #[test]
    fn waiting_task_is_woken_when_the_flag_is_set() {
        // The second one stands in for the task: its flag shows whether it was woken.
        let (post_waker, task) = (Arc::new(PostWaker::default()), Arc::new(PostWaker::default()));
        let (waker, noop) = (Waker::from(Arc::clone(&task)), Context::from_waker(Waker::noop()));
        assert!(!post_waker.take_ready(&Context::from_waker(&waker)));
        assert!(!task.take_ready(&noop));
        Waker::from(Arc::clone(&post_waker)).wake();
        assert!(task.take_ready(&noop));
        assert!(post_waker.take_ready(&noop));
        assert!(!post_waker.take_ready(&noop), "the flag was cleared");
    }

    #[test]
    fn wake_before_the_first_poll_is_not_lost() {
        let post_waker = Arc::new(PostWaker::default());
        Waker::from(Arc::clone(&post_waker)).wake();
        assert!(post_waker.take_ready(&Context::from_waker(Waker::noop())));
    }
}
