//! Tells code from data within a function's range.

/// What linear decoding has seen of a function so far.
#[derive(Default)]
pub(super) struct Text {
    /// One bit per byte: whether an instruction starts there.
    starts: Vec<u64>,
    targets: Vec<u32>,
    zeros: u32,
}

impl Text {
    /// Starts a new function of `len` bytes.
    pub fn begin(&mut self, len: usize) {
        self.starts.clear();
        self.starts.resize(len.div_ceil(64), 0);
        self.targets.clear();
        self.zeros = 0;
    }

    /// Records an instruction. Returns false if this cannot be code: two `add [rax], al` in
    /// a row are four zero bytes.
    pub fn instruction(&mut self, offset: usize, bytes: &[u8]) -> bool {
        if let Some(word) = self.starts.get_mut(offset / 64) {
            *word |= 1 << (offset % 64);
        }
        if bytes == [0, 0] {
            self.zeros += 1;
        } else {
            self.zeros = 0;
        }
        self.zeros < 2
    }

    /// Records a direct branch within the function.
    pub fn branch(&mut self, offset: u64) {
        if let Ok(offset) = u32::try_from(offset) {
            self.targets.push(offset);
        }
    }

    /// Whether every branch lands on an instruction. Hand-written code sometimes jumps over
    /// a lock prefix, and the rest is an instruction as well.
    pub fn branches_fit(&self, bytes: &[u8]) -> bool {
        let starts_at = |offset: usize| {
            self.starts
                .get(offset / 64)
                .is_some_and(|word| word & (1 << (offset % 64)) != 0)
        };
        self.targets.iter().all(|target| {
            let target = *target as usize;
            starts_at(target)
                || target
                    .checked_sub(1)
                    .is_some_and(|before| bytes.get(before) == Some(&0xf0) && starts_at(before))
        })
    }
}

/// Where the padding at the end of the range (zeros or int3) begins.
pub(super) fn padding_start(bytes: &[u8]) -> usize {
    match bytes.last() {
        Some(&last @ (0 | 0xcc)) => bytes
            .iter()
            .rposition(|byte| *byte != last)
            .map_or(0, |position| position + 1),
        _ => bytes.len(),
    }
}
