//! Addresses that cannot be mixed up.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl From<u64> for $name {
            fn from(address: u64) -> Self {
                Self(address)
            }
        }

        impl From<$name> for u64 {
            fn from(address: $name) -> Self {
                address.0
            }
        }

        impl $name {
            /// This address moved up by `bytes`, wrapping as the machine does.
            #[must_use]
            pub const fn offset(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }
    };
}

address! {
    /// A *stated* virtual memory address: as written in the file.
    Svma
}
address! {
    /// An *actual* virtual memory address: as it is in the running target. It
    /// means something only together with a [`SpaceId`].
    Avma
}

/// An address space: a process, or a page-table root.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct SpaceId(pub u64);

/// A module: one file mapped into one space, numbered in order of loading.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct ModuleId(pub u32);

/// Something that executes: a thread of a process, or a virtual CPU.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct TaskId(pub u32);
