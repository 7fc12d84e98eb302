//! Cores of small real programs, compiled here, opened with gdb and taken apart.

use nix::sys::ptrace::{self, regset};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use redhanded_corefile::{self as core, CoreProcess, CoreThread};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Two threads at known places, one on a processor and one asleep, and values
/// that come to be when the program runs: its file does not hold them.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
long global_value = 1;
long covered_value = 0xcc;
long *heap_value;
char *untouched, *unwanted, *zeroed;
static int there;
__attribute__((noinline)) static void writer_spins(long argument) {
    /* It is there when its register has its value. */
    __asm__ volatile("movq %1, %%xmm7\nlock incl %0\n1: jmp 1b" : "+m"(there) : "r"(argument));
}
__attribute__((noinline)) static void reader_sleeps(long argument) {
    __atomic_add_fetch(&there, 1, __ATOMIC_SEQ_CST);
    for (;;) pause();
}
static void *writer(void *p) { writer_spins(0x1122334455667788); return p; }
static void *reader(void *p) { reader_sleeps(77); return p; }
int main(void) {
    pthread_t a, b;
    global_value = 4242;
    heap_value = malloc(sizeof *heap_value);
    *heap_value = 2121;
    size_t big = 1ul << 30, small = 1ul << 24;
    untouched = mmap(0, big, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    untouched[big / 2] = 'u';
    zeroed = mmap(0, small, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(zeroed, 0, small);
    zeroed[small - 1] = 'z';
    unwanted = mmap(0, small, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(unwanted, 'n', small);
    madvise(unwanted, small, MADV_DONTDUMP);
    pthread_create(&a, 0, writer, 0);
    pthread_create(&b, 0, reader, 0);
    while (__atomic_load_n(&there, __ATOMIC_SEQ_CST) < 2) usleep(1000);
    printf("%lx\n", (unsigned long)&covered_value);
    fflush(stdout);
    pthread_join(a, 0);
}
"#;

/// The running program; it goes with this value.
struct Running {
    child: Child,
    program: PathBuf,
    memory: File,
    /// Where its `covered_value` is.
    covered: u64,
}

impl Running {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let (source, program) = (folder.join("program.c"), folder.join("program"));
        fs::write(&source, SOURCE).unwrap();
        let status = Command::new("gcc")
            .args(["-g", "-O0", "-pthread"])
            .args(flags)
            .args([&source, Path::new("-o"), &program])
            .status()
            .expect("gcc is needed for the tests");
        assert!(status.success());
        let mut child = Command::new(&program)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            memory: File::open(format!("/proc/{}/mem", child.id())).unwrap(),
            covered: u64::from_str_radix(line.trim(), 16).unwrap(),
            child,
            program,
        }
    }

    fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    /// Its threads, stopped, the one that spins first.
    fn stop(&self) -> Vec<CoreThread> {
        let mut tids = self.tids();
        assert_eq!(tids.len(), 3);
        // The threads were started in this order: main, writer, reader.
        tids.swap(0, 1);
        tids.into_iter().map(stop).collect()
    }

    fn tids(&self) -> Vec<i32> {
        let Ok(folder) = fs::read_dir(format!("/proc/{}/task", self.pid())) else {
            return Vec::new();
        };
        let tid = |name: std::ffi::OsString| name.to_str()?.parse().ok();
        let mut tids: Vec<_> = folder
            .filter_map(|entry| tid(entry.ok()?.file_name()))
            .collect();
        tids.sort_unstable();
        tids
    }

    /// Ends it, and waits until it is gone.
    fn end(&mut self) {
        let tids = self.tids();
        let _ = self.child.kill();
        // A traced thread is there until its tracer has heard of its end, and its
        // leader until the last of them is gone.
        for tid in tids.into_iter().filter(|tid| *tid != self.pid()) {
            while waitpid(Pid::from_raw(tid), Some(WaitPidFlag::__WALL))
                .is_ok_and(|status| matches!(status, WaitStatus::Stopped(..)))
            {}
        }
        let _ = self.child.wait();
    }

    fn write(&self, threads: &[CoreThread], path: &Path) -> std::io::Result<u64> {
        core::write(
            &CoreProcess {
                pid: self.pid(),
                threads,
                memory: &self.memory,
                hide: &|address, bytes: &mut [u8]| {
                    if let Some(byte) = self
                        .covered
                        .checked_sub(address)
                        .and_then(|place| bytes.get_mut(usize::try_from(place).unwrap()))
                    {
                        assert_eq!(*byte, 0xcc);
                        *byte = 0x55;
                    }
                },
            },
            path,
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Stops a thread and reads its registers.
fn stop(tid: i32) -> CoreThread {
    let pid = Pid::from_raw(tid);
    ptrace::seize(pid, ptrace::Options::empty()).unwrap();
    ptrace::interrupt(pid).unwrap();
    waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
    let r = ptrace::getregs(pid).unwrap();
    let f = ptrace::getregset::<regset::NT_PRFPREG>(pid).unwrap();
    let mut floating = Vec::new();
    for half in [f.cwd, f.swd, f.ftw, f.fop] {
        floating.extend_from_slice(&half.to_le_bytes());
    }
    floating.extend_from_slice(&f.rip.to_le_bytes());
    floating.extend_from_slice(&f.rdp.to_le_bytes());
    let words = [f.mxcsr, f.mxcr_mask];
    for word in words.iter().chain(&f.st_space).chain(&f.xmm_space) {
        floating.extend_from_slice(&word.to_le_bytes());
    }
    floating.resize(512, 0);
    CoreThread {
        tid,
        registers: [
            r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx,
            r.rdx, r.rsi, r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base,
            r.gs_base, r.ds, r.es, r.fs, r.gs,
        ],
        floating,
        xstate: Vec::new(),
        signal: libc::SIGTRAP,
    }
}

/// What gdb prints for these commands.
fn gdb(program: &Path, core: &Path, commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb
        .args([program, core])
        .output()
        .expect("gdb is needed for the tests");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    for complaint in ["BFD", "truncated", "corrupt"] {
        assert!(!err.contains(complaint), "{err}");
    }
    format!("{out}\n{err}")
}

const COMMANDS: &[&str] = &[
    "info threads",
    "thread apply all bt",
    "print global_value",
    "print covered_value",
    "print *heap_value",
    "print untouched[1 << 29]",
    "print untouched[0]",
    "print zeroed[(1 << 24) - 1]",
    "print zeroed[0]",
    "print/x $xmm7.v2_int64[0]",
    "info auxv",
];

fn opens_in_gdb(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), flags);
    let threads = running.stop();
    let path = folder.path().join("core.1");
    let written = running.write(&threads, &path).unwrap();

    let seen = gdb(&running.program, &path, COMMANDS);
    let current = seen
        .lines()
        .find(|line| line.starts_with('*'))
        .unwrap_or_else(|| panic!("{seen}"));
    assert!(
        current.contains(&format!("LWP {}", threads[0].tid)) && current.contains("writer_spins"),
        "{seen}"
    );
    for thread in &threads {
        assert!(seen.contains(&format!("LWP {}", thread.tid)), "{seen}");
    }
    for fact in [
        "SIGTRAP",
        " main () at ",
        "writer_spins (argument=1234605616436508552)",
        "in writer (p=0x0)",
        "reader_sleeps (argument=77)",
        "in reader (p=0x0)",
        "$1 = 4242",
        "$2 = 85",
        "$3 = 2121",
        "$4 = 117 'u'",
        "$5 = 0 '\\000'",
        "$6 = 122 'z'",
        "$7 = 0 '\\000'",
        "$8 = 0x1122334455667788",
        "AT_PHDR",
    ] {
        assert!(seen.contains(fact), "no {fact:?} in:\n{seen}");
    }
    // The pages of zeros are holes, on the disk and in the count.
    let meta = path.metadata().unwrap();
    assert!(meta.len() > 1 << 30);
    assert!(written < 1 << 25 && meta.blocks() * 512 < 1 << 25);
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
}

#[test]
fn gdb_opens_the_core_of_a_dynamic_program() {
    opens_in_gdb(&["-pie", "-fPIE"]);
}

#[test]
fn gdb_opens_the_core_of_a_static_program() {
    opens_in_gdb(&["-static"]);
}

#[test]
fn the_core_says_what_the_process_is() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), &[]);
    let threads = running.stop();
    let path = folder.path().join("core.2");
    running.write(&threads, &path).unwrap();

    // The headers and notes; the whole file is mostly one large hole.
    let file = File::open(&path).unwrap();
    let mut data = vec![0; 1 << 20];
    let count = file.read_at(&mut data, 0).unwrap();
    data.truncate(count);
    let header = FileHeader64::<LittleEndian>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    assert_eq!(header.e_type(endian), elf::ET_CORE);
    let segments = header.program_headers(endian, &*data).unwrap();
    let mut notes = segments[0].notes(endian, &*data).unwrap().unwrap();
    let mut found = Vec::new();
    while let Some(note) = notes.next().unwrap() {
        found.push((note.n_type(endian), note.desc().to_vec()));
    }
    let of = |kind: u32| -> Vec<&[u8]> {
        found
            .iter()
            .filter(|(found, _)| *found == kind)
            .map(|(_, content)| &**content)
            .collect()
    };
    let statuses = of(elf::NT_PRSTATUS);
    assert_eq!(statuses.len(), threads.len());
    for (status, thread) in statuses.iter().zip(&threads) {
        assert_eq!(status[32..36], thread.tid.to_le_bytes());
        assert_eq!(status[36..40], std::process::id().to_le_bytes());
        let rip = 112 + 16 * 8;
        assert_eq!(status[rip..rip + 8], thread.registers[16].to_le_bytes());
    }
    assert_eq!(of(elf::NT_PRFPREG).len(), threads.len());
    let info = of(elf::NT_PRPSINFO)[0];
    assert_eq!(info[24..28], running.pid().to_le_bytes());
    assert!(info[40..].starts_with(b"program\0"));
    let auxv = fs::read(format!("/proc/{}/auxv", running.pid())).unwrap();
    assert_eq!(of(elf::NT_AUXV), [&*auxv]);
    let files = of(elf::NT_FILE)[0];
    let name = running.program.to_str().unwrap().as_bytes();
    assert!(files.windows(name.len()).any(|window| window == name));

    // Every mapping is there, and the vDSO's bytes are.
    let maps = fs::read_to_string(format!("/proc/{}/maps", running.pid())).unwrap();
    assert_eq!(segments.len(), maps.lines().count() + 1);
    for (line, segment) in maps.lines().zip(&segments[1..]) {
        let start = segment.p_vaddr(endian);
        assert!(
            line.starts_with(&format!("{start:x}-")) || line.starts_with(&format!("{start:08x}-")),
            "{line}"
        );
        let stored = segment.p_filesz(endian);
        if line.ends_with("[vvar]") || line.contains("---p") {
            assert_eq!(stored, 0, "{line}");
        }
        if line.ends_with("[vdso]") {
            assert_eq!(stored, segment.p_memsz(endian));
            let mut live = vec![0; usize::try_from(stored).unwrap()];
            let mut kept = live.clone();
            running.memory.read_exact_at(&mut live, start).unwrap();
            file.read_exact_at(&mut kept, segment.p_offset(endian))
                .unwrap();
            assert!(live.starts_with(&elf::ELFMAG) && kept == live);
        }
    }
}

#[test]
fn what_cannot_be_finished_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(folder.path(), &[]);
    let threads = running.stop();
    let place = folder.path().join("cores");
    fs::create_dir(&place).unwrap();
    let path = place.join("core.3");

    // As the memory of a process that ended reads.
    running.memory = File::open("/dev/null").unwrap();
    let error = running.write(&threads, &path).unwrap_err();
    assert!(error.to_string().contains("the process ended"), "{error}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);

    let error = running.write(&[], &path).unwrap_err();
    assert!(error.to_string().contains("thread"), "{error}");
    let missing = place.join("missing/core");
    let error = running.write(&threads, &missing).unwrap_err();
    assert!(error.to_string().contains("missing/core"), "{error}");

    running.end();
    assert!(running.write(&threads, &path).is_err());
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

/// A small file system; it goes with this value.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_an_error_and_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("small");
    fs::create_dir(&place).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "none"])
        .arg(&place)
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mounting a small file system is not allowed here");
        return;
    }
    let _mounted = Mounted(&place);
    let running = Running::start(folder.path(), &[]);
    let threads = running.stop();
    let path = place.join("core.4");
    fs::write(&path, "an older one").unwrap();
    let error = running.write(&threads, &path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "an older one");
}
