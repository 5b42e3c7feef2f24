//! Counts allocations that are proportional to a body.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicUsize, Ordering},
};

use mimalloc::MiMalloc;

/// The allocator of the program, counting large allocations.
pub(crate) struct Counting;

static LARGE: AtomicUsize = AtomicUsize::new(usize::MAX);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Starts to count allocations of at least `size` bytes.
pub(crate) fn count_from(size: usize) {
    COUNT.store(0, Ordering::Relaxed);
    LARGE.store(size, Ordering::Relaxed);
}

/// Stops counting and returns the count.
pub(crate) fn stop_counting() -> usize {
    LARGE.store(usize::MAX, Ordering::Relaxed);
    COUNT.load(Ordering::Relaxed)
}

fn count(size: usize) {
    if LARGE.load(Ordering::Relaxed) <= size {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by contract; every call goes to the program's own unchanged")]
// SAFETY: each method passes its arguments to `MiMalloc` and returns what it returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as promised by our caller.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised by our caller.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as promised by our caller.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as promised by our caller.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }
}
