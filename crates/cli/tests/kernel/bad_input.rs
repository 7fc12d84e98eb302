//! What cannot be looked at: one clear sentence each, status 125, no panic, and no
//! machine left behind.

use crate::machine::Kernels;
use crate::place::Place;
use std::fs;
use std::os::unix::net::UnixListener;

#[test]
fn addresses_at_which_there_is_no_machine() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let attach =
        |address: &str| place.run(["kernel", "--gdb", address, "--vmlinux", kernels.kernel()]);
    attach("unix:absent.sock").refused(125, "absent.sock");
    // Nobody listens on the first port, and binding it takes rights.
    attach("127.0.0.1:1").refused(125, "127.0.0.1:1");
    attach("nonsense").refused(125, "nonsense");
    attach("192.0.2.1:1234").refused(125, "--remote");
    let silent = UnixListener::bind(place.path("silent.sock")).unwrap();
    attach("unix:silent.sock").refused(125, "silent.sock");
    drop(silent);
}

#[test]
fn what_is_missing_is_said() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let refused = |arguments: &[&str], sentence: &str| {
        place.run(arguments).refused(125, sentence);
    };
    refused(&["kernel", "--kernel", kernels.kernel()], "workload");
    refused(&["kernel", "--gdb", "unix:any.sock"], "--vmlinux");
    refused(&["kernel", "--kernel", "absent", "--", "true"], "absent");
    let kernel = ["kernel", "--kernel", kernels.kernel()];
    refused(
        &[&kernel[..], &["--add", "absent", "--", "true"]].concat(),
        "absent",
    );
    refused(
        &[&kernel[..], &["--modules", "absent", "--", "true"]].concat(),
        "absent",
    );
    refused(
        &[&kernel[..], &["--vmlinux", "absent", "--", "true"]].concat(),
        "absent",
    );
}

#[test]
fn files_that_are_no_kernel() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let whole = fs::read(&kernels.provision.kernel).unwrap();
    place.file("short", &whole[..whole.len() / 2], 0o644);
    place.file("shorter", &whole[..300], 0o644);
    place.file("empty", b"", 0o644);
    place.file("text", b"this boots nothing", 0o644);
    for name in ["short", "shorter", "empty", "text"] {
        place
            .run(["kernel", "--kernel", name, "--", "true"])
            .refused(125, name);
        let kernel = kernels.kernel();
        place
            .run([
                "kernel",
                "--kernel",
                kernel,
                "--vmlinux",
                name,
                "--",
                "true",
            ])
            .refused(125, name);
    }
}

#[test]
fn a_vmlinux_of_something_else() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let module = kernels.module(&place.path("module"));
    let machine = kernels.boot(&module);
    let gdb = machine.gdb();
    let program = env!("CARGO_BIN_EXE_redhanded");
    place
        .run(["kernel", "--gdb", &gdb, "--vmlinux", program])
        .refused(125, "redhanded");
    machine.runs_on();
    place
        .run([
            "kernel",
            "--gdb",
            &gdb,
            "--vmlinux",
            module.to_str().unwrap(),
        ])
        .refused(125, "redhanded_demo.ko");
    machine.runs_on();
}
