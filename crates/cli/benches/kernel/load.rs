//! The mixed load: a program for the guest, and an ext4 file system for it.

use redhanded_provision::{Provision, needed_modules};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// How large the file system is.
const IMAGE: u64 = 24 << 20;

/// What a machine is given.
pub struct Load {
    pub arguments: Vec<String>,
    pub workload: Vec<String>,
}

impl Load {
    pub fn has_ext4(&self) -> bool {
        self.workload.len() > 1
    }
}

/// Builds it in a folder. Without `mkfs.ext4` on this host it has files on tmpfs only.
pub fn build(provision: &Provision, folder: &Path) -> Load {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/kernel/mixed_load.c");
    let program = folder.join("mixed_load");
    let built = Command::new("cc")
        .args(["-O2", "-w", "-static", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(built.expect("a C compiler").success(), "mixed_load.c");
    let mut load = Load {
        arguments: Vec::new(),
        workload: vec![program.display().to_string()],
    };
    if let Some(modules) = &provision.modules {
        load.arguments
            .push(format!("--modules={}", modules.display()));
    }
    let image = folder.join("ext4.img");
    let modules = needed_modules(provision, &["loop"]);
    if let (true, Ok(modules)) = (make_image(&image), modules) {
        for file in modules.iter().chain([&image]) {
            load.arguments.push(format!("--add={}", file.display()));
        }
        load.workload.push("/ext4.img".to_owned());
    }
    load
}

fn make_image(image: &Path) -> bool {
    let sized = File::create(image).and_then(|file| file.set_len(IMAGE));
    // Its folder is not on every user's PATH.
    let made = ["mkfs.ext4", "/sbin/mkfs.ext4"].iter().any(|program| {
        let status = Command::new(program).arg("-q").arg(image).status();
        status.is_ok_and(|status| status.success())
    });
    sized.is_ok() && made
}
