//! `cargo xtask names`: how many of a program's accesses through pointers get a name.
//!
//! It asks of every site that may be sampled what a report would say if it were one side of a
//! race, without the live registers that a report has. The source's own expression at the site
//! is a second witness: where both name a member, the two are compared.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use redhanded_image::{Image, Named, SegmentBase};
use redhanded_model::{Register, Svma};

/// Options of `cargo xtask names`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The programs
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print each access with its line and its name: one in N of them
    #[arg(long, value_name = "N")]
    list: Option<usize>,
    /// Print those where the source's expression names another member
    #[arg(long)]
    contradictions: bool,
    /// Print those that get no name
    #[arg(long)]
    unnamed: bool,
}

/// What was found in one program.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    pointers: usize,
    named: usize,
    doubtful: usize,
    confirmed: usize,
    contradicted: usize,
}

/// Counts the named accesses of each program.
pub fn run(options: &Options) -> Result<()> {
    println!("pointers  named         doubtful  source agrees  disagrees  program");
    for file in &options.files {
        let image = Image::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        let count = count(options, &image);
        let share = 100.0 * count.named as f64 / count.pointers.max(1) as f64;
        println!(
            "{:8}  {:6} {share:5.1}%  {:8}  {:13}  {:9}  {}",
            count.pointers,
            count.named,
            count.doubtful,
            count.confirmed,
            count.contradicted,
            file.display()
        );
    }
    Ok(())
}

fn count(options: &Options, image: &Image) -> Count {
    let mut count = Count::default();
    for site in image.sites().sites.iter() {
        let Some(size) = pointer_access(image, site.svma) else {
            continue;
        };
        count.pointers += 1;
        let source = image.debug().source_evidence(site.svma);
        let expression = source.expression.map(|expression| expression.text);
        let text = expression.as_deref().unwrap_or_default();
        let pointed = image.debug().pointed_at(site.svma);
        let Some(named) = pointed.and_then(|pointed| pointed.any_part(size, text)) else {
            if options.unnamed {
                print(image, site.svma, None, text);
            }
            continue;
        };
        count.named += 1;
        count.doubtful += usize::from(named.doubtful);
        let agrees = agrees(&named, text);
        count.confirmed += usize::from(agrees == Some(true));
        count.contradicted += usize::from(agrees == Some(false));
        let listed = options
            .list
            .is_some_and(|every| count.named.is_multiple_of(every.max(1)));
        if listed || (options.contradictions && agrees == Some(false)) {
            print(image, site.svma, Some(&named), text);
        }
    }
    count
}

/// The size of an access through a pointer: not one to a fixed address, to the function's own
/// frame or to thread-local memory. Only code with debug information counts.
fn pointer_access(image: &Image, svma: Svma) -> Option<u64> {
    let instruction = image.instruction_at(svma)?;
    let access = instruction.sampled_access()?;
    let operand = &access.operand;
    let through = operand.base.or(operand.index)?;
    let counts = operand.segment == SegmentBase::Flat
        && through != Register::Rsp
        && image.debug().covers(svma);
    counts.then(|| u64::from(access.size.max(1)))
}

/// Whether the source's expression names the same member, if it names one.
fn agrees(named: &Named, expression: &str) -> Option<bool> {
    let (_, member) = expression.rsplit_once(['.', '>'])?;
    let member = member.split('[').next()?.trim();
    let mut members = named
        .steps
        .iter()
        .filter_map(|step| step.to.strip_prefix('.'));
    let last = members.next_back()?;
    Some(last == member || members.any(|other| other == member))
}

fn print(image: &Image, svma: Svma, named: Option<&Named>, expression: &str) {
    let frames = image.debug().frames(svma);
    let frame = frames.first().cloned().unwrap_or_default();
    let text = image.instruction_at(svma).map(|one| one.text());
    let name = named.map_or_else(
        || "-".to_owned(),
        |named| {
            let doubt = if named.doubtful { "?" } else { "" };
            let written = named.expression.as_deref().unwrap_or("…");
            format!(
                "{written}{doubt}  [{}{}: {}, {:?}]",
                named.object, named.path, named.type_name, named.source
            )
        },
    );
    let file = frame.file.unwrap_or_default();
    let line = frame.line.unwrap_or_default();
    println!("{:#x}  {}", svma.0, text.unwrap_or_default());
    println!("    {name}   source: {expression}");
    println!("    {}  {file}:{line}", frame.function.unwrap_or_default());
    println!(
        "    | {}",
        source_line(Path::new(&file), line).unwrap_or_default()
    );
}

fn source_line(file: &Path, line: u32) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let at = usize::try_from(line).ok()?.checked_sub(1)?;
    text.lines().nth(at).map(|line| line.trim().to_owned())
}
