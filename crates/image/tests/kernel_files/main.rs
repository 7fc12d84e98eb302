//! What is in a kernel's files: on tables and images made here, and on real
//! kernels where `REDHANDED_KERNELS` names a folder that has some.

mod bare_elf;
mod btf;
mod btf_encoder;
#[path = "../installed/mod.rs"]
mod installed;
mod kallsyms;
mod kallsyms_encoder;
mod real;
mod vmlinuz;
