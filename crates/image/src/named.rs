//! Symbols by name, and what sections tell by theirs.

use crate::Image;
use object::{Object, ObjectSymbol};
use redhanded_model::Svma;
use std::collections::HashMap;

impl Image {
    /// Whether the file is a Go program, with its runtime in it.
    #[must_use]
    pub fn is_go(&self) -> bool {
        [".go.buildinfo", ".gopclntab"]
            .iter()
            .any(|name| self.section(name).is_some())
    }

    /// The addresses of the symbols with these names that the file defines, code or data.
    /// Reads the whole symbol tables.
    #[must_use]
    pub fn symbols_named(&self, names: &[&str]) -> HashMap<String, Svma> {
        let Some(object) = self.object() else {
            return HashMap::new();
        };
        let all = object.dynamic_symbols().chain(object.symbols());
        let defined = all.filter(|symbol| !symbol.is_undefined());
        defined
            .filter_map(|symbol| Some((symbol.name().ok()?, symbol.address())))
            .filter(|(name, _)| names.contains(name))
            .map(|(name, address)| (name.to_owned(), Svma(address)))
            .collect()
    }
}
