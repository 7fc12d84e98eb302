//! Perf events: debug registers in all threads of a process, and samples of where a thread
//! runs.

use super::{Tid, check};
use perf_event_open_sys as perf;
use redhanded_model::{Avma, Bytes, Watch, WatchFor};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// One perf event: a debug register in every thread of a process.
pub struct PerfWatch {
    event: OwnedFd,
    in_kernel: bool,
}

impl PerfWatch {
    /// Opens a disabled watch on `tid`, which threads started later inherit. Includes
    /// kernel accesses if `in_kernel`.
    pub fn open(tid: Tid, in_kernel: bool) -> io::Result<Self> {
        let mut attr = attributes(Bytes::new(Avma(8), 8), WatchFor::Writes, 0, in_kernel);
        attr.set_disabled(1);
        let event = open(attr, tid)?;
        Ok(Self { event, in_kernel })
    }

    /// Watches in all threads.
    pub fn set(&self, watch: Watch) -> io::Result<()> {
        self.modify(attributes(
            watch.bytes,
            watch.watch_for,
            watch.number,
            self.in_kernel,
        ))
    }

    /// Traps in all threads before they execute the instruction at `address`.
    pub fn set_code(&self, address: Avma, number: u64) -> io::Result<()> {
        // By convention a code breakpoint has the length of a word.
        let mut attr = attributes(Bytes::new(address, 8), WatchFor::Writes, number, false);
        attr.bp_type = perf::bindings::HW_BREAKPOINT_X;
        self.modify(attr)
    }

    fn modify(&self, mut attr: perf::bindings::perf_event_attr) -> io::Result<()> {
        let fd = self.event.as_raw_fd();
        // SAFETY: the descriptor is ours and open, the attributes live.
        unsafe {
            check(perf::ioctls::MODIFY_ATTRIBUTES(fd, &raw mut attr).into())?;
            check(perf::ioctls::ENABLE(fd, 0).into())?;
        }
        Ok(())
    }

    /// Stops watching in all threads.
    pub fn clear(&self) -> io::Result<()> {
        // SAFETY: the descriptor is ours and open.
        check(unsafe { perf::ioctls::DISABLE(self.event.as_raw_fd(), 0) }.into()).map(drop)
    }

    /// How often it has fired since it was opened, in all threads.
    pub fn count(&self) -> Option<u64> {
        let mut count = [0u8; 8];
        // SAFETY: reads at most eight bytes into a live buffer.
        let got = unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
        (got == 8).then(|| u64::from_ne_bytes(count))
    }
}

/// Opens an event on a thread.
fn open(mut attr: perf::bindings::perf_event_attr, tid: Tid) -> io::Result<OwnedFd> {
    let flags = perf::bindings::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes are a live, initialised struct of stated size.
    let fd = unsafe { perf::perf_event_open(&raw mut attr, tid, -1, -1, flags) };
    check(fd.into())?;
    // SAFETY: the descriptor was just made and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attributes(
    bytes: Bytes,
    watch: WatchFor,
    number: u64,
    in_kernel: bool,
) -> perf::bindings::perf_event_attr {
    let mut attr = perf::bindings::perf_event_attr {
        type_: perf::bindings::PERF_TYPE_BREAKPOINT,
        size: size_of::<perf::bindings::perf_event_attr>() as u32,
        bp_type: match watch {
            WatchFor::Writes => perf::bindings::HW_BREAKPOINT_W,
            WatchFor::ReadsAndWrites => perf::bindings::HW_BREAKPOINT_RW,
        },
        sig_data: number,
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_3.bp_addr = bytes.start.0;
    attr.__bindgen_anon_4.bp_len = bytes.len;
    attr.set_exclude_kernel(u64::from(!in_kernel));
    attr.set_exclude_hv(1);
    attr.set_inherit(1);
    attr.set_inherit_thread(1);
    attr.set_sigtrap(1);
    attr.set_remove_on_exec(1);
    attr
}

/// How much of a thread's stack goes with each sample.
const STACK: u32 = 1024;
/// The size of the ring that holds samples until they are taken, in pages.
const RING: usize = 2;
const PAGE: usize = 4096;

/// Samples of where a thread runs, taken by the kernel without stopping it.
pub struct PcSamples {
    _event: OwnedFd,
    ring: *mut perf::bindings::perf_event_mmap_page,
    taken: u64,
}

impl PcSamples {
    /// Samples thread `tid` this many times in each second of its CPU time.
    pub fn open(tid: Tid, rate: u64) -> io::Result<Self> {
        let mut attr = perf::bindings::perf_event_attr {
            type_: perf::bindings::PERF_TYPE_SOFTWARE,
            config: perf::bindings::PERF_COUNT_SW_CPU_CLOCK.into(),
            size: size_of::<perf::bindings::perf_event_attr>() as u32,
            sample_type: u64::from(
                perf::bindings::PERF_SAMPLE_IP | perf::bindings::PERF_SAMPLE_STACK_USER,
            ),
            sample_stack_user: STACK,
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_freq = rate;
        attr.set_freq(1);
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        attr.set_exclude_callchain_kernel(1);
        let event = open(attr, tid)?;
        // SAFETY: a fresh mapping without an address asked for overlaps nothing.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let (size, fd) = ((1 + RING) * PAGE, event.as_raw_fd());
            libc::mmap(
                std::ptr::null_mut(),
                size,
                protection,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            _event: event,
            ring: at.cast(),
            taken: 0,
        })
    }

    /// Takes the samples since the last call: the pc, and all words on the stack that was
    /// copied, of which some are return addresses.
    pub fn take(&mut self) -> Vec<u64> {
        let mut words = Vec::new();
        // SAFETY: the first page is mapped until this value is dropped.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*self.ring).data_head) };
        let head = head.load(Ordering::Acquire);
        while self.taken < head {
            let header = self.word(self.taken);
            let (kind, size) = (header as u32, header >> 48);
            let end = self.taken + size.max(8);
            if kind == perf::bindings::PERF_RECORD_SAMPLE {
                let pc_and_stack = (self.taken + 8..end).step_by(8);
                words.extend(pc_and_stack.map(|at| self.word(at)));
            }
            self.taken = end;
        }
        // SAFETY: as before; the kernel reads it to know what it may overwrite.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*self.ring).data_tail) };
        tail.store(self.taken, Ordering::Release);
        words
    }

    /// The word at a position of the stream, of which the ring holds the end.
    fn word(&self, position: u64) -> u64 {
        let offset = PAGE + position as usize % (RING * PAGE);
        // SAFETY: records are made of whole words, and the offset is within the mapping.
        unsafe { self.ring.byte_add(offset).cast::<u64>().read_volatile() }
    }
}

impl Drop for PcSamples {
    fn drop(&mut self) {
        // SAFETY: nobody else has the mapping.
        unsafe { libc::munmap(self.ring.cast(), (1 + RING) * PAGE) };
    }
}
