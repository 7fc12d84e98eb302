//! What is known of a value: which bits of the accessed bytes it depends on, and how it differs
//! from them.

use redhanded_model::Step;

/// Something that a register or a stack slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Of anything else, of which only these bits can be set.
    Any { ones: u64 },
    /// Of the accessed bytes.
    Derived(Derived),
}

/// A value that comes from the accessed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Derived {
    /// The bits of theirs that it depends on.
    pub bits: u64,
    /// By how many bits it was shifted to the right.
    pub shift: i32,
    /// The bits in which it may differ from them, as long as it is not shifted.
    pub changed: u64,
    /// What was added.
    pub step: Option<Step>,
}

/// The lowest bits of so many bytes.
pub const fn low_bits(size: usize) -> u64 {
    if size >= 8 {
        u64::MAX
    } else {
        (1 << (size * 8)) - 1
    }
}

fn shifted(bits: u64, right: i32) -> u64 {
    let by = right.unsigned_abs();
    let bits = if right >= 0 {
        bits.checked_shl(by)
    } else {
        bits.checked_shr(by)
    };
    bits.unwrap_or(0)
}

impl Derived {
    /// The bytes themselves.
    pub const fn whole(size: usize) -> Self {
        Self {
            bits: low_bits(size),
            shift: 0,
            changed: 0,
            step: None,
        }
    }

    /// What depends on these bits in some other way.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            bits,
            shift: 0,
            changed: u64::MAX,
            step: Some(Step::Other),
        }
    }

    /// What an update that stores this does.
    pub const fn as_step(&self) -> Step {
        match self.step {
            Some(step) => step,
            None => Step::Bits,
        }
    }

    /// What a register holds of which the lowest `size` bytes became `low`, and the rest is
    /// this.
    pub fn with_low(self, low: Self, size: usize) -> Self {
        let part = low_bits(size);
        let rest = self.bits & shifted(!part, self.shift);
        if rest == 0 {
            return low;
        }
        if self.shift != low.shift {
            return Self::from_bits(self.bits | low.bits);
        }
        Self {
            bits: low.bits | rest,
            shift: self.shift,
            changed: low.changed & part | self.changed & !part,
            step: low.step.or(self.step),
        }
    }

    fn and(mut self, ones: u64) -> Self {
        self.bits &= shifted(ones, self.shift);
        self.changed |= !ones;
        self
    }

    fn or(mut self, ones: u64) -> Self {
        self.changed |= ones;
        self
    }

    fn add(mut self, step: Step) -> Self {
        self.changed = u64::MAX;
        self.step = Some(match (self.step, step) {
            (None, step) => step,
            (Some(Step::By(one)), Step::By(two)) => Step::By(one.wrapping_add(two)),
            (Some(one), two) if one.is_up() && two.is_up() => Step::Up,
            (Some(one), two) if one.is_down() && two.is_down() => Step::Down,
            _ => Step::Other,
        });
        self
    }

    fn shift(mut self, right: i32) -> Self {
        self.shift = self.shift.saturating_add(right);
        self.bits &= shifted(u64::MAX, self.shift);
        self.changed = u64::MAX;
        self.step = Some(Step::Other);
        self
    }
}

/// What is computed of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    And,
    Or,
    Xor,
    Add,
    Subtract,
    /// To the right by a constant, to the left if it is negative.
    Shift(i32),
    Other,
}

impl Value {
    pub const UNKNOWN: Self = Self::Any { ones: u64::MAX };

    pub const fn derived(self) -> Option<Derived> {
        match self {
            Self::Derived(derived) => Some(derived),
            Self::Any { .. } => None,
        }
    }

    /// The bits of the accessed bytes that it depends on.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Derived(derived) => derived.bits,
            Self::Any { .. } => 0,
        }
    }

    /// Cut to so many bytes.
    pub fn cut(self, size: usize) -> Self {
        match self {
            Self::Any { ones } => Self::Any {
                ones: ones & low_bits(size),
            },
            Self::Derived(mut derived) => {
                derived.bits &= shifted(low_bits(size), derived.shift);
                Self::Derived(derived)
            }
        }
    }

    /// What `operation` makes of it and `other`; `constant` is what is known of that one.
    pub fn compute(self, operation: Operation, other: Self, constant: Option<i64>) -> Self {
        let bits = self.bits() | other.bits();
        match (self, other) {
            (Self::Any { ones: one }, Self::Any { ones: two }) => Self::Any {
                ones: match operation {
                    Operation::And => one & two,
                    Operation::Or | Operation::Xor => one | two,
                    Operation::Shift(right) => shifted(one, -right),
                    Operation::Add | Operation::Subtract | Operation::Other => u64::MAX,
                },
            },
            (Self::Derived(derived), Self::Any { ones }) => match operation {
                Operation::And if constant.is_some() => Self::Derived(derived.and(ones)),
                // Some of these bits may be cleared as well.
                Operation::And if ones != u64::MAX => Self::Derived(Derived {
                    changed: u64::MAX,
                    step: Some(Step::Other),
                    ..derived.and(ones)
                }),
                Operation::Or | Operation::Xor => Self::Derived(derived.or(ones)),
                Operation::Add => Self::Derived(derived.add(match constant {
                    Some(amount) => Step::By(amount),
                    None => Step::Up,
                })),
                Operation::Subtract => Self::Derived(derived.add(match constant {
                    Some(amount) => Step::By(amount.wrapping_neg()),
                    None => Step::Down,
                })),
                Operation::Shift(right) => Self::Derived(derived.shift(right)),
                Operation::And | Operation::Other => Self::Derived(Derived::from_bits(bits)),
            },
            // The order does not matter to these.
            (Self::Any { ones }, Self::Derived(derived)) => match operation {
                Operation::Or | Operation::Xor => Self::Derived(derived.or(ones)),
                Operation::Add => Self::Derived(derived.add(Step::Up)),
                _ => Self::Derived(Derived::from_bits(bits)),
            },
            (Self::Derived(one), Self::Derived(two))
                if one == two && operation == Operation::And =>
            {
                self
            }
            (Self::Derived(_), Self::Derived(_)) => Self::Derived(Derived::from_bits(bits)),
        }
    }

    /// One of the two.
    pub fn either(self, other: Self) -> Self {
        match (self, other) {
            (one, two) if one == two => one,
            (Self::Any { ones: one }, Self::Any { ones: two }) => Self::Any { ones: one | two },
            (Self::Derived(one), Self::Derived(two))
                if one.shift == two.shift && one.step == two.step =>
            {
                Self::Derived(Derived {
                    bits: one.bits | two.bits,
                    changed: one.changed | two.changed,
                    ..one
                })
            }
            (one, two) => Self::Derived(Derived::from_bits(one.bits() | two.bits())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Value = Value::Derived(Derived::whole(4));

    fn constant(value: u64) -> (Value, Option<i64>) {
        (Value::Any { ones: value }, Some(value.cast_signed()))
    }

    fn with(value: Value, operation: Operation, number: u64) -> Derived {
        let (other, constant) = constant(number);
        value.compute(operation, other, constant).derived().unwrap()
    }

    #[test]
    fn flags_are_changed_bit_by_bit() {
        assert_eq!(with(WHOLE, Operation::Or, 0x40).changed, 0x40);
        let cleared = with(WHOLE, Operation::And, !0x40);
        assert_eq!((cleared.changed, cleared.as_step()), (0x40, Step::Bits));
        let field = Value::Derived(with(WHOLE, Operation::And, !0xff00));
        let shifted = Value::Any { ones: 0xff }.compute(Operation::Shift(-8), Value::UNKNOWN, None);
        let both = field
            .compute(Operation::Or, shifted, None)
            .derived()
            .unwrap();
        assert_eq!(both.changed, 0xff00);
    }

    #[test]
    fn a_test_looks_at_the_bits_that_are_left() {
        assert_eq!(with(WHOLE, Operation::And, 1).bits, 1);
        // A mask in a register, of which only the possible bits are known.
        let mask = Value::Any { ones: 0x100 };
        let masked = WHOLE.compute(Operation::And, mask, None).derived().unwrap();
        assert_eq!((masked.bits, masked.changed), (0x100, u64::MAX));
        let shifted = WHOLE.compute(Operation::Shift(3), Value::UNKNOWN, None);
        assert_eq!(with(shifted, Operation::And, 1).bits, 8);
    }

    #[test]
    fn the_rest_of_a_register_keeps_its_bits() {
        let whole = Derived::whole(4);
        let low = with(WHOLE.cut(1), Operation::And, 0xf);
        let joined = whole.with_low(low, 1);
        assert_eq!(joined.bits, 0xffff_ff0f);
        assert_eq!(joined.changed, 0xf0);
        // Of two bytes in a register, the second one alone.
        let loaded = Derived::whole(2);
        let second = Value::Derived(loaded).compute(Operation::Shift(8), Value::UNKNOWN, None);
        let second = second.derived().unwrap();
        assert_eq!(loaded.with_low(second, 2).bits, 0xff00);
    }

    #[test]
    fn sums_are_counted() {
        let once = Value::Derived(with(WHOLE, Operation::Add, 1));
        assert_eq!(with(once, Operation::Add, 2).as_step(), Step::By(3));
        assert_eq!(with(WHOLE, Operation::Subtract, 1).as_step(), Step::By(-1));
        let some = WHOLE.compute(Operation::Add, Value::UNKNOWN, None);
        assert_eq!(some.derived().unwrap().as_step(), Step::Up);
    }

    #[test]
    fn two_ways_change_what_either_changes() {
        let one = Value::Derived(with(WHOLE, Operation::Or, 0x40));
        let two = Value::Derived(with(WHOLE, Operation::And, !0x2));
        assert_eq!(one.either(two).derived().unwrap().changed, 0x42);
        let other = one.either(Value::UNKNOWN).derived().unwrap();
        assert_eq!((other.changed, other.as_step()), (u64::MAX, Step::Other));
    }
}
