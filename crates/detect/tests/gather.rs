//! A gather on the other side of a collision: its elements come from the vector registers.

use redhanded_detect::confirm;
use redhanded_model::{
    AccessKind, Avma, Bytes, Form, Hit, Loss, ModuleId, Region, Register, Registers, SpaceId, Svma,
    TaskId, ThreadName, Vectors, WindowEnd, WindowId, WindowRecord,
};
use redhanded_target::{Inspect, Module};
use std::sync::Arc;
use std::time::Duration;

/// vpgatherdd ymm0, [rdi+ymm2*4], ymm1
const GATHER: [u8; 6] = [0xc4, 0xe2, 0x75, 0x90, 0x04, 0x97];
const CODE: u64 = 0x1000;
const TABLE: u64 = 0x5_0000_0000;

struct Stopped {
    vectors: Option<Vectors>,
}

impl Inspect for Stopped {
    fn modules(&self) -> &[Arc<Module>] {
        &[]
    }
    fn space_of(&self, _task: TaskId) -> SpaceId {
        SpaceId::default()
    }
    fn read(&mut self, _space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        let bytes = (address.0 == CODE)
            .then(|| GATHER.get(..buffer.len()))
            .flatten();
        bytes.map(|bytes| buffer.copy_from_slice(bytes)).is_some()
    }
    fn instruction_before(&mut self, _space: SpaceId, _address: Avma) -> Option<Avma> {
        Some(Avma(CODE))
    }
    fn stack(&mut self, _task: TaskId, _registers: &Registers) -> Vec<Avma> {
        Vec::new()
    }
    fn region(&mut self, _space: SpaceId, _address: Avma) -> Region {
        Region::Heap
    }
    fn thread_name(&mut self, _task: TaskId) -> ThreadName {
        ThreadName::default()
    }
    fn vectors(&mut self, _task: TaskId) -> Option<Box<Vectors>> {
        self.vectors.clone().map(Box::new)
    }
}

/// The bytes that the gather is said to have read, for a sampled write to `at`.
fn read_at(vectors: Option<Vectors>, at: u64) -> Result<Bytes, Loss> {
    let bytes = Bytes::new(Avma(at), 8);
    let record = WindowRecord {
        id: WindowId(1),
        space: SpaceId::default(),
        module: ModuleId(0),
        svma: Svma(0),
        pc: Avma(0xdead_0000),
        task: TaskId(1),
        registers: Registers::default(),
        bytes,
        kind: AccessKind::Write,
        before: vec![0; 8],
        after: vec![0; 8],
        hit: None,
        end: WindowEnd::Collided,
        held: Duration::ZERO,
        losses: Vec::new(),
    };
    let mut registers = Registers {
        rip: CODE + 6,
        ..Registers::default()
    };
    registers.set(Register::Rdi, TABLE);
    let hit = Hit {
        task: TaskId(2),
        registers,
        watched: bytes,
        bytes_now: vec![0; 8],
    };
    confirm(&mut Stopped { vectors }, &record, &hit).map(|confirmed| {
        assert_eq!(confirmed.kind, AccessKind::Read);
        assert_eq!(confirmed.form, Form::Wide);
        confirmed.bytes
    })
}

#[test]
fn an_element_that_overlaps_is_what_collided() {
    let mut vectors = Vectors::default();
    for (lane, index) in [7i32, 100, -3, 0, 0, 0, 0, 0].into_iter().enumerate() {
        vectors.zmm[2][lane * 4..][..4].copy_from_slice(&index.to_le_bytes());
    }
    let read = |at| read_at(Some(vectors.clone()), at);
    assert_eq!(read(TABLE + 396), Ok(Bytes::new(Avma(TABLE + 400), 4)));
    assert_eq!(read(TABLE - 12), Ok(Bytes::new(Avma(TABLE - 12), 4)));
    assert_eq!(read(TABLE + 404), Err(Loss::NotOverlapping));
    assert_eq!(read_at(None, TABLE), Err(Loss::UnknownInstruction));
}
