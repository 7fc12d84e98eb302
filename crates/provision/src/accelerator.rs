//! KVM or TCG: whether the processor or QEMU executes the guest's code.

use super::{VmOptions, last_line, on_file, unsupported};
use crate::ProvisionError;
use redhanded_sys::die_with_this_thread;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a kernel may take to print its version under KVM. Where KVM works it
/// takes a few tenths of a second.
const FIRST_MESSAGE: Duration = Duration::from_secs(4);

/// The accelerator that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Accel {
    /// KVM where it works, else TCG.
    #[default]
    Auto,
    /// KVM.
    Kvm,
    /// TCG, QEMU's translator.
    Tcg,
}

impl FromStr for Accel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            other => Err(format!("{other} is not one of auto, kvm and tcg")),
        }
    }
}

/// The accelerator that is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Accelerator {
    /// KVM.
    Kvm,
    /// TCG, with the reason why KVM is not used if it was considered.
    Tcg(Option<String>),
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kvm => f.write_str("KVM"),
            Self::Tcg(None) => f.write_str("TCG"),
            Self::Tcg(Some(why)) => write!(f, "TCG, because KVM cannot be used: {why}"),
        }
    }
}

impl Accelerator {
    /// QEMU's options for it.
    #[must_use]
    pub fn arguments(&self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // QEMU 7.2 sets wrong flags in cmpxchg16b, which newer kernels use for
            // every allocation. On a processor without it they do not.
            Self::Tcg(_) => ["-accel", "tcg,thread=multi", "-cpu", "qemu64,-cx16"],
        }
    }
}

/// Chooses the accelerator. For [`Accel::Auto`] KVM is tried first.
pub fn choose(options: &VmOptions) -> Result<Accelerator, ProvisionError> {
    let device = Path::new("/dev/kvm");
    match options.accel {
        Accel::Tcg => Ok(Accelerator::Tcg(None)),
        Accel::Kvm => match refusal(device) {
            Some(why) => Err(unsupported(format!("cannot use KVM: {why}"))),
            None => Ok(Accelerator::Kvm),
        },
        Accel::Auto => match refusal(device) {
            Some(why) => Ok(Accelerator::Tcg(Some(why))),
            None => Ok(match try_out(options)? {
                None => Accelerator::Kvm,
                Some(why) => Accelerator::Tcg(Some(why)),
            }),
        },
    }
}

/// The reason why KVM's device cannot be used, if there is one.
fn refusal(device: &Path) -> Option<String> {
    let why = OpenOptions::new()
        .read(true)
        .write(true)
        .open(device)
        .err()?;
    let device = device.display();
    Some(match why.kind() {
        io::ErrorKind::NotFound => format!("there is no {device}"),
        io::ErrorKind::PermissionDenied => {
            format!(
                "no permission to use {device} (members of its group, often called kvm, have it)"
            )
        }
        _ => format!("{device}: {why}"),
    })
}

/// Boots the kernel under KVM until it prints its version. Gives the reason if it
/// does not.
///
/// Nothing smaller will do: on some machines KVM runs a few instructions, but not a
/// kernel.
fn try_out(options: &VmOptions) -> Result<Option<String>, ProvisionError> {
    let mut command = options.qemu.command();
    command
        .args(Accelerator::Kvm.arguments())
        .args(["-m", "256M", "-kernel"])
        .arg(&options.kernel)
        .args(["-append", "console=ttyS0 earlyprintk=serial,ttyS0 panic=-1"])
        .args(["-chardev", "stdio,id=log,signal=off"])
        .args(["-device", "isa-serial,chardev=log"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    die_with_this_thread(&mut command, Vec::new());
    let mut child = command
        .spawn()
        .map_err(on_file("run", &options.qemu.program))?;
    let booted = first_message(&mut child);
    // This fails only if QEMU is gone already.
    drop(child.kill());
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        drop(stderr.take(1 << 16).read_to_end(&mut said));
    }
    drop(child.wait());
    Ok(match booted {
        Some(true) => None,
        Some(false) => Some(format!("KVM does not run here: {}", last_line(&said))),
        None => Some(format!(
            "KVM does not run here: the kernel printed nothing in {} s",
            FIRST_MESSAGE.as_secs(),
        )),
    })
}

/// Whether the kernel printed its version; `None` if it took too long.
fn first_message(child: &mut Child) -> Option<bool> {
    let mut stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // This fails only if nobody waits any longer.
        let _ = sender.send(prints_version(&mut stdout));
    });
    receiver.recv_timeout(FIRST_MESSAGE).ok()
}

fn prints_version(stdout: &mut impl Read) -> bool {
    let words = b"Linux version";
    let mut said = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stdout.read(&mut buffer) {
        said.extend_from_slice(&buffer[..count]);
        if said.windows(words.len()).any(|part| part == words) {
            return true;
        }
        if said.len() > 1 << 16 {
            break;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_gives_its_reason() {
        let absent = refusal(Path::new("/absent/kvm")).unwrap();
        assert_eq!(absent, "there is no /absent/kvm");
        let folder = tempfile::tempdir().unwrap();
        assert!(refusal(folder.path()).is_some(), "a folder is not a device");
        let file = folder.path().join("kvm");
        std::fs::File::create(&file).unwrap();
        assert_eq!(refusal(&file), None);
    }

    #[test]
    fn only_the_kernels_own_output_counts() {
        assert!(prints_version(
            &mut &b"Probing... ok\n[ 0.0] Linux version 6"[..]
        ));
        assert!(!prints_version(&mut &b"Probing EDD... ok\n"[..]));
        assert!(!prints_version(&mut io::repeat(b'x')), "not for ever");
    }

    #[test]
    fn names_of_accelerators_are_read() {
        assert_eq!("auto".parse(), Ok(Accel::Auto));
        assert_eq!("kvm".parse(), Ok(Accel::Kvm));
        assert_eq!("tcg".parse(), Ok(Accel::Tcg));
        assert!("KVM ".parse::<Accel>().is_err());
    }
}
