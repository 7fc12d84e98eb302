//! `redhanded sites`: shows what can be sampled in a file.

use crate::arguments::{ShowProgress, Sites};
use crate::exit::Failure;
use crate::namer::{Namer, Work};
use crate::select::Source;
use crate::{debuginfod, screen, select};
use redhanded_image::{Image, Selected, SiteCache};
use redhanded_model::{AccessKind, Exclusions};
use redhanded_report::{FunctionSites, Progress, Shown, SitesReport, Terminal, json};
use redhanded_session::{About, Asker};
use redhanded_sys::renounce_debug_information;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Prints the sampling set of a file.
pub fn sites(arguments: &Sites) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let selection = select::selection(&arguments.select)?;
    debuginfod::fetch([arguments.image.clone()], false);
    let search = select::search(&arguments.select)?;
    let image = Image::open(&arguments.image)?.with_debug_search(search.clone());
    let work = Work {
        search,
        ..Work::default()
    };
    let mut namer = Namer::start(work)?.alone()?;
    renounce_debug_information();
    let shown = screen::shown(ShowProgress::Auto, false, false);
    index(&image, select::cache().as_ref(), shown);
    let selected = select::sites(&selection, &image, &mut namer.asker);
    let report = SitesReport {
        file: arguments.image.display().to_string(),
        text_bytes: image
            .functions()
            .as_slice()
            .iter()
            .map(|function| function.end.0 - function.start.0)
            .sum(),
        functions: image.functions().as_slice().len() as u64,
        sites: selected.sites.len() as u64,
        excluded: excluded(&image, &selected),
        by_function: by_function(&image, &selected, &mut namer.asker),
        seconds: started.elapsed().as_secs_f64(),
    };
    namer.dismiss()?;
    let mut text = Vec::new();
    if arguments.json {
        json::write_sites(&report, &mut text)?;
    } else {
        Terminal::new(screen::style_of_stdout()).sites(&mut text, &report, arguments.all)?;
    }
    screen::print(&text)?;
    for option in selection.unmatched() {
        screen::say(&format!(
            "redhanded: {option} matches no code of the file that can be sampled"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Who waits for longer is told what for.
const WAIT: Duration = Duration::from_secs(1);

/// Indexes an image with a progress bar, if there is a terminal for it.
pub fn index(image: &Image, cache: Option<&SiteCache>, shown: Shown) {
    let total: u64 = image
        .segments()
        .iter()
        .filter(|segment| segment.executable)
        .map(|segment| segment.file_size)
        .sum();
    // A small one is done before a bar could be drawn.
    let shown = if total > 4 << 20 {
        shown
    } else {
        Shown::Nothing
    };
    let progress = Progress::bytes(shown, &format!("indexing {}", image.name()), total);
    let told = AtomicBool::new(shown != Shown::Lines);
    let shown = std::sync::Mutex::new(0);
    let started = Instant::now();
    image.index(cache, &|done, _| {
        redhanded_sys::beat();
        if started.elapsed() > WAIT && !told.swap(true, Ordering::Relaxed) {
            let size = total >> 20;
            screen::say(&format!(
                "redhanded: indexing {} ({size} MB of code)",
                image.name()
            ));
        }
        if let Ok(mut shown) = shown.lock()
            && done > *shown
        {
            progress.advance(done - *shown);
            *shown = done;
        }
    });
    progress.finish();
}

fn excluded(image: &Image, selected: &Selected) -> Exclusions {
    let mut excluded = image.sites().excluded.clone();
    excluded.merge(&selected.excluded);
    excluded
}

fn by_function(image: &Image, selected: &Selected, namer: &mut Asker) -> Vec<FunctionSites> {
    let mut source = Source::new(image, namer);
    let mut rows: Vec<FunctionSites> = Vec::new();
    for sites in selected.sites.chunk_by(|a, b| a.function == b.function) {
        let Some(first) = sites.first() else { continue };
        let function = image.functions().get(first.function);
        let told = function.map(|f| source.of_function(About::Function, f.start));
        let told = told.unwrap_or_default();
        let name = told
            .function
            .unwrap_or_else(|| function.map_or_else(String::new, |f| format!("+{}", f.start)));
        let count = |kind: AccessKind| sites.iter().filter(|site| site.kind == kind).count() as u64;
        rows.push(FunctionSites {
            name,
            file: told.file,
            sites: sites.len() as u64,
            reads: count(AccessKind::Read),
            writes: count(AccessKind::Write),
            updates: count(AccessKind::Update),
            excluded: u64::from(image.sites().excluded_in(first.function)),
        });
    }
    rows
}
