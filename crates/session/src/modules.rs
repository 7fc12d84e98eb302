//! Modules: what the tracer says of their files, and the files opened again by the
//! reader.

use crate::path;
use redhanded_image::Image;
use redhanded_model::{ModuleId, Svma};
use redhanded_target::images::Images;
use redhanded_target::{Module, VMLINUX};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What is mapped as a module: a file, and the code in memory where it differs. A
/// kernel patches itself when it starts, and the linker of a module does not know
/// everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ImageFile {
    /// The file.
    #[serde(with = "path")]
    pub path: PathBuf,
    /// The linker's identification of this build, in hexadecimal.
    pub build_id: Option<String>,
    /// The pieces of code that are not the file's.
    pub live: Vec<Piece>,
}

/// Code in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Piece(
    Svma,
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")] Vec<u8>,
);

impl ImageFile {
    /// What there is to say of an image.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        let live = image.live_differences();
        Self {
            path: image.path().to_owned(),
            build_id: image.build_id().map(hex),
            live: live.into_iter().map(|(at, code)| Piece(at, code)).collect(),
        }
    }

    /// The same image again, if its file is there.
    #[must_use]
    pub fn open(&self, images: &Images) -> Option<Arc<Image>> {
        if self.live.is_empty() {
            return images.open(&self.path).ok();
        }
        let live = self.live.iter().map(|Piece(at, code)| (*at, code.clone()));
        let image = Image::open(&self.path).ok()?;
        Some(images.adopt(image.with_live_text(&live.collect::<Vec<_>>())))
    }
}

/// The modules that the tracer told of.
#[derive(Default)]
pub struct Mapped(HashMap<ModuleId, Arc<Module>>);

impl Mapped {
    /// Takes in a module and opens its file.
    pub fn add(&mut self, mut module: Module, file: Option<&ImageFile>, images: &Images) {
        module.image = file.and_then(|file| file.open(images));
        let kernel = self.0.values().find(|known| known.name == VMLINUX);
        let kernel = kernel.and_then(|kernel| kernel.image.as_ref());
        if let (Some(image), Some(kernel)) = (&module.image, kernel) {
            image.is_module_of(kernel);
        }
        self.0.insert(module.id, Arc::new(module));
    }

    /// Takes in a module without its file: only its name and where it is are known.
    pub fn add_unopened(&mut self, module: Module) {
        self.0.insert(module.id, Arc::new(module));
    }

    /// The modules with these numbers.
    #[must_use]
    pub fn of(&self, ids: &[ModuleId]) -> Vec<Arc<Module>> {
        let known = ids.iter().filter_map(|id| self.0.get(id));
        known.cloned().collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let digits = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]);
    digits.collect()
}

fn to_hex<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&hex(bytes))
}

fn from_hex<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match *pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.ok_or_else(|| serde::de::Error::custom("pairs of hexadecimal digits are expected"))
}
