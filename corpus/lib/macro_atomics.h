// Nothing but macros: no line of this file has code of its own.
#ifndef CORPUS_MACRO_ATOMICS_H
#define CORPUS_MACRO_ATOMICS_H

#define AO_READ(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)
#define AO_SET(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELEASE)

#endif
