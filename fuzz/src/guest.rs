//! What a guest shows and says: its memory, its console, what its init reports.

use redhanded_guest::{Source, VcpuRegisters, explore_forged};
use redhanded_provision::hear_forged;
use redhanded_target::TargetError;

/// Nothing is at the lowest addresses.
const UNMAPPED: u64 = 0x1000;
/// No range of memory is longer that anything is read from.
const LONGEST: usize = 1 << 20;
/// More text of a guest is not kept.
const MOST_TEXT: usize = 2 << 20;

/// Memory that repeats the input, so that whatever is in it is found wherever one looks.
struct Memory<'b>(&'b [u8]);

impl Memory<'_> {
    fn read_at(&self, address: u64, length: usize) -> Vec<u8> {
        assert!(length <= LONGEST, "{length} bytes");
        let mut bytes = Vec::new();
        let Some(at) = address.checked_rem(self.0.len() as u64) else {
            return bytes;
        };
        if address < UNMAPPED || address.checked_add(length as u64).is_none() {
            return bytes;
        }
        let mut at = at as usize;
        while bytes.len() < length {
            let piece = &self.0[at..];
            bytes.extend_from_slice(&piece[..piece.len().min(length - bytes.len())]);
            at = 0;
        }
        bytes
    }

    /// The word of the input with this number.
    fn own_word(&self, number: usize) -> u64 {
        let bytes = self.0.iter().skip(8 * number).take(8);
        bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
}

impl Source for Memory<'_> {
    fn cpus(&self) -> Vec<u32> {
        vec![1, 2]
    }

    fn registers(&mut self, cpu: u32) -> Option<VcpuRegisters> {
        let word = |number| self.own_word(number + 4 * (cpu as usize - 1));
        let mut registers = VcpuRegisters {
            gs_base: Some(word(0)),
            kernel_gs_base: Some(word(1)),
            cr3: Some(word(2)),
            cr4: Some(word(3)),
            ..VcpuRegisters::default()
        };
        registers.general.gpr[4] = word(1);
        Some(registers)
    }

    fn read_many(
        &mut self,
        _cpu: Option<u32>,
        ranges: &[(u64, usize)],
    ) -> Result<Vec<Vec<u8>>, TargetError> {
        let read = |(address, length): &(u64, usize)| self.read_at(*address, *length);
        Ok(ranges.iter().map(read).collect())
    }
}

/// Takes the input for the memory of a guest and the registers of its CPUs.
pub fn explore(bytes: &[u8]) {
    explore_forged(&mut Memory(bytes));
}

/// Takes one half of the input for the log of a guest's kernel, the other for its init's reports.
pub fn hear(bytes: &[u8]) {
    let (log, reports) = bytes.split_at(bytes.len() / 2);
    let (_, kept) = hear_forged(log, reports);
    assert!(kept <= MOST_TEXT, "{kept} bytes of text are kept");
}
