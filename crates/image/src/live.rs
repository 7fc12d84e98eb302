//! Code as it is in memory, which replaces the code in the file.

use crate::Segment;
use redhanded_model::Svma;

/// The size of the pieces in which differences from the file are given.
const CHUNK: usize = 16;

/// Complete copies of the segments whose code differs from the file's: a function has to be
/// contiguous even if only part of it was read from memory.
#[derive(Debug, Default)]
pub(crate) struct LiveText {
    /// By the start of the segment.
    segments: Vec<(Svma, Vec<u8>)>,
}

impl LiveText {
    /// Lays `live` over what `file` has for `segments`.
    pub fn over(file: &[u8], segments: &[Segment], live: &[(Svma, Vec<u8>)]) -> Self {
        let mut over = Self::default();
        for segment in segments {
            let mut copy: Option<Vec<u8>> = None;
            for (svma, bytes) in live {
                let Some((from, to)) = common(segment, *svma, bytes.len()) else {
                    continue;
                };
                if copy.is_none() {
                    copy = in_file(file, segment, segment.svma, usize::MAX).map(<[u8]>::to_vec);
                }
                let (Some(to), Some(from)) = (
                    copy.as_mut().and_then(|copy| copy.get_mut(to..)),
                    bytes.get(from..),
                ) else {
                    continue;
                };
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *from;
                }
            }
            over.segments.extend(copy.map(|copy| (segment.svma, copy)));
        }
        over
    }

    /// The pieces in which it differs from `file`: laid over the file again, they
    /// give the same text.
    pub fn differences(&self, file: &[u8], segments: &[Segment]) -> Vec<(Svma, Vec<u8>)> {
        let mut pieces: Vec<(Svma, Vec<u8>)> = Vec::new();
        for (start, live) in &self.segments {
            let segment = segments.iter().find(|segment| segment.svma == *start);
            let Some(file) = segment.and_then(|s| in_file(file, s, *start, usize::MAX)) else {
                continue;
            };
            let chunks = live.chunks(CHUNK).zip(file.chunks(CHUNK));
            for (at, (live, _)) in (start.0..)
                .step_by(CHUNK)
                .zip(chunks)
                .filter(|(_, (l, f))| l != f)
            {
                match pieces.last_mut() {
                    Some((from, piece)) if from.0 + piece.len() as u64 == at => piece.extend(live),
                    _ => pieces.push((Svma(at), live.to_vec())),
                }
            }
        }
        pieces
    }

    /// At most `len` bytes at `svma`, which lies in `segment` of `file`.
    pub fn bytes_at<'a>(
        &'a self,
        file: &'a [u8],
        segment: &Segment,
        svma: Svma,
        len: usize,
    ) -> Option<&'a [u8]> {
        let live = self.segments.iter().find(|(at, _)| *at == segment.svma);
        let Some((at, bytes)) = live else {
            return in_file(file, segment, svma, len);
        };
        let rest = bytes.get(usize::try_from(svma.0.checked_sub(at.0)?).ok()?..)?;
        rest.get(..len.min(rest.len()))
    }
}

/// Where `len` bytes at `svma` overlap a segment: the offsets in the bytes and in the
/// segment.
fn common(segment: &Segment, svma: Svma, len: usize) -> Option<(usize, usize)> {
    let end = svma.0.saturating_add(u64::try_from(len).ok()?);
    let segment_end = segment.svma.0.saturating_add(segment.file_size);
    if svma.0 >= segment_end || end <= segment.svma.0 {
        return None;
    }
    let start = svma.0.max(segment.svma.0);
    Some((
        usize::try_from(start - svma.0).ok()?,
        usize::try_from(start - segment.svma.0).ok()?,
    ))
}

/// At most `len` bytes at `svma` of `segment`, as far as they are in the file.
fn in_file<'a>(file: &'a [u8], segment: &Segment, svma: Svma, len: usize) -> Option<&'a [u8]> {
    let within = svma.0.checked_sub(segment.svma.0)?;
    let available = segment.file_size.checked_sub(within)?;
    let len = u64::try_from(len).ok()?.min(available);
    let start = usize::try_from(segment.file_offset.checked_add(within)?).ok()?;
    file.get(start..start.checked_add(usize::try_from(len).ok()?)?)
}
