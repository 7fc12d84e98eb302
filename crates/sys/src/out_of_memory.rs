//! Running out of memory.

use std::alloc::{GlobalAlloc, Layout, System};

/// The exit status, and what is said before it.
const STATUS: i32 = 125;
const SAID: &[u8] = b"redhanded: there is not enough memory\n";

/// The system's allocator. Where it has nothing left, the process says so and exits
/// as it does after any failure of its own, instead of aborting.
#[derive(Debug)]
pub struct OrExit;

// SAFETY: all of it is done by the system's allocator.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as before.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as before.
        given(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as before.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Below this limit on address space, threads share one heap.
const ROOM_FOR_HEAPS: libc::rlim_t = 4 << 30;

/// Makes all threads share one heap if address space is limited. The C library wants 128 MiB
/// of it for another heap, and asks the kernel in vain at every single allocation: what
/// takes milliseconds otherwise then takes a second of CPU time.
pub fn share_heap_if_limited() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live structure, and numbers.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0 && limit.rlim_cur < ROOM_FOR_HEAPS
        {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        // SAFETY: a live buffer and its length; nothing is run on the way out that
        // would need memory.
        unsafe {
            libc::write(libc::STDERR_FILENO, SAID.as_ptr().cast(), SAID.len());
            libc::_exit(STATUS)
        }
    }
    memory
}
