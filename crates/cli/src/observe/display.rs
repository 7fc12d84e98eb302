//! How an observation is shown while it goes on.

use redhanded_image::{Image, SiteCache};
use redhanded_report::{Progress, Shown, SourceLine, Terminal};
use redhanded_session::Quote;
use redhanded_store::Quoted;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How it is shown while it goes on.
pub struct Display {
    pub terminal: Terminal,
    /// The source lines that it quotes.
    pub quotes: Arc<Quotes>,
    pub progress: Progress,
    pub announce: bool,
    /// How the indexing of large files is shown.
    pub indexing: Shown,
}

impl Display {
    /// The source lines that documents quote.
    pub fn source(&self) -> SourceLine {
        Quotes::lines(&self.quotes)
    }

    /// Indexes an image, with a progress bar if it takes a while.
    pub fn index(&self, image: &Image, cache: Option<&SiteCache>) {
        self.progress
            .suspend(|| crate::sites::index(image, cache, self.indexing));
    }
}

/// Source lines, as the namer read them.
#[derive(Default)]
pub struct Quotes(Mutex<HashMap<(String, u32), String>>);

impl Quotes {
    /// The lines, as writers ask for them.
    pub fn lines(quotes: &Arc<Self>) -> SourceLine {
        let quotes = Arc::clone(quotes);
        Arc::new(move |file, line| quotes.line(file, line))
    }

    /// The text of a line.
    fn line(&self, file: &str, line: u32) -> Option<String> {
        let quotes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quotes.get(&(file.to_owned(), line)).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Quoted> {
        let quotes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let quoted = quotes.iter().map(|((file, line), text)| Quoted {
            file: file.clone(),
            line: *line,
            text: text.clone(),
        });
        quoted.collect()
    }

    /// Adds a line; whether it is new.
    pub fn add(&self, quote: &Quote) -> bool {
        let mut quotes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (quote.file.clone(), quote.line);
        quotes.insert(place, quote.text.clone()).is_none()
    }
}
