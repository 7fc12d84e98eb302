//! Against QEMU with a real kernel in it, two vCPUs writing to the null device.
//!
//! The folder named by REDHANDED_KERNELS holds what `redhanded_provision` fetches:
//! QEMU, a kernel with its debug information, a static busybox. A second version of
//! QEMU is used too if the folder has one.

use super::script;
use redhanded_guest::gdb::{
    Address, Answer, Gdb, GdbError, Point, PointKind, Request, StopReply, packet, rescue,
};
use redhanded_provision::{Archive, Provision, Qemu, Wanted, find, find_newer_qemu};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// Emulated, on a machine that does other things as well.
const BOOT: Duration = Duration::from_secs(240);

/// Tells a client that it is to be killed, and which site it is to work at.
const VICTIM: &str = "REDHANDED_TEST_VICTIM";

const INIT: &str = "#!/bin/busybox sh
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox yes >/dev/null &
/bin/busybox yes >/dev/null &
echo both write
/bin/busybox sleep 1000000
";

/// The addresses of symbols, in the order asked for.
fn symbols<const N: usize>(kernel: &Provision, names: [&str; N]) -> [u64; N] {
    let map = format!("System.map-{}", kernel.release);
    let map = kernel.vmlinux.as_ref().unwrap().with_file_name(map);
    let map = fs::read_to_string(map).unwrap();
    names.map(|name| {
        let line = map
            .lines()
            .find(|line| line.split(' ').nth(2) == Some(name));
        let address = line
            .unwrap_or_else(|| panic!("no {name}"))
            .split(' ')
            .next();
        u64::from_str_radix(address.unwrap(), 16).unwrap()
    })
}

/// An initramfs, in the format that the kernel unpacks.
fn initramfs(busybox: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (number, (name, mode, content)) in [
        ("bin", 0o40755, &b""[..]),
        ("bin/busybox", 0o100_755, busybox),
        ("init", 0o100_755, INIT.as_bytes()),
        ("TRAILER!!!", 0, b""),
    ]
    .into_iter()
    .enumerate()
    {
        let fields = [
            number,
            mode,
            0,
            0,
            1,
            0,
            content.len(),
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        archive.extend(b"070701");
        archive.extend(
            fields
                .iter()
                .flat_map(|field| format!("{field:08x}").into_bytes()),
        );
        archive.extend(name.bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(content);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

struct Vm {
    qemu: Child,
    folder: tempfile::TempDir,
}

impl Vm {
    /// A machine that stands at its first instruction.
    fn start(qemu: &Qemu, kernel: &Provision) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let busybox = fs::read(&kernel.tools.busybox).unwrap();
        let initrd = folder.path().join("initrd");
        fs::write(&initrd, initramfs(&busybox)).unwrap();
        let socket = |name: &str| {
            format!(
                "unix:{},server=on,wait=off",
                folder.path().join(name).display()
            )
        };
        let mut command = qemu.command();
        command
            .arg("-kernel")
            .arg(&kernel.kernel)
            .arg("-initrd")
            .arg(initrd)
            .args(["-append", "console=ttyS0 nokaslr panic=-1 quiet"])
            .args(["-S", "-smp", "2", "-m", "256", "-accel", "tcg,thread=multi"])
            .args(["-gdb", &socket("gdb"), "-monitor", &socket("monitor")])
            .arg("-serial")
            .arg(format!("file:{}", folder.path().join("serial").display()));
        let qemu = command.spawn().unwrap();
        let vm = Self { qemu, folder };
        let end = Instant::now() + PATIENCE;
        while !vm.path("gdb").exists() || !vm.path("monitor").exists() {
            assert!(Instant::now() < end, "QEMU does not start");
            thread::sleep(Duration::from_millis(20));
        }
        vm
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn connect(&self) -> Gdb {
        let end = Instant::now() + PATIENCE;
        loop {
            match script::connect(&Address::Unix(self.path("gdb")), PATIENCE) {
                // The socket is there a moment before QEMU listens to it.
                Err(GdbError::Refused { .. }) if Instant::now() < end => {
                    thread::sleep(Duration::from_millis(20));
                }
                connected => return connected.unwrap(),
            }
        }
    }

    fn serial(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("serial")).unwrap_or_default()).into_owned()
    }

    /// Whether the machine runs, as QEMU's monitor says.
    fn runs(&self) -> bool {
        let mut monitor = UnixStream::connect(self.path("monitor")).unwrap();
        monitor.set_read_timeout(Some(PATIENCE)).unwrap();
        monitor.write_all(b"info status\n").unwrap();
        let mut heard = Vec::new();
        loop {
            let mut some = [0; 4096];
            let count = monitor.read(&mut some).unwrap();
            assert_ne!(count, 0, "the monitor hung up");
            heard.extend(&some[..count]);
            let text = String::from_utf8_lossy(&heard);
            if let Some((_, status)) = text.split_once("VM status: ")
                && status.contains('\n')
            {
                return status.starts_with("running");
            }
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

const fn point(kind: PointKind, address: u64, len: u64) -> Point {
    Point { kind, address, len }
}

/// These packets as they are written.
fn framed(contents: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for content in contents {
        packet::encode(content.as_bytes(), &mut bytes);
    }
    bytes
}

/// The vCPU that is caught at a breakpoint, which is removed again.
fn caught_at(gdb: &mut Gdb, point: Point) -> u32 {
    assert_eq!(gdb.insert(&[point]).unwrap(), [true]);
    gdb.resume(None).unwrap();
    let stop = gdb.wait(PATIENCE).unwrap();
    let Some(StopReply::Stopped {
        vcpu: Some(vcpu),
        signal: StopReply::TRAP,
        watch: None,
    }) = stop
    else {
        panic!("{point:x?}: {stop:?}");
    };
    assert_eq!(gdb.registers(vcpu).unwrap().general.rip, point.address);
    assert_eq!(gdb.remove(&[point]).unwrap(), [true]);
    vcpu
}

/// One vCPU is held at its place while the other one runs.
fn holds_one(gdb: &mut Gdb, site: Point) {
    let held = caught_at(gdb, site);
    let other = if held == 1 { 2 } else { 1 };
    let both = [Request::Registers(held), Request::Registers(other)];
    let general = |answers: Vec<Answer>| {
        let registers = answers.into_iter().map(|answer| answer.registers());
        registers
            .map(|registers| registers.unwrap().general)
            .collect::<Vec<_>>()
    };
    let mut before = general(gdb.ask(&both).unwrap());
    let mut moved = false;
    for _ in 0..100 {
        let answers = gdb.ask_then_resume(&both, Some(&[other])).unwrap();
        assert_eq!(general(answers), before, "moved while all stood");
        // It may have hit the breakpoint as well, just before that was removed.
        let answers = match gdb.wait(Duration::from_millis(10)).unwrap() {
            Some(_) => gdb.ask(&both).unwrap(),
            None => gdb.interrupt_then_ask(&both, PATIENCE).unwrap().1,
        };
        let after = general(answers);
        assert_eq!(after[0], before[0], "moved while it was held");
        moved = after[1] != before[1];
        if moved {
            break;
        }
        before = after;
    }
    assert!(moved, "vCPU {other} does not run while vCPU {held} is held");
}

/// Leaves the machine as a client does that is killed: with `last` written.
fn rescued(vm: &Vm, points: &[Point], running: bool, last: &[u8]) {
    let mut gdb = vm.connect();
    assert!(gdb.insert(points).unwrap().iter().all(|done| *done));
    if running {
        gdb.resume(None).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    let stream = gdb.try_clone_stream().unwrap();
    let mut raw = UnixStream::from(stream.try_clone().unwrap());
    raw.write_all(last).unwrap();
    // A killed process runs no destructors.
    std::mem::forget(gdb);
    let state = format!(
        "running: {running}, last words {:?}",
        String::from_utf8_lossy(last)
    );
    rescue(stream.as_fd()).unwrap_or_else(|error| panic!("{state}: {error}"));
    assert!(vm.runs(), "{state}: the machine stands");
    let mut gdb = vm.connect();
    for point in points {
        assert_eq!(
            gdb.remove(&[*point]).unwrap(),
            [false],
            "{state}: {point:x?} stands"
        );
    }
    gdb.detach().unwrap();
    assert!(
        vm.runs(),
        "{state}: the machine stands after a second client"
    );
}

/// A client that is killed by its process's end: it works until then.
#[test]
fn works_until_it_is_killed() {
    let Ok(site) = std::env::var(VICTIM) else {
        println!("skipped: this is what drives_a_kernel starts and kills");
        return;
    };
    let site = site.parse().unwrap();
    let stream = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut gdb = Gdb::over(stream, PATIENCE).unwrap();
    println!("works");
    loop {
        let points = [
            point(PointKind::Hardware, site, 1),
            point(PointKind::Software, site, 1),
        ];
        for point in points {
            gdb.insert(&[point]).unwrap();
            gdb.resume(None).unwrap();
            if gdb.wait(Duration::from_millis(3)).unwrap().is_none() {
                gdb.interrupt(PATIENCE).unwrap();
            }
            let _ = gdb.registers_of(&[1, 2]).unwrap();
            let _ = gdb.read(site, &mut [0; 5000]).unwrap();
            gdb.remove(&[point]).unwrap();
            gdb.resume(Some(&[1])).unwrap();
            let _ = gdb.wait(Duration::from_micros(300)).unwrap();
            if gdb.is_running() {
                gdb.interrupt(PATIENCE).unwrap();
            }
        }
    }
}

/// Kills a client that is at work, at a moment nobody has chosen.
fn kill_one_at_work(vm: &Vm, site: u64, after: Duration) {
    let stream = UnixStream::connect(vm.path("gdb")).unwrap();
    let theirs = OwnedFd::from(stream.try_clone().unwrap());
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["works_until_it_is_killed", "--nocapture"])
        .env(VICTIM, site.to_string())
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(
        said.any(|line| line.unwrap().contains("works")),
        "it has met the stub"
    );
    thread::sleep(after);
    victim.kill().unwrap();
    let status = victim.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "it worked until then");
    rescue(&stream).unwrap();
    assert!(vm.runs(), "killed after {after:?}: the machine stands");
    drop(stream);
    let mut gdb = vm.connect();
    for kind in [PointKind::Hardware, PointKind::Software] {
        assert_eq!(gdb.remove(&[point(kind, site, 1)]).unwrap(), [false]);
    }
    gdb.detach().unwrap();
}

/// What things cost here, for whoever reads it.
fn tell_costs(gdb: &mut Gdb, site: u64) {
    let mut median = |what: &str, act: &mut dyn FnMut(&mut Gdb)| {
        let mut times: Vec<Duration> = (0..41)
            .map(|_| {
                let before = Instant::now();
                act(gdb);
                before.elapsed()
            })
            .collect();
        times.sort();
        println!("{what}: {:?}", times[20]);
    };
    median("one packet", &mut |gdb| {
        drop(gdb.ask(&[Request::Select(1)]).unwrap())
    });
    let watch = point(PointKind::Write, site & !7, 8);
    let opening = [
        Request::Remove(point(PointKind::Software, site, 1)),
        Request::Insert(watch),
        Request::Read {
            address: site,
            len: 8,
        },
        Request::Registers(1),
        Request::Registers(2),
    ];
    median("seven packets in one write", &mut |gdb| {
        gdb.ask(&opening).unwrap();
        gdb.remove(&[watch]).unwrap();
    });
    let mut much = vec![0; 1 << 20];
    median("1 MiB of memory", &mut |gdb| {
        assert!(gdb.read(site & !0xfff, &mut much).unwrap())
    });
    median("run for 50 us, stop and ask all that", &mut |gdb| {
        gdb.resume(None).unwrap();
        let stopped = gdb.wait(Duration::from_micros(50)).unwrap().is_some();
        if !stopped {
            gdb.interrupt_then_ask(&opening, PATIENCE).unwrap();
            gdb.remove(&[watch]).unwrap();
        }
    });
    median("run for 50 us and stop", &mut |gdb| {
        gdb.resume(None).unwrap();
        let _ = gdb.wait(Duration::from_micros(50)).unwrap();
        if gdb.is_running() {
            gdb.interrupt(PATIENCE).unwrap();
        }
    });
}

fn drive(qemu: &Qemu, kernel: &Provision) {
    let [write_null, unused, jiffies, banner, text] = symbols(
        kernel,
        [
            "write_null",
            "kernel_halt",
            "jiffies",
            "linux_banner",
            "_text",
        ],
    );
    let vm = Vm::start(qemu, kernel);
    let mut gdb = vm.connect();
    assert_eq!(gdb.vcpus(), [1, 2]);
    let first = gdb.registers(1).unwrap();
    assert_eq!(
        (first.general.rip, first.cs),
        (0xfff0, Some(0xf000)),
        "at reset"
    );
    assert_eq!(first.cr0.unwrap() & 1, 0, "in real mode");

    gdb.resume(None).unwrap();
    let end = Instant::now() + BOOT;
    while !vm.serial().contains("both write") {
        assert!(Instant::now() < end, "does not boot: {}", vm.serial());
        assert_eq!(gdb.wait(Duration::from_millis(100)).unwrap(), None);
    }
    let stop = gdb.interrupt(PATIENCE).unwrap();
    let StopReply::Stopped { signal, watch, .. } = stop else {
        panic!("{stop:?}");
    };
    assert_eq!((signal, watch), (StopReply::INTERRUPT, None));
    for registers in gdb.registers_of(&[1, 2]).unwrap() {
        assert_eq!(registers.cr0.unwrap() >> 31, 1, "paging");
        assert_ne!(registers.efer.unwrap() & 1 << 10, 0, "long mode");
        assert_ne!(registers.cr4.unwrap() & 1 << 5, 0, "long page tables");
        assert_ne!(registers.cr3.unwrap(), 0);
        let bases = [registers.gs_base, registers.kernel_gs_base].map(Option::unwrap);
        assert!(
            bases.iter().any(|base| *base >= 1 << 63),
            "per-CPU data: {bases:x?}"
        );
    }

    for kind in [PointKind::Hardware, PointKind::Software] {
        caught_at(&mut gdb, point(kind, write_null, 1));
    }
    // Now a vCPU is selected that is in the kernel.
    let mut version = [0; 16];
    assert!(gdb.read(banner, &mut version).unwrap());
    assert!(version.starts_with(b"Linux version"), "{version:?}");
    let mut much = vec![0; 1 << 20];
    assert!(gdb.read(text, &mut much).unwrap());
    let at = (write_null - text) as usize;
    if let Some(there) = much.get(at..at + 16) {
        let mut code = [0; 16];
        assert!(gdb.read(write_null, &mut code).unwrap());
        assert_eq!(there, code);
    }
    assert!(!gdb.read(0xffff_f000_0000_0000, &mut version).unwrap());

    tell_costs(&mut gdb, write_null);
    holds_one(&mut gdb, point(PointKind::Software, write_null, 1));
    holds_one(&mut gdb, point(PointKind::Hardware, write_null, 1));

    let watch = point(PointKind::Write, jiffies, 8);
    assert_eq!(gdb.insert(&[watch]).unwrap(), [true]);
    gdb.resume(None).unwrap();
    let stop = gdb.wait(PATIENCE).unwrap();
    assert!(
        matches!(stop, Some(StopReply::Stopped { watch: Some((PointKind::Write, at)), .. }) if at == jiffies),
        "{stop:?}"
    );
    gdb.detach().unwrap();
    assert!(vm.runs());

    // Whatever the moment in which a client is killed.
    let cold = [
        point(PointKind::Software, unused, 1),
        point(PointKind::Hardware, unused + 1, 1),
        point(PointKind::Access, unused & !7, 8),
    ];
    let hot = [point(PointKind::Software, write_null, 1), watch];
    rescued(&vm, &cold, false, b"");
    rescued(&vm, &cold, true, b"");
    rescued(&vm, &hot, true, b"");
    rescued(&vm, &hot, false, &framed(&["m10,4", "Z0,10,1", "Hg1", "g"]));
    rescued(&vm, &cold, true, b"\x03");
    let packet = framed(&["Z0,ffffffff81000000,1"]);
    for len in [
        1,
        2,
        3,
        9,
        packet.len() - 3,
        packet.len() - 2,
        packet.len() - 1,
    ] {
        rescued(&vm, &cold, false, &packet[..len]);
    }
    rescued(&vm, &cold, false, b"$m10}");
    rescued(&vm, &cold, false, &framed(&["vCont;c"]));

    for round in 0..12 {
        kill_one_at_work(&vm, write_null, Duration::from_micros(2_300 * round));
    }

    // A client after one that nobody rescued.
    let mut killed = UnixStream::connect(vm.path("gdb")).unwrap();
    killed.write_all(b"$Z0,ff").unwrap();
    drop(killed);
    let mut gdb = vm.connect();
    gdb.resume(None).unwrap();

    // And the end of the machine.
    let mut vm = vm;
    vm.qemu.kill().unwrap();
    let ended = gdb.wait(PATIENCE);
    assert!(
        matches!(
            ended,
            Err(GdbError::GoneAway) | Ok(Some(StopReply::Exited(_) | StopReply::Killed(_)))
        ),
        "{ended:?}"
    );
}

#[test]
fn drives_a_kernel() {
    let Some(folder) = std::env::var_os("REDHANDED_KERNELS").map(PathBuf::from) else {
        println!("skipped: REDHANDED_KERNELS names no folder with QEMU and a kernel");
        return;
    };
    let wanted = Wanted {
        archive: Archive::Release,
        debug: true,
        headers: false,
    };
    let kernel = find(&folder, &wanted).expect("a kernel");
    drive(&kernel.tools.qemu, &kernel);
    match find_newer_qemu(&folder) {
        Some(qemu) => drive(&qemu, &kernel),
        None => println!("one QEMU only: the folder has no newer one"),
    }
}
