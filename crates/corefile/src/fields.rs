//! Writes structures of the ELF format and of the kernel field by field, little-endian
//! and with explicit padding.

/// Bytes that grow by fields.
#[derive(Default)]
pub struct Fields(pub Vec<u8>);

impl Fields {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn zeros(&mut self, count: usize) {
        self.0.resize(self.0.len() + count, 0);
    }

    /// A text in a field of `size` bytes, cut so that a zero follows it.
    pub fn text(&mut self, text: &[u8], size: usize) {
        let kept = text.len().min(size.saturating_sub(1));
        self.0.extend_from_slice(&text[..kept]);
        self.zeros(size - kept);
    }

    /// Zeros up to a multiple of `size`.
    pub fn align(&mut self, size: usize) {
        self.0.resize(self.0.len().next_multiple_of(size), 0);
    }
}
