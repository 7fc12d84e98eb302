//! Runtime libraries, which are not sampled unless asked for.

use std::path::Path;

/// Libraries that implement languages and threads. They synchronise internally in their own
/// ways, and a race in a program is seen in its own code.
const RUNTIME: [&str; 31] = [
    "libc",
    "libm",
    "libmvec",
    "libpthread",
    "libdl",
    "librt",
    "libresolv",
    "libanl",
    "libutil",
    "libthread_db",
    "libgcc_s",
    "libatomic",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libgomp",
    "libomp",
    "libiomp5",
    "libtsan",
    "libasan",
    "liblsan",
    "libubsan",
    "libhwasan",
    "libquadmath",
    "libgfortran",
    "ld-linux-x86-64",
    "ld-musl-x86_64",
    "ld",
    "linux-vdso",
    "vdso",
    "[vdso]",
];

/// Whether the module at `path` is part of the runtime: the C library and its
/// loader, threads, language and sanitizer runtimes, the vDSO.
#[must_use]
pub fn is_runtime(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else {
        return false;
    };
    // libc.so.6, libc-2.31.so, libc.musl-x86_64.so.1
    let stem = match name.split_once(".so") {
        Some((stem, _)) => stem,
        None if name.contains("vdso") => &name,
        None => return false,
    };
    let stem = stem.split_once(".musl-").map_or(stem, |(stem, _)| stem);
    let unversioned = match stem.rsplit_once('-') {
        Some((base, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => base,
        _ => stem,
    };
    RUNTIME.contains(&stem)
        || RUNTIME.contains(&unversioned)
        || stem.starts_with("libnss_")
        || stem.starts_with("libclang_rt.")
        || stem.starts_with("linux-vdso")
}

#[cfg(test)]
mod tests {
    use super::is_runtime;
    use std::path::Path;

    #[test]
    fn runtime_modules_by_name() {
        for name in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/libc-2.31.so",
            "/lib64/ld-linux-x86-64.so.2",
            "/lib/ld-2.31.so",
            "/lib/ld-musl-x86_64.so.1",
            "/lib/libpthread.so.0",
            "/usr/lib/libstdc++.so.6.0.30",
            "/lib/libnss_files.so.2",
            "/usr/lib/libgomp.so.1.0.0",
            "/usr/lib/libtsan.so.2",
            "[vdso]",
            "linux-vdso.so.1",
        ] {
            assert!(is_runtime(Path::new(name)), "{name}");
        }
        for name in [
            "/usr/lib/libcrypto.so.3",
            "/usr/lib/libcurl.so.4",
            "/opt/libmine.so",
            "/usr/bin/ld",
            "/usr/bin/libc",
            "./a.out",
            "/",
        ] {
            assert!(!is_runtime(Path::new(name)), "{name}");
        }
    }
}
