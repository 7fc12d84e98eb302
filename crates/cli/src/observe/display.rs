//! How an observation is shown while it goes on.

use redhanded_image::{Image, SiteCache};
use redhanded_model::{Quote, Report};
use redhanded_report::{Progress, Shown, SourceLine, Terminal};
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
    /// Those of a report.
    pub fn of(report: &Report) -> Arc<Self> {
        let quotes = Self::default();
        for quote in &report.quotes {
            quotes.add(quote);
        }
        Arc::new(quotes)
    }

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
    pub fn all(&self) -> Vec<Quote> {
        let quotes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let quotes = quotes.iter().map(|((file, line), text)| Quote {
            file: file.clone(),
            line: *line,
            text: text.clone(),
        });
        let mut quotes: Vec<_> = quotes.collect();
        quotes.sort_unstable();
        quotes
    }

    /// Adds a line; whether it is new.
    pub fn add(&self, quote: &Quote) -> bool {
        let mut quotes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (quote.file.clone(), quote.line);
        quotes.insert(place, quote.text.clone()).is_none()
    }
}
