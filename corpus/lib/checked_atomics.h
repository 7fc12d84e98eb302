// Atomics in the way of a well-known library's header: the macros name their argument once more, in
// code that is never run, to check its type.
#ifndef CORPUS_CHECKED_ATOMICS_H
#define CORPUS_CHECKED_ATOMICS_H

#define checked_get(atomic)                                  \
    (__extension__({                                         \
        long seen_;                                          \
        (void)(0 ? *(atomic) ^ *(atomic) : 1);               \
        __atomic_load((long *)(atomic), &seen_, __ATOMIC_SEQ_CST); \
        (long)seen_;                                         \
    }))

#define checked_set(atomic, value)                           \
    (__extension__({                                         \
        long next_ = (value);                                \
        (void)(0 ? *(atomic) ^ (value) : 1);                 \
        __atomic_store((long *)(atomic), &next_, __ATOMIC_RELEASE); \
    }))

#endif
