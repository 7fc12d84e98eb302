//! A real process, stopped and run step by step.

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use redhanded_replay::{Bytes, Fetched, Memory, Page, State, Vectors, flag};
use redhanded_sys::{Mapping, mappings};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

const NT_X86_XSTATE: i32 = 0x202;

pub struct Tracee {
    child: Child,
    pub memory: ProcessMemory,
}

/// Memory of a process that stands.
pub struct ProcessMemory {
    file: File,
    maps: Vec<Mapping>,
    pid: i32,
}

impl Tracee {
    /// Starts a shell that stops itself and then becomes the program.
    pub fn start(program: &[&str]) -> Self {
        let child = Command::new("sh")
            .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
            .args(program)
            // Where a thread runs is written into its memory by the kernel.
            .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let pid = child.id().cast_signed();
        while redhanded_sys::status_field(pid, "State:").is_none_or(|s| !s.starts_with('T')) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let at = Pid::from_raw(pid);
        ptrace::attach(at).expect("attach");
        waitpid(at, None).expect("stop");
        let memory = ProcessMemory {
            file: File::options()
                .read(true)
                .write(true)
                .open(format!("/proc/{pid}/mem"))
                .expect("memory"),
            maps: Vec::new(),
            pid,
        };
        let mut tracee = Self { child, memory };
        // The signal that stopped it may still be there, and attaching has sent another.
        while tracee.step(None).expect("it lives") != Signal::SIGTRAP {}
        tracee.memory.refresh();
        tracee
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// All registers.
    pub fn state(&self) -> State {
        let registers = redhanded_sys::registers(self.pid()).expect("registers");
        let vectors = redhanded_sys::register_set(self.pid(), NT_X86_XSTATE).expect("vectors");
        State {
            general: registers.gpr,
            ip: registers.rip,
            // Stepping sets the trap and the resume flag.
            flags: registers.rflags & !(flag::TF | 1 << 16),
            fs_base: registers.fs_base,
            gs_base: registers.gs_base,
            vectors: Box::new(Vectors::from_xsave(&vectors).expect("vectors")),
        }
    }

    /// Runs one instruction: the signal that it ended with, SIGTRAP if all is well. None
    /// when the process is gone.
    pub fn step(&mut self, signal: Option<Signal>) -> Option<Signal> {
        let pid = Pid::from_raw(self.pid());
        ptrace::step(pid, signal).ok()?;
        match waitpid(pid, None) {
            Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
            Ok(WaitStatus::PtraceEvent(..)) => Some(Signal::SIGTRAP),
            _ => None,
        }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ProcessMemory {
    /// Takes in what a system call may have changed.
    pub fn refresh(&mut self) {
        self.maps = mappings(self.pid);
        let path = format!("/proc/{}/mem", self.pid);
        self.file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .expect("memory");
    }

    /// A page of the program's own data.
    pub fn data(&self) -> u64 {
        let is_data = |m: &&Mapping| m.writable && m.name.starts_with(b"/");
        self.maps.iter().find(is_data).expect("data").start
    }

    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.file.read_exact_at(into, at).is_ok()
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("write");
    }
}

impl Memory for ProcessMemory {
    fn fetch(&mut self, page: u64) -> Fetched {
        let map = self.maps.iter().find(|m| (m.start..m.end).contains(&page));
        let Some(map) = map.filter(|m| m.readable) else {
            return Fetched::Unmapped;
        };
        if map.name.starts_with(b"[vvar") {
            return Fetched::Changing;
        }
        let mut bytes = Box::new(Bytes::default());
        if !self.read(page, &mut bytes.0) {
            return Fetched::Unknown;
        }
        Fetched::Page(Page {
            bytes,
            writable: map.writable,
            executable: map.executable,
        })
    }
}
