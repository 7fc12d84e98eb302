//! Perf events on debug registers.

use super::{Tid, check};
use perf_event_open_sys as perf;
use redhanded_model::{Avma, Bytes, Watch, WatchFor};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// One perf event: a debug register in every thread of a process.
pub struct PerfWatch {
    event: OwnedFd,
    in_kernel: bool,
}

impl PerfWatch {
    /// Opens a switched-off watch on `tid`, which every thread started later
    /// inherits. Kernel accesses are included if `in_kernel`.
    pub fn open(tid: Tid, in_kernel: bool) -> io::Result<Self> {
        let mut attr = attributes(Bytes::new(Avma(8), 8), WatchFor::Writes, 0, in_kernel);
        attr.set_disabled(1);
        // SAFETY: the attributes are a live, initialised struct of stated size.
        let fd = unsafe {
            perf::perf_event_open(
                &raw mut attr,
                tid,
                -1,
                -1,
                perf::bindings::PERF_FLAG_FD_CLOEXEC.into(),
            )
        };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and is owned by nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { event, in_kernel })
    }

    /// Watches in all threads from now on.
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
        // The length of a code breakpoint is a word's by convention.
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
