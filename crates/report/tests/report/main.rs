//! What people and programs read, held to the letter.

mod arbitrary;
mod documentation;
mod fixtures;
mod json;
mod sites;
mod terminal;
mod version_1;
