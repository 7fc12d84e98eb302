//! The store from the outside: what is kept, what people decide, and what is refused.

mod containers;
mod decisions;
mod fixtures;
mod kept;
mod patterns;
mod pointees;
mod trouble;
