//! Opens ELF files and reads their headers, segments and sections.

use crate::code::Code;
use crate::debug::DebugInfo;
use crate::file_bytes::FileBytes;
use crate::identity::FileIdentity;
use crate::kernel_file::{Btf, CarriedTypes};
use crate::live::LiveText;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};
use redhanded_model::{Svma, memory_function};
use redhanded_sys::open_regular;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Not an ELF file.
    #[error("{path} is {what}, not an ELF program or library")]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// An ELF file for another machine.
    #[error("{path} is for {machine}; Redhanded samples x86-64 code only")]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// The machine it is for.
        machine: String,
    },
    /// An ELF file with inconsistent headers.
    #[error("{path} is damaged or cut short: {why}; copy or build it again")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Linkers make about a dozen. More would slow down every look-up.
const MAX_SEGMENTS: usize = 4096;

/// A loadable segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its address in memory without the load bias.
    pub svma: Svma,
    /// Its size in memory.
    pub mem_size: u64,
    /// Its offset in the file.
    pub file_offset: u64,
    /// Its size in the file.
    pub file_size: u64,
    /// Whether it is writable.
    pub writable: bool,
    /// Whether it is executable.
    pub executable: bool,
}

impl Segment {
    /// Whether `svma` lies in it.
    #[must_use]
    pub const fn contains(&self, svma: Svma) -> bool {
        svma.0 >= self.svma.0 && svma.0 - self.svma.0 < self.mem_size
    }
}

/// One ELF file, mapped. Cheap to open: only its headers are read.
pub struct Image {
    path: PathBuf,
    identity: Option<FileIdentity>,
    data: Arc<FileBytes>,
    segments: Vec<Segment>,
    live: Arc<LiveText>,
    relro: Vec<(u64, u64)>,
    build_id: Option<Vec<u8>>,
    entry: Svma,
    interpreter: Option<PathBuf>,
    position_independent: bool,
    pub(crate) debug: OnceLock<DebugInfo>,
    pub(crate) code: Code,
    pub(crate) types: Arc<CarriedTypes>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("path", &self.path).finish()
    }
}

impl Image {
    /// Opens the ELF file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, is not an x86-64 ELF file, or is damaged.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let read_error = |source| ImageError::Read {
            path: path.to_owned(),
            source,
        };
        let file = open_regular(path).map_err(read_error)?;
        let identity = FileIdentity::of_open(path, &file).map_err(read_error)?;
        let data = FileBytes::of(&file).map_err(read_error)?;
        Ok(Self {
            identity: Some(identity),
            ..Self::parse(path, data)?
        })
    }

    fn parse(path: &Path, data: FileBytes) -> Result<Self, ImageError> {
        let data = Arc::new(data);
        let malformed = |why: &dyn std::fmt::Display| ImageError::Malformed {
            path: path.to_owned(),
            why: why.to_string(),
        };
        if data.get(..4) != Some(&elf::ELFMAG[..]) {
            let what = match data.get(..2) {
                None => "empty",
                Some(b"#!") => "a script",
                _ => "some other kind of file",
            };
            return Err(ImageError::NotElf {
                path: path.to_owned(),
                what: what.to_owned(),
            });
        }
        check_machine(path, &data)?;
        let header = elf::FileHeader64::<Endianness>::parse(&**data).map_err(|e| malformed(&e))?;
        let endian = header.endian().map_err(|e| malformed(&e))?;
        let headers = header
            .program_headers(endian, &**data)
            .map_err(|e| malformed(&e))?;
        if headers.len() > MAX_SEGMENTS {
            return Err(malformed(&"it claims to have thousands of segments"));
        }
        let mut segments = Vec::new();
        let mut relro = Vec::new();
        let mut interpreter = None;
        for program in headers {
            match program.p_type(endian) {
                elf::PT_LOAD => {
                    let flags = program.p_flags(endian);
                    segments.push(Segment {
                        svma: Svma(program.p_vaddr(endian)),
                        mem_size: program.p_memsz(endian),
                        file_offset: program.p_offset(endian),
                        file_size: program.p_filesz(endian),
                        writable: flags & elf::PF_W != 0,
                        executable: flags & elf::PF_X != 0,
                    });
                }
                elf::PT_GNU_RELRO => {
                    let start = program.p_vaddr(endian);
                    relro.push((start, start.saturating_add(program.p_memsz(endian))));
                }
                elf::PT_INTERP => {
                    let bytes = program
                        .data(endian, &**data)
                        .map_err(|()| malformed(&"its interpreter's name lies outside the file"))?;
                    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                    interpreter = Some(PathBuf::from(String::from_utf8_lossy(name).into_owned()));
                }
                _ => {}
            }
        }
        for segment in &segments {
            let end = segment.file_offset.checked_add(segment.file_size);
            if end.is_none_or(|end| end > data.len() as u64) {
                return Err(malformed(&"a segment lies outside the file"));
            }
        }
        drop_per_cpu_template(&mut segments);
        let object = object::File::parse(&**data).map_err(|e| malformed(&e))?;
        let build_id = object.build_id().ok().flatten().map(<[u8]>::to_vec);
        Ok(Self {
            path: path.to_owned(),
            identity: None,
            entry: Svma(header.e_entry(endian)),
            position_independent: header.e_type(endian) == elf::ET_DYN,
            types: Arc::new(CarriedTypes::of(Arc::clone(&data))),
            data: Arc::clone(&data),
            segments,
            live: Arc::default(),
            relro,
            build_id,
            interpreter,
            debug: OnceLock::new(),
            code: Code::default(),
        })
    }

    /// The file it was opened from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state of the file when it was opened; `None` if the code comes from elsewhere.
    pub(crate) const fn identity(&self) -> Option<&FileIdentity> {
        self.identity.as_ref()
    }

    /// The file's name without its folder.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(
            || self.path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    /// The loadable segments in file order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segment that contains `svma`.
    #[must_use]
    pub fn segment_at(&self, svma: Svma) -> Option<&Segment> {
        self.segments.iter().find(|s| s.contains(svma))
    }

    /// Whether `svma` becomes read-only after relocation (RELRO).
    #[must_use]
    pub fn is_relro(&self, svma: Svma) -> bool {
        self.relro
            .iter()
            .any(|(start, end)| (*start..*end).contains(&svma.0))
    }

    /// The build id, with which the linker identifies this build.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The entry point.
    #[must_use]
    pub const fn entry(&self) -> Svma {
        self.entry
    }

    /// The dynamic linker that it requests; `None` for static programs.
    #[must_use]
    pub fn interpreter(&self) -> Option<&Path> {
        self.interpreter.as_deref()
    }

    /// Whether it can be loaded at any address.
    #[must_use]
    pub const fn position_independent(&self) -> bool {
        self.position_independent
    }

    /// The whole file.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The mapping, for values that outlive a borrow of the image.
    pub(crate) fn mapping(&self) -> Arc<FileBytes> {
        Arc::clone(&self.data)
    }

    /// The file as `object` sees it. Parsing reads only headers, so it is repeated on each
    /// call; keeping the result would need a self-referential struct.
    pub(crate) fn object(&self) -> Option<object::File<'_>> {
        object::File::parse(&**self.data).ok()
    }

    /// The contents of a section, decompressed if necessary.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let object = self.object()?;
        self.data.section(&object.section_by_name(name)?)
    }

    /// The address of a section.
    #[must_use]
    pub fn section_address(&self, name: &str) -> Option<Svma> {
        Some(Svma(self.object()?.section_by_name(name)?.address()))
    }

    /// The address of the dynamic symbol with this name, if the file defines it.
    #[must_use]
    pub fn dynamic_symbol(&self, name: &str) -> Option<Svma> {
        let object = self.object()?;
        let symbol = object
            .dynamic_symbols()
            .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        Some(Svma(symbol.address()))
    }

    /// Whether the file imports a symbol with this name.
    #[must_use]
    pub fn imports(&self, name: &str) -> bool {
        self.object().is_some_and(|object| {
            object
                .dynamic_symbols()
                .any(|symbol| symbol.is_undefined() && symbol.name() == Ok(name))
        })
    }

    /// Whether the file calls functions of the C library that access memory for their caller:
    /// it imports one, or has one linked into it.
    #[must_use]
    pub fn has_memory_functions(&self) -> bool {
        self.object().is_some_and(|object| {
            let symbols = object.dynamic_symbols().chain(object.symbols());
            let mut names = symbols.filter_map(|symbol| symbol.name().ok());
            names.any(|name| memory_function(name).is_some())
        })
    }

    /// The types (BTF) in a kernel, or in a module whose kernel is known.
    #[must_use]
    pub fn types(&self) -> Option<Arc<Btf>> {
        self.types.get()
    }

    /// Sets the kernel that this module is for: the module's types continue the kernel's.
    pub fn is_module_of(&self, kernel: &Self) {
        self.types.go_on_from(&kernel.types);
    }

    /// The same image with code from memory in place of the file's, because a kernel patches
    /// its own code when it starts. It affects everything that looks at code. Bytes outside
    /// the segments, or in parts of them that are not in the file, are ignored.
    #[must_use]
    pub fn with_live_text(mut self, live: &[(Svma, Vec<u8>)]) -> Self {
        self.live = Arc::new(LiveText::over(&self.data, &self.segments, live));
        self.identity = None;
        // What was found in the file's code may no longer be true.
        self.code = Code::default();
        if let Some(debug) = self.debug.take() {
            self.debug = OnceLock::from(DebugInfo::new(&self, debug.search().clone()));
        }
        self
    }

    /// Where the live text differs from the file's: what
    /// [`with_live_text`](Self::with_live_text) needs to make the same image from
    /// the same file again.
    #[must_use]
    pub fn live_differences(&self) -> Vec<(Svma, Vec<u8>)> {
        self.live.differences(&self.data, &self.segments)
    }

    /// The code that replaces the file's, for values that outlive a borrow of the image.
    pub(crate) fn live_text(&self) -> Arc<LiveText> {
        Arc::clone(&self.live)
    }

    /// Up to `len` bytes at `svma`, from the live text or else from the file.
    #[must_use]
    pub fn bytes_at(&self, svma: Svma, len: usize) -> Option<&[u8]> {
        let segment = self.segment_at(svma)?;
        self.live.bytes_at(&self.data, segment, svma, len)
    }
}

/// Drops the segment of per-CPU variables, which Linux links at address 0. They are never
/// there (each processor has its own copy), and the segment would make the kernel's range
/// span all of memory.
fn drop_per_cpu_template(segments: &mut Vec<Segment>) {
    const UPPER_HALF: u64 = 1 << 63;
    if segments.iter().any(|s| s.svma.0 >= UPPER_HALF) {
        segments.retain(|s| s.svma.0 >= UPPER_HALF);
    }
}

fn check_machine(path: &Path, data: &[u8]) -> Result<(), ImageError> {
    let word = |at: usize| {
        data.get(at..at + 2)
            .map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
    };
    let machine = match (data.get(4), word(18)) {
        (Some(&elf::ELFCLASS64), elf::EM_X86_64) => return Ok(()),
        (Some(&elf::ELFCLASS32), elf::EM_X86_64) => "x86-64 with 32-bit pointers (x32)".to_owned(),
        (_, elf::EM_386) => "32-bit x86".to_owned(),
        (_, elf::EM_AARCH64) => "64-bit ARM".to_owned(),
        (_, elf::EM_ARM) => "32-bit ARM".to_owned(),
        (_, elf::EM_RISCV) => "RISC-V".to_owned(),
        (_, machine) => format!("another machine (ELF machine {machine})"),
    };
    Err(ImageError::WrongMachine {
        path: path.to_owned(),
        machine,
    })
}
