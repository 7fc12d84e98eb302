//! Whether the processor or QEMU executes the guest's code.

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

/// How long a kernel may take under KVM until it says its first words. Where KVM
/// works it is a few tenths of a second.
const FIRST_WORDS: Duration = Duration::from_secs(4);

/// How a machine is to be run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Accel {
    /// By KVM where that works, else by TCG.
    #[default]
    Auto,
    /// By KVM.
    Kvm,
    /// By TCG, QEMU's translator.
    Tcg,
}

impl FromStr for Accel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            other => Err(format!("{other} is none of auto, kvm and tcg")),
        }
    }
}

/// How a machine is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Accelerator {
    /// By KVM.
    Kvm,
    /// By TCG; with the reason why KVM is not used, if it was considered.
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
    /// What QEMU has to be told.
    #[must_use]
    pub fn arguments(&self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // QEMU 7.2 spoils the flags in cmpxchg16b, which newer kernels use for
            // every allocation: a processor without it has them do otherwise.
            Self::Tcg(_) => ["-accel", "tcg,thread=multi", "-cpu", "qemu64,-cx16"],
        }
    }
}

/// Chooses, and tries KVM out where the choice is ours.
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

/// Why KVM's device cannot be used, if so.
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
            format!("no permission to use {device} (its group may: often it is called kvm)")
        }
        _ => format!("{device}: {why}"),
    })
}

/// Boots the kernel itself under KVM until it speaks; why it did not, if so.
///
/// Nothing smaller will do: there are machines whose KVM runs a few instructions
/// and no kernel.
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
    let spoke = first_words(&mut child);
    // It fails only when QEMU is gone already.
    drop(child.kill());
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        drop(stderr.take(1 << 16).read_to_end(&mut said));
    }
    drop(child.wait());
    Ok(match spoke {
        Some(true) => None,
        Some(false) => Some(format!("KVM does not run here: {}", last_line(&said))),
        None => Some(format!(
            "KVM does not run here: the kernel said nothing in {} s",
            FIRST_WORDS.as_secs(),
        )),
    })
}

/// Whether the kernel said its version; `None` when it took too long.
fn first_words(child: &mut Child) -> Option<bool> {
    let mut stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // It fails only when nobody waits any longer.
        let _ = sender.send(says_version(&mut stdout));
    });
    receiver.recv_timeout(FIRST_WORDS).ok()
}

fn says_version(stdout: &mut impl Read) -> bool {
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
    fn a_refusal_says_what_is_wrong() {
        let absent = refusal(Path::new("/absent/kvm")).unwrap();
        assert_eq!(absent, "there is no /absent/kvm");
        let folder = tempfile::tempdir().unwrap();
        assert!(refusal(folder.path()).is_some(), "no device at all");
        let file = folder.path().join("kvm");
        std::fs::File::create(&file).unwrap();
        assert_eq!(refusal(&file), None);
    }

    #[test]
    fn only_the_kernels_own_words_count() {
        assert!(says_version(
            &mut &b"Probing... ok\n[ 0.0] Linux version 6"[..]
        ));
        assert!(!says_version(&mut &b"Probing EDD... ok\n"[..]));
        assert!(!says_version(&mut io::repeat(b'x')), "not for ever");
    }

    #[test]
    fn names_of_accelerators_are_read() {
        assert_eq!("auto".parse(), Ok(Accel::Auto));
        assert_eq!("kvm".parse(), Ok(Accel::Kvm));
        assert_eq!("tcg".parse(), Ok(Accel::Tcg));
        assert!("KVM ".parse::<Accel>().is_err());
    }
}
