//! What can be wrong with a stub.

use std::io;
use thiserror::Error;

/// Why a machine cannot be driven through its stub.
#[derive(Debug, Error)]
pub enum GdbError {
    /// Nobody listens there, or not to us.
    #[error(
        "cannot connect to a gdbstub at {address}: {source}; QEMU has one there when it is started with `-gdb {option}`"
    )]
    Refused {
        /// Where.
        address: String,
        /// What to start QEMU with.
        option: String,
        /// What the system said.
        source: io::Error,
    },
    /// The connection ended.
    #[error("the virtual machine has gone away: it closed the connection to its gdbstub")]
    GoneAway,
    /// There is a connection, and no answer.
    #[error(
        "the gdbstub does not answer: another debugger may be connected to it, or the virtual machine's process hangs or is stopped"
    )]
    Silent,
    /// There are answers, and they make no sense.
    #[error(
        "what answers is no usable gdbstub: {0}; give the address of QEMU's `-gdb` option, not of its monitor or console"
    )]
    Nonsense(String),
    /// There is a machine, but not one that Redhanded knows.
    #[error("the virtual machine is not an x86-64 but {0}; only those are supported")]
    NotX86_64(String),
    /// Something was asked while the machine runs.
    #[error("the virtual machine runs and cannot be asked anything: stop it before")]
    Running,
    /// The system refused something.
    #[error("the connection to the gdbstub failed: {0}")]
    System(io::Error),
}
