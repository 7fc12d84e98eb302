//! What people and programs read, held to the letter.

mod arbitrary;
mod browser;
mod documentation;
mod fixtures;
mod html;
mod json;
mod problems;
mod quotes;
mod sarif;
mod sites;
mod terminal;
mod verdict;
mod version_1;
