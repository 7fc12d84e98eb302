//! Real virtual machines. They need a kernel in the cache folder that
//! REDHANDED_KERNELS names.

use redhanded_provision::{
    Accel, Accelerator, Added, Archive, Output, Provision, VirtualMachine, VmOptions, VmState,
    Wanted, build_module, find, find_newer_qemu, needed_modules, provide_newer_qemu,
    write_initramfs,
};
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Far more than a boot takes, emulated and on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

fn provision() -> Option<Provision> {
    let Some(folder) = std::env::var_os("REDHANDED_KERNELS") else {
        eprintln!("skipped: REDHANDED_KERNELS names no folder with a kernel");
        return None;
    };
    let found = find(Path::new(&folder), &wanted(Archive::Release));
    Some(found.expect("the folder that REDHANDED_KERNELS names has no kernel, QEMU or headers"))
}

const fn wanted(archive: Archive) -> Wanted {
    Wanted {
        archive,
        debug: false,
        headers: true,
    }
}

/// The kernel of the backports, if the folder has it.
fn backport() -> Option<Provision> {
    let folder = std::env::var_os("REDHANDED_KERNELS")?;
    let found = find(Path::new(&folder), &wanted(Archive::Backports));
    if found.is_none() {
        eprintln!("skipped: the folder has no kernel of the backports");
    }
    found
}

fn options(provision: &Provision, workload: &[&str]) -> VmOptions {
    let workload = workload.iter().map(OsString::from).collect();
    VmOptions {
        accel: Accel::Tcg,
        stopped: false,
        ..VmOptions::new(&provision.tools, provision.kernel.clone(), workload)
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Ran {
    state: VmState,
    out: String,
    err: String,
    log: Vec<String>,
    troubles: Vec<String>,
}

fn run(options: &VmOptions) -> Ran {
    let (out, err) = (Kept::default(), Kept::default());
    let output = Output {
        stdout: Box::new(out.clone()),
        stderr: Box::new(err.clone()),
    };
    let mut vm = VirtualMachine::launch(options, output).unwrap();
    let state = vm.wait(LIMIT);
    assert_eq!(vm.finish(), state);
    let (log, troubles) = (vm.log(), vm.troubles());
    Ran {
        state,
        out: out.text(),
        err: err.text(),
        log,
        troubles,
    }
}

#[test]
fn a_workload_gives_its_output_and_its_status() {
    let Some(provision) = provision() else { return };
    let script =
        "echo hi; echo \"it's\" \"$0\" \"$1\" >&2; cat /proc/cpuinfo | grep -c ^proc; exit 3";
    let ran = run(&options(
        &provision,
        &["sh", "-c", script, "a  'b", "$c\n*"],
    ));
    assert_eq!(ran.state, VmState::Exited(3), "{:?}", ran.log);
    assert_eq!(ran.out, "hi\n2\n", "not one byte of the kernel's log in it");
    assert_eq!(ran.err, "it's a  'b $c\n*\n");
    assert!(ran.log.iter().any(|line| line.contains(&provision.release)));
    assert_eq!(ran.troubles, [""; 0]);
}

#[test]
fn a_newer_qemu_does_the_same() {
    let Some(provision) = provision() else { return };
    let folder = PathBuf::from(std::env::var_os("REDHANDED_KERNELS").unwrap());
    if find_newer_qemu(&folder).is_none() {
        eprintln!("skipped: the folder has no second QEMU");
        return;
    }
    let qemu = provide_newer_qemu(&folder, &mut |said| panic!("{said}")).unwrap();
    assert_ne!(
        qemu.version().unwrap(),
        provision.tools.qemu.version().unwrap()
    );
    let machine = VmOptions {
        qemu,
        ..options(&provision, &["sh", "-c", "echo hi; echo ho >&2; exit 3"])
    };
    let ran = run(&machine);
    assert_eq!(ran.state, VmState::Exited(3), "{:?}", ran.log);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("hi\n", "ho\n"));
}

#[test]
fn a_workload_that_cannot_be_run_ends_as_in_a_shell() {
    let Some(provision) = provision() else { return };
    let ran = run(&options(&provision, &["absent-program"]));
    assert_eq!(ran.state, VmState::Exited(127));
    assert!(ran.err.contains("absent-program"), "{}", ran.err);
    let ran = run(&options(&provision, &["exit", "5"]));
    assert_eq!(
        ran.state,
        VmState::Exited(5),
        "the shell's own words are workloads"
    );
}

#[test]
fn much_output_arrives_in_full() {
    let Some(provision) = provision() else { return };
    let ran = run(&options(&provision, &["seq", "1", "20000"]));
    assert_eq!(ran.state, VmState::Exited(0));
    let expected: String = (1..=20000).map(|n| format!("{n}\n")).collect();
    assert!(ran.out == expected, "{} bytes", ran.out.len());
}

#[test]
fn a_panic_is_reported() {
    let Some(provision) = provision() else { return };
    let ran = run(&options(
        &provision,
        &[
            "sh",
            "-c",
            "echo before; sleep 1; echo c >/proc/sysrq-trigger",
        ],
    ));
    let VmState::Panicked(words) = ran.state else {
        panic!("{:?}", ran.state);
    };
    assert!(words.starts_with("Kernel panic - not syncing"), "{words}");
    assert_eq!(ran.out, "before\n");
    assert!(!ran.troubles.is_empty());
    assert!(ran.log.iter().any(|line| line.contains("Call Trace")));
}

#[test]
fn a_program_of_the_host_runs_with_its_libraries_and_files() {
    let Some(provision) = provision() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("data/deep")).unwrap();
    fs::write(folder.path().join("data/deep/file"), "deep words\n").unwrap();
    let script = folder.path().join("load.sh");
    fs::write(&script, "#!/bin/sh\necho script \"$1\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let add = |text: String| Added::parse(&OsString::from(text)).unwrap();
    let base = folder.path().display();
    // From coreutils: busybox's has no --version.
    let program = PathBuf::from("/usr/bin/sha512sum");
    let machine = VmOptions {
        added: vec![
            add(format!("{base}/data")),
            add(format!("{base}/load.sh")),
            add(format!("{}:/opt/sum", program.display())),
        ],
        ..options(
            &provision,
            &[
                "sh",
                "-c",
                "cat /data/deep/file; ./load.sh x; /opt/sum --version | head -n 1",
            ],
        )
    };
    let ran = run(&machine);
    assert_eq!(ran.state, VmState::Exited(0), "{}", ran.err);
    let (ours, sum) = ran.out.split_at("deep words\nscript x\n".len());
    assert_eq!(ours, "deep words\nscript x\n");
    assert!(sum.contains("coreutils"), "{sum}");
    let ran = run(&options(&provision, &["/usr/bin/sha512sum", "--version"]));
    assert!(
        ran.out.contains("coreutils"),
        "named by its path: {}",
        ran.out
    );
}

#[test]
fn a_program_in_a_temporary_folder_is_put_there_in_the_guest() {
    let Some(provision) = provision() else { return };
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let script = folder.path().join("load.sh");
    fs::write(&script, "#!/bin/sh\nmount | grep ' /tmp '; ls -A /tmp\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let ran = run(&options(&provision, &[script.to_str().unwrap()]));
    assert_eq!(ran.state, VmState::Exited(0), "{}", ran.err);
    let (mount, files) = ran.out.split_once('\n').unwrap();
    assert!(mount.contains("type tmpfs"), "{mount}");
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(files.trim(), name);
}

#[test]
fn a_module_is_built_and_loaded_before_the_workload() {
    for provision in provision().into_iter().chain(backport()) {
        module_of(&provision);
    }
}

fn module_of(provision: &Provision) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(
        source.join("seen.c"),
        "#include <linux/module.h>\n\
         static int number = 41;\n\
         module_param(number, int, 0444);\n\
         static int __init seen_init(void) { number++; pr_info(\"seen is here\\n\"); return 0; }\n\
         module_init(seen_init);\n\
         MODULE_LICENSE(\"GPL\");\n",
    )
    .unwrap();
    let module = build_module(provision, &source, &folder.path().join("out")).unwrap();
    let names: Vec<_> = fs::read_dir(&source).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is made beside the sources");
    let bytes = fs::read(&module).unwrap();
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    assert!(has(".debug_line"), "it has debug information");
    assert!(
        has(source.to_str().unwrap()),
        "which names the source where it is"
    );
    let machine = VmOptions {
        added: vec![Added::parse(module.as_os_str()).unwrap()],
        ..options(provision, &["cat", "/sys/module/seen/parameters/number"])
    };
    let ran = run(&machine);
    assert_eq!(ran.state, VmState::Exited(0), "{}", ran.err);
    assert_eq!(ran.out, "42\n", "it ran before");
    assert!(ran.log.iter().any(|line| line.contains("seen is here")));

    fs::write(source.join("seen.c"), "int odd = ;\n").unwrap();
    let error = build_module(provision, &source, &folder.path().join("out")).unwrap_err();
    assert!(error.to_string().contains("seen.c:1"), "{error}");
}

#[test]
fn a_refused_module_keeps_the_workload_from_starting() {
    let Some(provision) = provision() else { return };
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("bad.ko");
    fs::write(&module, "no module").unwrap();
    let machine = VmOptions {
        added: vec![Added::parse(module.as_os_str()).unwrap()],
        ..options(&provision, &["echo", "never"])
    };
    let ran = run(&machine);
    assert_eq!(ran.state, VmState::NotLoaded("/bad.ko".to_owned()));
    assert_eq!(ran.out, "");
    assert!(
        ran.err.contains("bad.ko"),
        "the reason is said: {}",
        ran.err
    );
}

#[test]
fn the_kernels_own_modules_come_with_their_dependencies() {
    for provision in provision().into_iter().chain(backport()) {
        own_modules_of(&provision);
    }
}

fn own_modules_of(provision: &Provision) {
    let modules = needed_modules(provision, &["dm-snapshot", "ext4"]).unwrap();
    let names: Vec<&str> = modules
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.split(".ko").next())
        .collect();
    let at = |name| names.iter().position(|n| *n == name);
    assert!(
        at("dm-mod").unwrap() < at("dm-snapshot").unwrap(),
        "{names:?}"
    );
    assert_eq!(names.last(), Some(&"dm-snapshot"), "ext4 is built in");
    assert!(needed_modules(provision, &["absent"]).is_err());
    let machine = VmOptions {
        added: modules.iter().map(|path| Added::module(path)).collect(),
        ..options(provision, &["grep", "-c", "^dm_snapshot ", "/proc/modules"])
    };
    let ran = run(&machine);
    assert_eq!(ran.state, VmState::Exited(0), "{} {:#?}", ran.err, ran.log);
    assert_eq!(ran.out, "1\n");
}

#[test]
fn a_stopped_machine_waits_for_its_debugger() {
    let Some(provision) = provision() else { return };
    let machine = VmOptions {
        stopped: true,
        ..options(&provision, &["true"])
    };
    let output = Output {
        stdout: Box::new(io::sink()),
        stderr: Box::new(io::sink()),
    };
    let mut vm = VirtualMachine::launch(&machine, output).unwrap();
    let folder = vm.gdb().parent().unwrap().to_owned();
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    let state = vm.wait_beyond(&VmState::Booting, Duration::from_millis(500));
    assert_eq!((state, vm.log()), (VmState::Booting, Vec::new()));
    let mut stub = UnixStream::connect(vm.gdb()).unwrap();
    stub.write_all(b"$?#3f").unwrap();
    let mut answer = [0; 64];
    let count = stub.read(&mut answer).unwrap();
    assert!(count > 0);
    stub.write_all(b"$D;1#b0").unwrap();
    assert_eq!(vm.wait(LIMIT), VmState::Exited(0));
    let pid = vm.pid();
    assert_eq!(vm.finish(), VmState::Exited(0));
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    drop(vm);
    assert!(!folder.exists());
}

#[test]
fn a_machine_ends_when_it_is_dropped() {
    let Some(provision) = provision() else { return };
    let machine = options(&provision, &["sleep", "1000"]);
    let output = Output {
        stdout: Box::new(io::sink()),
        stderr: Box::new(io::sink()),
    };
    let vm = VirtualMachine::launch(&machine, output).unwrap();
    assert_eq!(vm.wait_beyond(&VmState::Booting, LIMIT), VmState::Running);
    let stat = fs::read_to_string(format!("/proc/{}/stat", vm.pid())).unwrap();
    let group = stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap();
    assert_eq!(group, vm.pid().to_string(), "Ctrl-C does not reach it");
    let pid = vm.pid();
    drop(vm);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_refusal_of_qemu_is_reported_in_its_words() {
    let Some(provision) = provision() else { return };
    let machine = VmOptions {
        qemu_args: vec!["-device".into(), "no-such-device".into()],
        ..options(&provision, &["true"])
    };
    let error = VirtualMachine::launch(&machine, Output::ours())
        .err()
        .unwrap();
    assert!(error.to_string().contains("no-such-device"), "{error}");
    let machine = VmOptions {
        kernel: "/absent/vmlinuz".into(),
        ..machine
    };
    let error = VirtualMachine::launch(&machine, Output::ours())
        .err()
        .unwrap();
    assert!(error.to_string().contains("/absent/vmlinuz"), "{error}");
}

/// Not a test of its own: the process that the next one kills.
#[test]
#[ignore = "started by a_killed_launcher_leaves_no_machine"]
fn launcher() {
    let Some(provision) = provision() else { return };
    let vm =
        VirtualMachine::launch(&options(&provision, &["sleep", "1000"]), Output::ours()).unwrap();
    println!("\nqemu {}", vm.pid());
    let _ = vm.wait(LIMIT);
}

#[test]
fn a_killed_launcher_leaves_no_machine() {
    if provision().is_none() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "launcher", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let pid = lines.find_map(|line| Some(line.strip_prefix("qemu ")?.to_owned()));
    let process = PathBuf::from(format!("/proc/{}/stat", pid.unwrap()));
    assert!(
        fs::read_to_string(&process)
            .unwrap()
            .contains("(qemu-system")
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    // Its new parent may take a moment to reap it.
    let gone = || fs::read_to_string(&process).map_or(true, |stat| stat.contains(") Z "));
    while !gone() {
        assert!(Instant::now() < deadline, "QEMU lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_file_system_can_be_read_by_cpio() {
    let Some(provision) = provision() else { return };
    let folder = tempfile::tempdir().unwrap();
    let further = folder.path().join("further");
    fs::write(&further, "further initrd").unwrap();
    let machine = VmOptions {
        initrd: Some(further),
        ..options(&provision, &["true"])
    };
    let path = folder.path().join("initramfs");
    write_initramfs(&machine, &path).unwrap();
    let output = Command::new(&provision.tools.busybox)
        .args(["cpio", "-tv"])
        .stdin(fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let line = |end: &str| {
        let found = listed.lines().find(|line| line.ends_with(end));
        found
            .unwrap_or_else(|| panic!("no {end} in {listed}"))
            .to_owned()
    };
    assert!(line(" redhanded/init").starts_with("-rwxr-xr-x"));
    assert!(line(" dev/console").starts_with('c'));
    assert!(line(" bin/sh -> /redhanded/busybox").starts_with('l'));
    assert!(line(" sbin -> bin").starts_with('l'));
    assert!(fs::read(&path).unwrap().ends_with(b"further initrd"));
    let again = folder.path().join("again");
    write_initramfs(&machine, &again).unwrap();
    assert!(fs::read(&path).unwrap() == fs::read(&again).unwrap());
}

#[test]
fn kvm_is_used_only_where_it_runs_a_kernel() {
    let Some(provision) = provision() else { return };
    let machine = VmOptions {
        accel: Accel::Auto,
        ..options(&provision, &["echo", "ran"])
    };
    let (out, err) = (Kept::default(), io::sink());
    let output = Output {
        stdout: Box::new(out.clone()),
        stderr: Box::new(err),
    };
    let mut vm = VirtualMachine::launch(&machine, output).unwrap();
    match vm.accelerator() {
        Accelerator::Kvm => eprintln!("KVM runs here"),
        Accelerator::Tcg(why) => {
            let why = why.as_deref().expect("a fallback has its reason");
            eprintln!("{why}");
            assert!(why.to_lowercase().contains("kvm"));
        }
    }
    assert_eq!(vm.wait(LIMIT), VmState::Exited(0));
    vm.finish();
    assert_eq!(out.text(), "ran\n");
}
