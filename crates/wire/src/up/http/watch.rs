//! What is known of a POST that was begun and is driven by whoever waits for its reply.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake},
};

use futures_util::task::AtomicWaker;

use crate::exchange::Bell;

/// Of one POST. As a waker it tells whoever waits that there is something to see; nobody looks before that.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// A connection that was there took it.
    pub(super) taken: AtomicBool,
    /// It became a task.
    pub(super) by_itself: AtomicBool,
    rung: AtomicBool,
    waiter: AtomicWaker,
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.waiter.wake();
    }
}

impl Bell for Watch {
    fn has_rung(&self, context: &Context<'_>) -> bool {
        // First, so that nothing that comes from now on is missed.
        self.waiter.register(context.waker());
        self.rung.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{Context, Waker},
    };

    use super::{Bell, Watch};

    #[test]
    fn whoever_looked_in_vain_is_woken_when_it_rings() {
        // One is as good a task as any: it can be seen whether it was woken.
        let (watch, task) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        let (waker, noop) = (Waker::from(Arc::clone(&task)), Context::from_waker(Waker::noop()));
        assert!(!watch.has_rung(&Context::from_waker(&waker)));
        assert!(!task.has_rung(&noop));
        Waker::from(Arc::clone(&watch)).wake();
        assert!(task.has_rung(&noop));
        assert!(watch.has_rung(&noop));
        assert!(!watch.has_rung(&noop), "it rang once");
    }

    #[test]
    fn what_rang_before_anybody_looked_is_not_lost() {
        let watch = Arc::new(Watch::default());
        Waker::from(Arc::clone(&watch)).wake();
        assert!(watch.has_rung(&Context::from_waker(Waker::noop())));
    }
}
