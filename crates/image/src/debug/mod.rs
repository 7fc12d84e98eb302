//! Debug information about the code and data of a file: names, lines, inlined frames,
//! variables and their parts.
//!
//! It is located on first use, in the file itself or in a separate one, and parsed on
//! demand: lines and functions unit by unit, all variables when the first is looked up.
//! Without it, the symbol tables provide what they can.

mod conditions;
mod coverage;
mod definitions;
mod evidence;
mod expression;
mod files;
mod folded;
mod linux;
mod locate;
mod named_object;
mod names;
mod openmp;
mod origin;
mod outside;
mod parts;
mod pointers;
mod program;
mod reading;
mod scope;
mod sections;
mod source_text;
mod sources;
mod symbols;
mod text;
mod types;
mod variables;
mod words;

pub use locate::DebugSearch;
pub use parts::{Part, Step};
pub use pointers::{Named, Pointed, Source};
pub use reading::{Reading, Shown};
pub use source_text::{CarriedSource, SourceText};
pub use types::How;
pub(crate) use types::{as_written, qualify};
pub use variables::Variable;

use crate::ahead::PlacedCondition;
use crate::file_bytes::FileBytes;
use crate::kernel_file::CarriedTypes;
use crate::live::LiveText;
use crate::{Image, Segment};
use addr2line::{Context, FrameIter};
use locate::Located;
use object::Object;
use program::Program;
use redhanded_model::{SourceEvidence, Svma};
use redhanded_sys::may_read_debug_information;
use sections::{Loaded, Slice};
use sources::Judge;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use symbols::Symbols;

/// More inlined frames at one address mean damage.
const MAX_INLINED: usize = 256;

/// The debug information of an image. It can be used from several threads.
#[derive(Clone)]
pub struct DebugInfo {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    file: Arc<FileBytes>,
    segments: Vec<Segment>,
    live: Arc<LiveText>,
    /// Whether it is Linux or one of its modules, where the names of functions tell which of
    /// them synchronise.
    kernel: bool,
    search: DebugSearch,
    located: OnceLock<Option<Located>>,
    loaded: OnceLock<Option<Loaded>>,
    symbols: OnceLock<Symbols>,
    /// The types (BTF) in a kernel.
    types: Arc<CarriedTypes>,
    judge: Judge,
    flows: pointers::Flows,
}

/// A source frame at an address; it may be inlined.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFrame {
    /// The function's demangled name.
    pub function: Option<String>,
    /// Its name in the symbol table, if different.
    pub linkage_name: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line; `None` if the compiler gives none.
    pub line: Option<u32>,
    /// The column, if known.
    pub column: Option<u32>,
    /// Whether this function was inlined into the next frame's function.
    pub inlined: bool,
}

impl std::fmt::Debug for DebugInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugInfo")
            .field("source", &self.source())
            .finish()
    }
}

impl Image {
    /// Its debug information, located on first use.
    #[must_use]
    pub fn debug(&self) -> &DebugInfo {
        self.debug
            .get_or_init(|| DebugInfo::new(self, DebugSearch::default()))
    }

    /// The same image, with debug information and sources searched for in `search`.
    #[must_use]
    pub fn with_debug_search(mut self, search: DebugSearch) -> Self {
        self.debug = OnceLock::from(DebugInfo::new(&self, search));
        self
    }
}

impl DebugInfo {
    /// The debug information of `image`, searched for in `search`, too.
    #[must_use]
    pub fn new(image: &Image, search: DebugSearch) -> Self {
        Self {
            inner: Arc::new(Inner {
                path: image.path().to_owned(),
                file: image.mapping(),
                segments: image.segments().to_vec(),
                live: image.live_text(),
                kernel: image.is_kernel(),
                located: OnceLock::new(),
                loaded: OnceLock::new(),
                symbols: OnceLock::new(),
                types: Arc::clone(&image.types),
                judge: Judge::new(search.clone()),
                flows: pointers::Flows::default(),
                search,
            }),
        }
    }

    pub(crate) fn search(&self) -> &DebugSearch {
        &self.inner.search
    }

    /// Whether there is more than symbols.
    #[must_use]
    pub fn available(&self) -> bool {
        self.inner.located().is_some()
    }

    /// The file that it comes from: the image's own or a separate one.
    #[must_use]
    pub fn source(&self) -> Option<&Path> {
        self.inner.located().map(|located| located.path.as_path())
    }

    /// Whether a compilation unit has a line for the code at `svma`.
    #[must_use]
    pub fn covers(&self, svma: Svma) -> bool {
        self.inner
            .ask(|program| {
                program.about(svma, |context| {
                    context.find_location(svma.0).ok().flatten().map(|_| ())
                })
            })
            .is_some()
    }

    /// Whether the code at `svma` came compiled with the toolchain: units of Rust's standard
    /// library name folders of the machine that built it.
    #[must_use]
    pub fn is_toolchain(&self, svma: Svma) -> bool {
        self.inner
            .ask(|program| {
                program.about(svma, |context| {
                    let unit = context.find_dwarf_and_unit(svma.0).skip_all_loads()?;
                    let folder = unit.comp_dir?.to_string_lossy().into_owned();
                    Some(folder.starts_with("/rustc/") || folder.starts_with("/rust/deps/"))
                })
            })
            .unwrap_or(false)
    }

    /// The source frames of the code at `svma`, innermost first. Without debug information
    /// there is only the function symbol, or nothing.
    #[must_use]
    pub fn frames(&self, svma: Svma) -> Vec<SourceFrame> {
        let mut frames = self
            .inner
            .ask(|program| program.about(svma, |context| source_frames(context, svma)))
            .unwrap_or_default();
        if frames.is_empty() {
            frames.extend(
                self.inner
                    .symbols()
                    .code_at(svma.0)
                    .map(|_| SourceFrame::default()),
            );
        }
        if let Some(outermost) = frames.last_mut()
            && outermost.function.is_none()
            && let Some(symbol) = self.inner.symbols().code_at(svma.0)
        {
            name(outermost, &symbol.name);
        }
        frames
    }

    /// The global or static variable that contains the byte at `svma`, or the data symbol if
    /// there is no debug information about it. Thread-locals have no address in a file and
    /// are never found.
    #[must_use]
    pub fn variable_at(&self, svma: Svma) -> Option<Variable> {
        self.inner.variable_at(svma)
    }

    /// What the address of the access at `svma` points into: the variable or expression that
    /// its base register holds there.
    #[must_use]
    pub fn pointed_at(&self, svma: Svma) -> Option<Pointed> {
        pointers::pointed_at(&self.inner, svma)
    }

    /// The element of a global array that the access at `svma` means, although the `size` bytes
    /// at `data` are those of another variable: its index leads out of the array.
    #[must_use]
    pub fn outside(&self, svma: Svma, data: Svma, size: u64) -> Option<Named> {
        self.inner.outside(svma, data, size)
    }

    /// What the source says about the access of the instruction at `svma`, or about the
    /// first if it makes several.
    #[must_use]
    pub fn source_evidence(&self, svma: Svma) -> SourceEvidence {
        self.inner.source_evidence(svma, None)
    }

    /// The same about an access to the bytes at `data`. Variables that lie elsewhere are not
    /// what the source accesses there.
    #[must_use]
    pub fn source_evidence_at(&self, svma: Svma, data: Svma) -> SourceEvidence {
        self.inner.source_evidence(svma, Some(data))
    }

    /// Whether the access of the instruction at `svma` is to the whole of a variable that is no
    /// part of anything larger.
    #[must_use]
    pub fn accesses_whole_variable(&self, svma: Svma) -> bool {
        self.inner.accesses_whole_variable(svma)
    }

    /// The conditions under which the source makes the access at `svma`, innermost first: in the
    /// function that contains it, and in those that it was inlined into.
    pub(crate) fn conditions(&self, svma: Svma, source: &SourceEvidence) -> Vec<PlacedCondition> {
        self.inner.conditions(svma, source, &self.frames(svma))
    }

    /// Whether the source at the expression names the very object that the instruction at `svma`
    /// accesses, and no macro around it may hide a condition.
    pub(crate) fn names_object(&self, svma: Svma, source: &SourceEvidence) -> bool {
        self.inner.names_object(svma, source)
    }

    /// The contents of a section of the separate debug file.
    pub(crate) fn section(&self, name: &str) -> Option<Vec<u8>> {
        let located = self.inner.located()?;
        let object = object::File::parse(&**located.file).ok()?;
        let data = located.file.section(&object.section_by_name(name)?)?;
        Some(data.into_owned())
    }

    /// The separate debug file, if that is where it comes from.
    pub(crate) fn separate_file(&self) -> Option<&FileBytes> {
        let located = self.inner.located()?;
        (!Arc::ptr_eq(&located.file, &self.inner.file)).then_some(&located.file)
    }
}

impl Inner {
    fn located(&self) -> Option<&Located> {
        self.located
            .get_or_init(|| locate::locate(&self.path, &self.file, &self.search))
            .as_ref()
    }

    fn ask<T>(&self, question: impl FnOnce(&Program<'_>) -> Option<T>) -> Option<T> {
        if !may_read_debug_information() {
            return None;
        }
        self.loaded
            .get_or_init(|| {
                let located = self.located()?;
                let supplementary = locate::supplementary(located, &self.search);
                Loaded::load(located, supplementary.as_ref())
            })
            .as_ref()?
            .ask(question)
    }

    /// The code from `svma` on, up to the length of one instruction.
    fn code_at(&self, svma: Svma) -> Option<&[u8]> {
        self.bytes_at(svma, 15)
    }

    /// Up to `len` bytes from `svma` on.
    fn bytes_at(&self, svma: Svma, len: usize) -> Option<&[u8]> {
        let segment = self.segments.iter().find(|s| s.contains(svma))?;
        self.live.bytes_at(&self.file, segment, svma, len)
    }

    /// When the image was last written.
    fn built(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.path).ok()?.modified().ok()
    }

    fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| {
            let mut files = vec![&*self.file];
            files.extend(self.located().map(|located| &*located.file));
            Symbols::read(&files)
        })
    }
}

fn source_frames(context: &Context<Slice<'_>>, svma: Svma) -> Option<Vec<SourceFrame>> {
    let mut found = context.find_frames(svma.0).skip_all_loads().ok()?;
    let mut frames = Vec::new();
    while frames.len() < MAX_INLINED
        && let Some(frame) = next(&mut found)
    {
        frames.push(frame);
    }
    let inlined = frames.len().saturating_sub(1);
    for frame in frames.iter_mut().take(inlined) {
        frame.inlined = true;
    }
    Some(frames)
}

fn next(frames: &mut FrameIter<'_, Slice<'_>>) -> Option<SourceFrame> {
    let frame = frames.next().ok()??;
    let mut told = SourceFrame::default();
    if let Some(location) = frame.location {
        told.file = location.file.map(str::to_owned);
        told.line = location.line.filter(|line| *line != 0);
        told.column = location.column.filter(|column| *column != 0);
    }
    if let Some(function) = frame.function
        && let Ok(raw) = function.raw_name()
    {
        name(&mut told, &raw);
    }
    Some(told)
}

fn name(frame: &mut SourceFrame, raw: &str) {
    let demangled = names::demangle(raw);
    frame.linkage_name = (demangled != raw).then(|| raw.to_owned());
    frame.function = Some(demangled);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_threads_may_ask() {
        fn check<T: Send + Sync>() {}
        check::<DebugInfo>();
        check::<Variable>();
        check::<crate::Unwinder>();
    }
}
