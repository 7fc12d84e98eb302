//! The store from the outside: what is kept, what people decide, and what is refused.

mod decisions;
mod fixtures;
mod kept;
mod patterns;
mod pointees;
mod trouble;
