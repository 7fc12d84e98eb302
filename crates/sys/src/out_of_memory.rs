//! Running out of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::thread::Builder;

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

/// Exits as after any failed allocation if `panic` is about one. The standard library
/// panics where it gets no signal stack for a new thread. Nothing can catch that: no
/// code of ours is on the thread's stack yet, so the process would abort.
pub fn exit_if_for_want_of_memory(panic: &str) {
    let reason = io::Error::from_raw_os_error(libc::ENOMEM).to_string();
    if panic.contains(&reason) {
        exit();
    }
}

/// What a thread needs besides its stack before it runs code of ours: a guard page, a
/// signal stack, the C library's records.
const BESIDES_STACK: usize = 256 << 10;

/// What the standard library gives a thread.
const STACK: usize = 2 << 20;

/// A builder for a thread, if there is memory for one. A thread that gets its stack but
/// nothing else aborts the process: the C library and the standard library have no other
/// way to fail there.
///
/// # Errors
/// If there is no room.
pub fn thread_builder() -> io::Result<Builder> {
    let room = STACK + BESIDES_STACK;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, which nobody else knows of when it is given back.
    unsafe {
        let place = libc::mmap(
            std::ptr::null_mut(),
            room,
            libc::PROT_READ | libc::PROT_WRITE,
            kind,
            -1,
            0,
        );
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(place, room);
    }
    Ok(Builder::new().stack_size(STACK))
}

fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        exit();
    }
    memory
}

fn exit() -> ! {
    // SAFETY: a live buffer and its length; nothing is run on the way out that would need
    // memory.
    unsafe {
        libc::write(libc::STDERR_FILENO, SAID.as_ptr().cast(), SAID.len());
        libc::_exit(STATUS)
    }
}
