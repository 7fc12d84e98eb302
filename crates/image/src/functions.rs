//! The functions of an image: where each begins and ends, and its best name.

mod symbols;

use crate::frames::Frames;
use crate::layout::Layout;
use crate::{Image, Instruction};
use redhanded_model::Svma;
use std::collections::BTreeMap;
use std::sync::Arc;
use symbols::{Symbol, code_symbols};

/// A contiguous piece of code. A function that encloses another symbol consists of several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its first instruction.
    pub start: Svma,
    /// One past its last byte.
    pub end: Svma,
    /// Its mangled name from the symbol table; `None` if it is known only from the unwind
    /// table.
    pub name: Option<Arc<str>>,
}

impl Function {
    /// Whether `svma` lies in it.
    #[must_use]
    pub const fn contains(&self, svma: Svma) -> bool {
        self.start.0 <= svma.0 && svma.0 < self.end.0
    }
}

/// All functions, sorted by address, without overlaps.
#[derive(Debug, Default)]
pub struct Functions {
    list: Vec<Function>,
}

impl Functions {
    fn of(image: &Image) -> Self {
        let (layout, frames) = (image.layout(), image.frames());
        let symbols = code_symbols(image, layout);
        let mut list = pieces(&symbols, frames, layout);
        let covered = list.len();
        add_unnamed(&mut list, covered, &symbols, frames, layout);
        list.sort_by_key(|function| function.start);
        Self { list }
    }

    /// All functions, sorted by address.
    #[must_use]
    pub fn as_slice(&self) -> &[Function] {
        &self.list
    }

    /// The function with the number that a [`Site`](redhanded_model::Site) carries.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&Function> {
        self.list.get(usize::try_from(index).ok()?)
    }

    /// The number of the function that contains `svma`.
    #[must_use]
    pub fn index_at(&self, svma: Svma) -> Option<usize> {
        let after = self.list.partition_point(|f| f.start <= svma);
        let index = after.checked_sub(1)?;
        self.list.get(index)?.contains(svma).then_some(index)
    }

    /// The function that contains `svma`.
    #[must_use]
    pub fn at(&self, svma: Svma) -> Option<&Function> {
        self.list.get(self.index_at(svma)?)
    }
}

impl Image {
    /// The functions, read on first use.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        self.code.functions.get_or_init(|| Functions::of(self))
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.code.layout.get_or_init(|| Layout::of(self))
    }

    pub(crate) fn frames(&self) -> &Frames {
        self.code.frames.get_or_init(|| Frames::of(self))
    }

    /// The function that contains `svma`.
    #[must_use]
    pub fn function_at(&self, svma: Svma) -> Option<&Function> {
        self.functions().at(svma)
    }

    /// The bytes of a function, from the file.
    pub(crate) fn function_bytes(&self, function: &Function) -> &[u8] {
        let len = usize::try_from(function.end.0 - function.start.0).unwrap_or(0);
        self.bytes_at(function.start, len).unwrap_or_default()
    }

    /// The instructions of a function, up to the first that does not decode.
    pub(crate) fn instructions(
        &self,
        function: &Function,
    ) -> impl Iterator<Item = iced_x86::Instruction> {
        let bytes = self.function_bytes(function);
        let mut decoder =
            iced_x86::Decoder::with_ip(64, bytes, function.start.0, iced_x86::DecoderOptions::NONE);
        std::iter::from_fn(move || {
            let raw = decoder.decode();
            (!raw.is_invalid()).then_some(raw)
        })
    }

    /// The instruction that ends exactly at `after`. It is found by decoding forward from
    /// the start of its function, because decoding backward is ambiguous.
    #[must_use]
    pub fn instruction_before(&self, after: Svma) -> Option<Svma> {
        let function = self.function_at(Svma(after.0.checked_sub(1)?))?;
        self.instructions(function)
            .take_while(|raw| raw.ip() < after.0)
            .find(|raw| raw.next_ip() == after.0)
            .map(|raw| Svma(raw.ip()))
    }

    /// The instruction at `svma` as it is in the file.
    #[must_use]
    pub fn instruction_at(&self, svma: Svma) -> Option<Instruction> {
        Instruction::decode(self.bytes_at(svma, 15)?, svma.0)
    }
}

/// Cuts the symbols' ranges into pieces that do not overlap: bytes belong to the innermost
/// symbol, and the enclosing one continues after it.
fn pieces(symbols: &BTreeMap<u64, Symbol>, frames: &Frames, layout: &Layout) -> Vec<Function> {
    let mut list = Vec::new();
    let mut open: Vec<(u64, &Symbol)> = Vec::new();
    let mut at = 0;
    let emit = |list: &mut Vec<Function>, start: u64, end: u64, symbol: &Symbol| {
        if start < end {
            list.push(Function {
                start: Svma(start),
                end: Svma(end),
                name: Some(Arc::clone(&symbol.name)),
            });
        }
    };
    let mut starts = symbols
        .iter()
        .filter(|(_, symbol)| symbol.function)
        .peekable();
    while let Some((&start, symbol)) = starts.next() {
        while let Some(&(end, enclosing)) = open.last() {
            emit(&mut list, at, end.min(start), enclosing);
            at = at.max(end.min(start));
            if end > start {
                break;
            }
            open.pop();
        }
        at = at.max(start);
        let Some(region) = layout.region_at(start) else {
            continue;
        };
        let next = starts.peek().map_or(u64::MAX, |(next, _)| **next);
        let end = if symbol.size > 0 {
            start.saturating_add(symbol.size)
        } else {
            // A label without a size extends to the end of its unwind entry, or else to
            // the next symbol.
            let fde = frames.at(start).map_or(u64::MAX, |fde| fde.end);
            next.min(fde)
        };
        // An inner range that ends after the outer one would reopen the outer one
        // forever, so it is cut at the outer one's end.
        let outer = open.last().map_or(u64::MAX, |(end, _)| *end);
        let end = end.min(region.range.end).min(outer);
        open.push((end, symbol));
    }
    while let Some((end, enclosing)) = open.pop() {
        emit(&mut list, at, end, enclosing);
        at = at.max(end);
    }
    list
}

/// Adds the parts of unwind entries that no symbol covers.
fn add_unnamed(
    list: &mut Vec<Function>,
    covered: usize,
    symbols: &BTreeMap<u64, Symbol>,
    frames: &Frames,
    layout: &Layout,
) {
    // Both lists are sorted. `reached` also trims overlapping entries.
    let mut reached = 0;
    let mut next = 0;
    for fde in &frames.fdes {
        let Some(region) = layout.region_at(fde.start).filter(|r| r.stub.is_none()) else {
            continue;
        };
        let mut at = fde.start.max(reached);
        let end = fde.end.min(region.range.end);
        while at < end {
            while next < covered && list.get(next).is_some_and(|f| f.end.0 <= at) {
                next += 1;
            }
            let named = (next < covered).then(|| list.get(next)).flatten();
            let (gap_end, resume) = match named {
                Some(f) if f.start.0 < end => (f.start.0.max(at), f.end.0),
                _ => (end, end),
            };
            if at < gap_end {
                list.push(Function {
                    start: Svma(at),
                    end: Svma(gap_end),
                    name: symbols.get(&at).map(|symbol| Arc::clone(&symbol.name)),
                });
            }
            at = resume.max(gap_end);
        }
        reached = reached.max(at);
    }
}
