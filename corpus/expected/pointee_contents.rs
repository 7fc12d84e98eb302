// What Rust's tuples, enums and containers hold, behind an `Arc`.
//@ build: O0 O2 O2+debugfile
//@ expect: what=* pointee=Inner.pair.1 functions=set_pair,pair
//@ expect: what=* pointee=Inner.shape functions=set_shape,height
//@ expect: what=* pointee=Row.hits functions=set_hits,hits
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::thread;

const ROUNDS: u32 = 2_000_000;

#[derive(Clone, Copy)]
pub enum Shape {
    Circle(u32),
    Rect { w: u32, h: u32 },
}

pub struct Row {
    pub key: u64,
    pub hits: u32,
}

pub struct Inner {
    pub pair: (u32, u64),
    pub shape: Shape,
    pub row: Box<Row>,
}

struct Shared(UnsafeCell<Inner>);

// SAFETY: not sound, which is the point.
unsafe impl Sync for Shared {}

#[inline(never)]
fn set_pair(inner: &mut Inner, number: u32) {
    inner.pair.1 = u64::from(number);
}

#[inline(never)]
fn pair(inner: &Inner) -> u64 {
    inner.pair.1
}

#[inline(never)]
fn set_shape(inner: &mut Inner, number: u32) {
    inner.shape = if number & 1 == 0 {
        Shape::Circle(number)
    } else {
        Shape::Rect { w: number, h: number }
    };
}

#[inline(never)]
fn height(inner: &Inner) -> u32 {
    match inner.shape {
        Shape::Circle(radius) => radius,
        Shape::Rect { w, h } => w + h,
    }
}

#[inline(never)]
fn set_hits(inner: &mut Inner, number: u32) {
    inner.row.hits = number;
}

#[inline(never)]
fn hits(inner: &Inner) -> u64 {
    u64::from(inner.row.hits) + inner.row.key
}

fn main() {
    let shared = Arc::new(Shared(UnsafeCell::new(Inner {
        pair: (1, 2),
        shape: Shape::Circle(3),
        row: Box::new(Row { key: 4, hits: 5 }),
    })));
    let other = Arc::clone(&shared);
    let writer = thread::spawn(move || {
        for round in 0..ROUNDS {
            // SAFETY: there is none; this is one side of the races.
            let inner = unsafe { &mut *other.0.get() };
            set_pair(inner, round);
            set_shape(inner, round);
            set_hits(inner, round);
            spin_loop();
        }
    });
    for _ in 0..ROUNDS {
        // SAFETY: there is none; this is the other side.
        let inner = unsafe { &*shared.0.get() };
        black_box((pair(inner), height(inner), hits(inner)));
        spin_loop();
    }
    writer.join().unwrap();
}
