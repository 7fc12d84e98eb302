//! Symbols by name.

use crate::Image;
use object::{Object, ObjectSymbol};
use redhanded_model::Svma;
use std::collections::HashMap;

impl Image {
    /// The addresses of the symbols with these names that the file defines, code or data.
    /// Reads the whole symbol table.
    #[must_use]
    pub fn symbols_named(&self, names: &[&str]) -> HashMap<String, Svma> {
        let Some(object) = self.object() else {
            return HashMap::new();
        };
        let defined = object.symbols().filter(|symbol| !symbol.is_undefined());
        defined
            .filter_map(|symbol| Some((symbol.name().ok()?, symbol.address())))
            .filter(|(name, _)| names.contains(name))
            .map(|(name, address)| (name.to_owned(), Svma(address)))
            .collect()
    }
}
