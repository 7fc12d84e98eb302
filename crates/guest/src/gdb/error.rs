//! What can go wrong with a stub.

use std::io;
use thiserror::Error;

/// Why a machine cannot be driven through its stub.
#[derive(Debug, Error)]
pub enum GdbError {
    /// Nothing accepts connections there.
    #[error(
        "cannot connect to a gdbstub at {address}: {source}; QEMU has one there when it is started with `-gdb {option}`"
    )]
    Refused {
        /// The address.
        address: String,
        /// What to start QEMU with.
        option: String,
        /// The system's error.
        source: io::Error,
    },
    /// The connection ended.
    #[error("the virtual machine has gone away: it closed the connection to its gdbstub")]
    GoneAway,
    /// There is a connection, but no answer.
    #[error(
        "the gdbstub does not answer: another debugger may be connected to it, or the virtual machine's process hangs or is stopped"
    )]
    Silent,
    /// There are answers, but they make no sense.
    #[error(
        "what answers is no usable gdbstub: {0}; give the address of QEMU's `-gdb` option, not of its monitor or console"
    )]
    Nonsense(String),
    /// The machine is of another architecture.
    #[error("the virtual machine is not an x86-64 but {0}; only those are supported")]
    NotX86_64(String),
    /// Something was asked while the machine was running.
    #[error("the virtual machine runs and cannot be asked anything: stop it before")]
    Running,
    /// The system refused something.
    #[error("the connection to the gdbstub failed: {0}")]
    System(io::Error),
}
