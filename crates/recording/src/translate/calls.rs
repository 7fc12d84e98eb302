//! What the hooked functions mean.

use super::barriers::{Barriers, all_of};
use super::memory::{Memory, Origin, bytes};
use super::own::{self, Own};
use super::{ENDED, OPENMP, Out};
use crate::entries::Item;
use crate::wire::Function;
use redhanded_analysis::{Access, Atomicity, Mode, Object, ObjectKind, Ordering, Place, What};
use redhanded_model::{AccessKind, Bytes};

/// The previous owner of a robust mutex died: it is held nonetheless.
const OWNER_DIED: i32 = 130;
/// A condition variable was waited for in vain: its mutex is held nonetheless.
const TIMED_OUT: i32 = 110;
/// What `pthread_barrier_wait` returns to one of the threads.
const SERIAL_THREAD: i32 = -1;
/// The lock of OpenMP's sections without a name.
const CRITICAL: u64 = 1;
/// The lock of OpenMP's atomic operations.
const ATOMIC: u64 = 2;
/// How long the guard of a static is, and `pthread_once_t`.
const GUARD: u64 = 8;

/// Which function was called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Called {
    /// One whose meaning is known.
    Known(Function),
    /// One of the program's own, of which somebody said what it means.
    Own(Own),
}

/// A call that has not returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// The function's number in the recording.
    pub number: u64,
    pub called: Called,
    pub arguments: [u64; 3],
    pub place: Place,
    /// Whether the mutex of a condition was taken again before the call returned.
    pub has_retaken: bool,
}

/// How large the pages are that `pvalloc` gives whole.
const PAGE: u64 = 4096;

/// Whether what happens within the call is an allocator's own business.
pub const fn hides_all(open: &Open) -> bool {
    matches!(open.called, Called::Known(function) if is_allocator(function))
}

/// Whether somebody said what the call means.
pub const fn is_own(open: &Open) -> bool {
    matches!(open.called, Called::Own(_))
}

/// Whether the function is an allocator's.
const fn is_allocator(function: Function) -> bool {
    matches!(
        function,
        Function::Malloc
            | Function::Calloc
            | Function::Realloc
            | Function::Free
            | Function::AlignedAlloc
            | Function::Memalign
            | Function::PosixMemalign
            | Function::Valloc
            | Function::Pvalloc
            | Function::ReallocArray
    )
}

/// Whether accesses of the runtime to these bytes, within this call, may order threads in a way
/// that the call does not tell.
///
/// Who ran the function of a `pthread_once` is not recorded, nor when OpenMP's threads begin and
/// end a region: they wait for each other by plain moves. What somebody says of a function of the
/// program's own may be wrong, or not all of it.
pub fn keeps_inner(open: &Open, touched: Bytes) -> bool {
    match open.called {
        Called::Known(Function::Once | Function::GuardAcquire | Function::GuardRelease) => {
            bytes(open.arguments[0], GUARD).overlaps(touched)
        }
        Called::Known(function) => is_openmp(function),
        Called::Own(_) => true,
    }
}

/// Whether system calls within the call say more than the call itself.
pub const fn shows_waiting(open: &Open) -> bool {
    match open.called {
        Called::Known(Function::Once | Function::GuardAcquire | Function::ThreadCreate) => true,
        Called::Known(function) => is_openmp(function),
        Called::Own(_) => true,
    }
}

/// Whether the function is OpenMP's, and may order threads. Those that give out the iterations of
/// a loop count them with atomic instructions, but OpenMP says of none that it orders anything.
const fn is_openmp(function: Function) -> bool {
    let number = function as u16;
    let first_of_schedule = Function::GompDynamicStart as u16;
    number >= Function::GompParallel as u16 && number < first_of_schedule
}

/// The mutex of a condition that is being waited for.
pub const fn awaited_with(open: &Open) -> Option<Object> {
    match open.called {
        Called::Known(
            Function::ConditionWait | Function::ConditionTimedWait | Function::ConditionClockWait,
        ) => Some(lock(open.arguments[1])),
        _ => None,
    }
}

/// Whether the function waits for the end of a thread.
pub const fn is_join(open: &Open) -> bool {
    matches!(
        open.called,
        Called::Known(
            Function::ThreadJoin
                | Function::ThreadTryJoin
                | Function::ThreadTimedJoin
                | Function::ThreadClockJoin
        )
    )
}

/// Whether the function takes a mutex, so that it may find its owner dead.
const fn is_lock(function: Function) -> bool {
    matches!(
        function,
        Function::MutexLock
            | Function::MutexTryLock
            | Function::MutexTimedLock
            | Function::MutexClockLock
            | Function::ConditionWait
            | Function::ConditionTimedWait
            | Function::ConditionClockWait
    )
}

/// Whether a call returned 0.
pub fn succeeded(item: &Item) -> bool {
    result(item) == Some(0)
}

/// What a call returned, as an `int`.
fn result(item: &Item) -> Option<i32> {
    Some(item.value(0)? as u32 as i32)
}

pub const fn object(kind: ObjectKind, id: u64) -> Object {
    Object { kind, id }
}

const fn lock(id: u64) -> Object {
    object(ObjectKind::Lock, id)
}

/// A function is entered. `written` is the memory that it gives back, if that is held against
/// accesses of others.
pub fn entered(
    open: &Open,
    written: Option<Bytes>,
    memory: &mut Memory,
    barriers: &mut Barriers,
    out: &mut Out<'_>,
) {
    use Function as F;
    let [first, second, _] = open.arguments;
    let function = match &open.called {
        Called::Known(function) => *function,
        Called::Own(own) => return own::entered(own, open, memory, out),
    };
    match function {
        F::MutexUnlock
        | F::ReadWriteUnlock
        | F::SpinUnlock
        | F::OmpUnsetLock
        | F::OmpUnsetNestLock
        | F::GompCriticalNameEnd => out.release(lock(first)),
        F::ConditionWait | F::ConditionTimedWait | F::ConditionClockWait => {
            out.release(lock(second));
        }
        F::ConditionSignal | F::ConditionBroadcast => {
            out.release(object(ObjectKind::Condition, first));
        }
        F::BarrierWait => {
            barriers.arrived(first);
            out.put(What::Arrive { barrier: first });
            out.release(all_of(first));
        }
        F::SemaphorePost => out.release(object(ObjectKind::Semaphore, first)),
        F::GuardRelease | F::GuardAbort => {
            // Whoever finds the guard set does not call anything.
            out.put(What::Access(Access {
                bytes: bytes(first, GUARD),
                kind: AccessKind::Write,
                atomicity: Atomicity::Atomic(Ordering::Release),
            }));
            out.release(object(ObjectKind::Once, first));
        }
        F::Free | F::Realloc | F::ReallocArray => match memory.free(first) {
            Some(block) => {
                let bytes = block.bytes;
                out.put(What::Free { bytes, written });
                out.slack(&block);
            }
            None => out.put(What::Fence),
        },
        F::GompCriticalEnd => {
            out.release(lock(CRITICAL));
        }
        F::GompAtomicEnd => out.release(lock(ATOMIC)),
        F::GompParallel
        | F::GompBarrier
        | F::GompSingleCopyStart
        | F::GompSingleCopyEnd
        | F::GompOrderedStart
        | F::GompOrderedEnd
        | F::GompTaskwait
        | F::GompTaskgroupEnd
        | F::GompLoopEnd
        | F::GompSectionsEnd
        | F::GompBarrierCancel
        | F::GompLoopEndCancel
        | F::GompSectionsEndCancel
        | F::GompParallelSections
        | F::GompParallelReductions
        | F::GompParallelLoopStatic
        | F::GompParallelLoopDynamic
        | F::GompParallelLoopGuided
        | F::GompParallelLoopRuntime
        | F::GompParallelLoopNonmonotonicDynamic
        | F::GompParallelLoopNonmonotonicGuided
        | F::GompParallelLoopNonmonotonicRuntime
        | F::GompParallelLoopMaybeNonmonotonicRuntime
        | F::GompTaskloop
        | F::GompTaskloopLong
        | F::GompDoacrossPost
        | F::GompDoacrossLongPost
        | F::GompTask => out.release(OPENMP),
        _ => out.put(What::Fence),
    }
}

/// A function returns.
pub fn left(
    open: &Open,
    item: &Item,
    memory: &mut Memory,
    barriers: &mut Barriers,
    out: &mut Out<'_>,
) {
    use Function as F;
    let [first, second, third] = open.arguments;
    let function = match &open.called {
        Called::Known(function) => *function,
        Called::Own(own) => return own::left(own, open, item, memory, out),
    };
    let origin = Origin::Heap {
        by: out.thread,
        place: open.place,
    };
    let result = result(item);
    let taken = matches!(result, Some(0 | OWNER_DIED));
    if result == Some(OWNER_DIED) && is_lock(function) {
        // The owner gave it back by its end.
        out.acquire(ENDED, Mode::Exclusive);
    }
    match function {
        F::MutexLock | F::MutexTryLock | F::MutexTimedLock | F::MutexClockLock if taken => {
            out.acquire(lock(first), Mode::Exclusive);
        }
        F::WriteLock
        | F::WriteTryLock
        | F::WriteTimedLock
        | F::WriteClockLock
        | F::SpinLock
        | F::SpinTryLock
            if taken =>
        {
            out.acquire(lock(first), Mode::Exclusive);
        }
        F::ReadLock | F::ReadTryLock | F::ReadTimedLock | F::ReadClockLock if taken => {
            out.acquire(lock(first), Mode::Shared);
        }
        F::OmpSetLock | F::OmpSetNestLock | F::GompCriticalNameStart => {
            out.acquire(lock(first), Mode::Exclusive);
        }
        F::OmpTestLock | F::OmpTestNestLock if result.is_some_and(|result| result != 0) => {
            out.acquire(lock(first), Mode::Exclusive);
        }
        F::GompCriticalStart => out.acquire(lock(CRITICAL), Mode::Exclusive),
        F::GompAtomicStart => out.acquire(lock(ATOMIC), Mode::Exclusive),
        F::ConditionWait | F::ConditionTimedWait | F::ConditionClockWait
            if taken || result == Some(TIMED_OUT) =>
        {
            if taken {
                let condition = object(ObjectKind::Condition, first);
                out.acquire(condition, Mode::Exclusive);
            }
            out.acquire(lock(second), Mode::Exclusive);
        }
        F::BarrierWait if matches!(result, Some(0 | SERIAL_THREAD)) => {
            out.put(What::Depart { barrier: first });
            if barriers.departed(first) {
                out.acquire(all_of(first), Mode::Exclusive);
            }
        }
        F::BarrierInit if succeeded(item) => {
            barriers.init(first, third as u32);
            out.put(What::Fence);
        }
        F::SemaphoreInit if succeeded(item) => out.put(What::SetCount {
            semaphore: first,
            count: third as u32,
        }),
        F::SemaphoreWait | F::SemaphoreTryWait | F::SemaphoreTimedWait | F::SemaphoreClockWait
            if succeeded(item) =>
        {
            out.acquire(object(ObjectKind::Semaphore, first), Mode::Exclusive);
        }
        // It may have run the function, or found that it was run.
        F::Once => {
            out.acquire(object(ObjectKind::Once, first), Mode::Exclusive);
            out.release(object(ObjectKind::Once, first));
        }
        F::GuardAcquire => out.acquire(object(ObjectKind::Once, first), Mode::Exclusive),
        F::Malloc | F::Valloc => allocate(memory, item.value(0), first, origin, out),
        F::Pvalloc => {
            let size = first.max(1).checked_next_multiple_of(PAGE).unwrap_or(first);
            allocate(memory, item.value(0), size, origin, out);
        }
        F::Calloc => allocate(
            memory,
            item.value(0),
            first.saturating_mul(second),
            origin,
            out,
        ),
        F::Realloc | F::AlignedAlloc | F::Memalign => {
            allocate(memory, item.value(0), second, origin, out);
        }
        F::ReallocArray => {
            allocate(
                memory,
                item.value(0),
                second.saturating_mul(third),
                origin,
                out,
            );
        }
        // Its result is in memory; the recorder reads it from there.
        F::PosixMemalign => allocate(memory, item.value(1), third, origin, out),
        F::GompParallel
        | F::GompBarrier
        | F::GompSingleCopyStart
        | F::GompSingleCopyEnd
        | F::GompOrderedStart
        | F::GompTaskwait
        | F::GompTaskgroupEnd
        | F::GompLoopEnd
        | F::GompSectionsEnd
        | F::GompBarrierCancel
        | F::GompLoopEndCancel
        | F::GompSectionsEndCancel
        | F::GompParallelSections
        | F::GompParallelReductions
        | F::GompParallelLoopStatic
        | F::GompParallelLoopDynamic
        | F::GompParallelLoopGuided
        | F::GompParallelLoopRuntime
        | F::GompParallelLoopNonmonotonicDynamic
        | F::GompParallelLoopNonmonotonicGuided
        | F::GompParallelLoopNonmonotonicRuntime
        | F::GompParallelLoopMaybeNonmonotonicRuntime
        | F::GompTaskloop
        | F::GompTaskloopLong
        | F::GompDoacrossWait
        | F::GompDoacrossLongWait => out.acquire(OPENMP, Mode::Exclusive),
        _ => out.put(What::Fence),
    }
}

/// A block was handed out, if it was.
pub fn allocate(
    memory: &mut Memory,
    block: Option<u64>,
    size: u64,
    origin: Origin,
    out: &mut Out<'_>,
) {
    match block.filter(|block| *block != 0) {
        Some(block) => {
            let block = memory.allocate(block, size, origin);
            out.put(What::Allocate { bytes: block.bytes });
            out.slack(&block);
        }
        None => out.put(What::Fence),
    }
}
