//! What is known of a POST that was begun and is driven by whoever waits for its reply.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake},
};

use futures_util::task::AtomicWaker;

use crate::exchange::ReadyFlag;

/// Of one POST. As a waker it tells whoever waits that there is something to see; nobody looks before that.
#[derive(Debug, Default)]
pub(super) struct PostWaker {
    /// A connection that was there took it.
    pub(super) taken: AtomicBool,
    /// It became a task.
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
        // First, so that nothing that comes from now on is missed.
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

    use super::{ReadyFlag, PostWaker};

    #[test]
    fn whoever_looked_in_vain_is_woken_when_it_rings() {
        // One is as good a task as any: it can be seen whether it was woken.
        let (post_waker, task) = (Arc::new(PostWaker::default()), Arc::new(PostWaker::default()));
        let (waker, noop) = (Waker::from(Arc::clone(&task)), Context::from_waker(Waker::noop()));
        assert!(!post_waker.take_ready(&Context::from_waker(&waker)));
        assert!(!task.take_ready(&noop));
        Waker::from(Arc::clone(&post_waker)).wake();
        assert!(task.take_ready(&noop));
        assert!(post_waker.take_ready(&noop));
        assert!(!post_waker.take_ready(&noop), "it rang once");
    }

    #[test]
    fn what_rang_before_anybody_looked_is_not_lost() {
        let post_waker = Arc::new(PostWaker::default());
        Waker::from(Arc::clone(&post_waker)).wake();
        assert!(post_waker.take_ready(&Context::from_waker(Waker::noop())));
    }
}
