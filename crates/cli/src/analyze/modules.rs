//! The modules of a recorded process, as the namer knows them.

use super::files::Files;
use redhanded_image::{Image, is_runtime};
use redhanded_model::{Avma, ModuleId, SpaceId};
use redhanded_recording::{Mapped, Process};
use redhanded_session::{ImageFile, Question};
use redhanded_target::Module;
use std::path::Path;

/// More modules are not told of.
const MOST: usize = 4096;

/// One module.
struct Known<'a> {
    mapped: &'a Mapped,
    module: Module,
    file: Option<ImageFile>,
    is_changed: bool,
    is_runtime: bool,
    is_linker: bool,
}

/// The modules of a process, the latest first.
pub struct Modules<'a> {
    known: Vec<Known<'a>>,
}

impl<'a> Modules<'a> {
    /// Those of a process that was recorded at this time, with their `files`. `next` counts the
    /// modules of all processes.
    pub fn of(process: &'a Process, files: &Files, recorded: u64, next: &mut u32) -> Self {
        let mut known: Vec<Known<'a>> = Vec::new();
        for mapped in process.modules().iter().rev().take(MOST) {
            let range = mapped.module.start..mapped.module.end;
            let overlaps = |other: &Known<'_>| {
                other.module.range.start < range.end && range.start < other.module.range.end
            };
            // Code that came later has the address.
            if range.is_empty() || known.iter().any(overlaps) {
                continue;
            }
            *next += 1;
            known.push(Known::new(mapped, files, ModuleId(*next), recorded));
        }
        Self { known }
    }

    /// What the namer is told.
    pub fn tell(&self) -> Vec<Question> {
        let told = self.known.iter().map(|known| Question::Module {
            module: known.module.clone(),
            file: known.file.clone(),
        });
        told.collect()
    }

    /// Files that are no longer those that were recorded.
    pub fn changed(&self) -> impl Iterator<Item = &'a str> {
        let changed = self.known.iter().filter(|known| known.is_changed);
        changed.map(|known| known.mapped.module.path.as_str())
    }

    /// The numbers of all.
    pub fn ids(&self) -> Vec<ModuleId> {
        self.known.iter().map(|known| known.module.id).collect()
    }

    fn known(&self, address: u64) -> Option<&Known<'a>> {
        let has = |known: &&Known<'a>| known.module.contains(Avma(address));
        self.known.iter().find(has)
    }

    /// The module at an address.
    pub fn at(&self, address: u64) -> Option<&Module> {
        Some(&self.known(address)?.module)
    }

    /// Whether an address belongs to the C library or another runtime.
    pub fn is_runtime(&self, address: u64) -> bool {
        self.known(address).is_some_and(|known| known.is_runtime)
    }

    /// Whether it belongs to the dynamic linker, which writes to others' tables.
    pub fn is_linker(&self, address: u64) -> bool {
        self.known(address).is_some_and(|known| known.is_linker)
    }
}

impl<'a> Known<'a> {
    fn new(mapped: &'a Mapped, files: &Files, id: ModuleId, recorded: u64) -> Self {
        let path = Path::new(&mapped.module.path);
        let name = path.file_name().map_or_else(
            || mapped.module.path.clone(),
            |name| name.to_string_lossy().into_owned(),
        );
        let opened = files.open(&mapped.module.path);
        let is_newer = |changed: i64| u64::try_from(changed).is_ok_and(|at| at > recorded);
        let is_changed = opened
            .as_ref()
            .is_some_and(|(_, changed)| recorded > 0 && is_newer(*changed));
        let image = opened.map(|(image, _)| image).filter(|_| !is_changed);
        let bias = image.as_ref().map_or(mapped.module.start, |image| {
            bias(image, mapped).unwrap_or(mapped.module.start)
        });
        Self {
            mapped,
            module: Module {
                id,
                space: SpaceId::default(),
                name: name.clone(),
                bias,
                range: mapped.module.start..mapped.module.end,
                image: None,
            },
            file: image.as_ref().map(ImageFile::of),
            is_changed,
            is_runtime: is_runtime(path) || mapped.module.path.starts_with('['),
            is_linker: name.starts_with("ld-") || name.starts_with("ld.so"),
        }
    }
}

/// What is added to the file's addresses: by the part that is code, or else the first.
fn bias(image: &Image, mapped: &Mapped) -> Option<u64> {
    let parts = &mapped.module.parts;
    let code = parts.iter().find(|part| part.executable);
    let (start, offset) = code
        .or(parts.first())
        .map_or((mapped.module.start, mapped.module.offset), |part| {
            (part.start, part.offset)
        });
    let page = |at: u64| at & !0xfff;
    let segment = image
        .segments()
        .iter()
        .find(|segment| page(segment.file_offset) == page(offset))?;
    Some(page(start).wrapping_sub(page(segment.svma.0)))
}
