//! Where the code at an address comes from: a library function that makes atomic accesses, or
//! a position in a source file.

use super::Inner;
use super::linux;
use super::names;
use super::program::Program;
use super::sections::Slice;
use super::words::{self, Function};
use addr2line::{Context, Location};
use gimli::{AttributeValue, DwLang, UnitOffset, constants as dw};
use redhanded_model::{Doubt, Marking, Svma};

/// A position in the source, and the function whose names are in scope there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct SourcePosition {
    pub(super) function: Option<UnitOffset>,
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) column: Option<u32>,
    /// Whether the function is one of a standard library.
    pub(super) library: bool,
}

/// What the frames at an address say.
pub(super) enum Origin {
    Settled(Marking),
    /// A position in a Rust source, and none of the frames is atomic.
    Rust(SourcePosition),
    /// A position in a source of another language.
    At(SourcePosition),
}

impl Origin {
    const fn doubt(why: Doubt) -> Self {
        Self::Settled(Marking::Unknown { why })
    }
}

impl Inner {
    pub(super) fn origin(&self, program: &Program<'_>, svma: Svma) -> Origin {
        let found = program.about(svma, |context| {
            let mut frames = context.find_frames(svma.0).skip_all_loads().ok()?;
            let mut innermost = None;
            let mut language = None;
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = frame.function else {
                    // Line tables alone name no function into which nothing was inlined.
                    if innermost.is_none() {
                        let place = frame.location.as_ref();
                        let file = place.and_then(|place| place.file).unwrap_or_default();
                        if words::is_atomic_header(file) {
                            let header = file.rsplit('/').next().unwrap_or(file);
                            return Some(Origin::doubt(Doubt::UnknownName(header.to_owned())));
                        }
                        let library = words::function_in("", file) == Function::Library;
                        innermost = Some(position(None, frame.location, library));
                        language = unit_language(context, svma);
                    }
                    break;
                };
                let raw = function.raw_name().ok()?;
                let location = frame.location;
                let file = location.as_ref().and_then(|location| location.file);
                let mut judged = self.judge.function(&raw);
                if function.language == Some(dw::DW_LANG_Rust)
                    && judged == Function::Other
                    && let Some(file) = file
                {
                    judged = words::function_in(&raw, file);
                }
                // Line tables alone have names without scopes.
                if judged == Function::Other
                    && !raw.starts_with("_Z")
                    && file.is_some_and(words::is_atomic_header)
                    && !words::is_plain_method(&raw)
                {
                    judged = Function::Synchronising { volatile: false };
                }
                if let Function::Synchronising { volatile } = judged {
                    let word = names::demangle(&raw);
                    return Some(Origin::Settled(if volatile {
                        Marking::Volatile { word }
                    } else {
                        Marking::Atomic { word }
                    }));
                }
                if function.language == Some(dw::DW_LANG_Go) && words::is_atomic_in_go(&raw) {
                    return Some(Origin::Settled(Marking::Atomic {
                        word: raw.into_owned(),
                    }));
                }
                let first = innermost.is_none();
                if self.kernel
                    && let Some(word) = linux::synchronises(&raw, first)
                {
                    return Some(Origin::Settled(Marking::Atomic { word }));
                }
                if first {
                    language = function.language;
                    let library = judged == Function::Library;
                    innermost = Some(position(frame.dw_die_offset, location, library));
                }
                // In a kernel an enclosing function may be a lock's.
                if judged != Function::Library && !self.kernel {
                    break;
                }
            }
            let Some(place) = innermost? else {
                // Merged code has no position, and no frame that tells what it was.
                return Some(Origin::doubt(Doubt::NoLine));
            };
            Some(match language {
                // Without a column it was merged, too, from arms on one line: the frames are
                // those of their caller.
                Some(dw::DW_LANG_Rust) if place.column.is_none() => Origin::doubt(Doubt::NoLine),
                Some(dw::DW_LANG_Rust) => Origin::Rust(place),
                Some(dw::DW_LANG_Go) => Origin::doubt(Doubt::Go),
                _ => Origin::At(place),
            })
        });
        found.unwrap_or(Origin::doubt(Doubt::NoDebugInformation))
    }
}

fn position(
    function: Option<UnitOffset>,
    location: Option<Location<'_>>,
    library: bool,
) -> Option<SourcePosition> {
    let location = location?;
    Some(SourcePosition {
        function,
        file: location.file?.to_owned(),
        line: location.line.filter(|line| *line != 0)?,
        column: location.column.filter(|column| *column != 0),
        library,
    })
}

fn unit_language(context: &Context<Slice<'_>>, svma: Svma) -> Option<DwLang> {
    let unit = context.find_dwarf_and_unit(svma.0).skip_all_loads()?;
    let root = unit.entry(unit.header.root_offset()).ok()?;
    match root.attr_value(dw::DW_AT_language)? {
        AttributeValue::Language(language) => Some(language),
        _ => None,
    }
}
