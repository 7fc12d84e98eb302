//! The files of a target. Each is opened once, and kept over repeated runs.

use redhanded_image::{DebugSearch, FileIdentity, Image, Selected};
use redhanded_model::Unseen;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

type Select = dyn Fn(&Arc<Image>) -> Selected + Send + Sync;

/// Opened images and their selected sites.
pub struct Images {
    opened: Mutex<HashMap<FileIdentity, Entry>>,
    search: DebugSearch,
    select: Box<Select>,
}

#[derive(Clone)]
struct Entry {
    image: Result<Arc<Image>, String>,
    selected: Option<Arc<Selected>>,
}

impl Images {
    /// An empty store. Debug information and sources are searched for in `search`, and
    /// `select` chooses the sites of an image; it is called once for each.
    #[must_use]
    pub fn new(
        search: DebugSearch,
        select: impl Fn(&Arc<Image>) -> Selected + Send + Sync + 'static,
    ) -> Self {
        Self {
            opened: Mutex::new(HashMap::new()),
            search,
            select: Box::new(select),
        }
    }

    /// Where debug information and sources are searched for.
    #[must_use]
    pub const fn search(&self) -> &DebugSearch {
        &self.search
    }

    /// The image at `path`.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(&self, path: &Path) -> Result<Arc<Image>, Unseen> {
        let unseen = |why: String| Unseen {
            what: path.display().to_string(),
            why,
        };
        let identity = FileIdentity::of(path).map_err(|_| unseen("cannot be opened".to_owned()))?;
        let identity = identity.without_ctime();
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = opened.entry(identity).or_insert_with(|| Entry {
            image: Image::open(path)
                .map(|image| Arc::new(image.with_debug_search(self.search.clone())))
                .map_err(|error| error.to_string()),
            selected: None,
        });
        entry.image.clone().map_err(unseen)
    }

    /// Adds an image that is not just an opened file, so that its sites, too, are selected
    /// only once.
    pub fn adopt(&self, image: Image) -> Arc<Image> {
        let image = Arc::new(image.with_debug_search(self.search.clone()));
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = FileIdentity::without_file(image.path(), opened.len() as u64);
        opened.insert(
            identity,
            Entry {
                image: Ok(Arc::clone(&image)),
                selected: None,
            },
        );
        image
    }

    /// The selected sites of `image`, computed on first use.
    #[must_use]
    pub fn sites(&self, image: &Arc<Image>) -> Arc<Selected> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = opened
            .values_mut()
            .find(|entry| entry.image.as_ref().is_ok_and(|i| Arc::ptr_eq(i, image)));
        match entry {
            Some(entry) => Arc::clone(
                entry
                    .selected
                    .get_or_insert_with(|| Arc::new((self.select)(image))),
            ),
            None => Arc::new((self.select)(image)),
        }
    }
}
