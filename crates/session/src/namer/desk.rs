//! The namer's end.

use super::{About, Answer, Fact, Question};
use crate::source::SourceFiles;
use crate::{ImageFile, Mapped, read};
use redhanded_detect::{Finding, Folder, name_code, name_crash, name_data, sort_of, tally};
use redhanded_image::{Image, Spots};
use redhanded_model::{Avma, Bytes, Svma};
use redhanded_replay::SourceLine;
use redhanded_sys::{Rights, effective_user, read_sources_as};
use redhanded_target::Module;
use redhanded_target::images::Images;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Answers what one process asks, until it is gone. The files are opened in `images`, which
/// all share; `log` is the one that may be asked about.
pub fn serve(stream: UnixStream, images: &Images, log: Option<File>) {
    let mut desk = Desk {
        images,
        opened: HashMap::new(),
        mapped: Mapped::default(),
        folder: Folder::new(),
        source: SourceFiles::new(images.search()),
        log,
    };
    let _ = answer_all(stream, &mut desk);
}

fn answer_all(stream: UnixStream, desk: &mut Desk<'_>) -> io::Result<()> {
    let mut out = stream.try_clone()?;
    for line in BufReader::new(stream).split(b'\n') {
        if let Some(answer) = desk.answer(serde_json::from_slice(&line?)?) {
            let mut line = serde_json::to_vec(&answer)?;
            line.push(b'\n');
            out.write_all(&line)?;
        }
    }
    Ok(())
}

/// What one of those who ask has told so far.
struct Desk<'a> {
    images: &'a Images,
    /// Files with code that is not theirs, by what was told of them.
    opened: HashMap<ImageFile, Option<Arc<Image>>>,
    mapped: Mapped,
    folder: Folder,
    source: SourceFiles<'a>,
    log: Option<File>,
}

impl Desk<'_> {
    fn answer(&mut self, question: Question) -> Option<Answer> {
        Some(match question {
            Question::Rights(rights) => {
                read_sources_as(rights);
                // What one user may read, another may not.
                self.source = SourceFiles::new(self.images.search());
                return None;
            }
            Question::Started => {
                self.mapped = Mapped::default();
                return None;
            }
            Question::Module { module, file } => {
                self.mapped.add(module, file.as_ref(), self.images);
                return None;
            }
            Question::Sorts { modules, touches } => {
                let modules = self.mapped.of(&modules);
                let sorts = touches.iter().map(|touch| sort_of(touch, &modules));
                Answer::Sorts(sorts.collect())
            }
            Question::Collision(mut collision) => {
                let modules = self.mapped.of(&collision.modules);
                collision.complete(&modules);
                let finding = self.folder.judge(&collision, &modules);
                let quotes = match &finding {
                    Finding::Instance(race) if race.class.is_listed() => {
                        self.source.quotes(&race.accesses)
                    }
                    _ => Vec::new(),
                };
                let replay = tally(&collision, &modules);
                Answer::Finding {
                    finding,
                    quotes,
                    replay,
                }
            }
            Question::Crash { mut crash, modules } => {
                name_crash(&mut crash, &self.mapped.of(&modules));
                Answer::Crash(crash)
            }
            Question::Places {
                modules,
                code,
                data,
            } => {
                let modules = self.mapped.of(&modules);
                let place = |at: &Avma| self.place(*at, &modules);
                let name = |(at, len): &(Avma, u64)| name_data(Bytes::new(*at, *len), &modules);
                Answer::Places {
                    code: code.iter().map(place).collect(),
                    data: data.iter().map(name).collect(),
                }
            }
            Question::Facts { file, about, at } => Answer::Facts(self.facts(file, about, &at)),
            Question::Sightings { file, spots, at } => {
                let image = self.open(file);
                let image = image.as_deref();
                let sightings = image.map(|image| Spots::new(&spots).sightings(image, &at));
                Answer::Sightings(sightings.unwrap_or_default())
            }
            Question::Log(path) => {
                let told = read(self.log.as_ref()?, &path);
                Answer::Log(told.map(Box::new).map_err(|error| error.to_string()))
            }
        })
    }

    /// Where an instruction is in the source.
    fn place(&self, at: Avma, modules: &[Arc<Module>]) -> SourceLine {
        let Some(frame) = name_code(at, modules) else {
            return SourceLine::default();
        };
        let line = frame.file.zip(frame.line);
        let text = line
            .as_ref()
            .and_then(|(file, line)| self.source.line(file, *line));
        SourceLine {
            function: frame.function,
            line,
            text,
        }
    }

    fn facts(&mut self, file: ImageFile, about: About, at: &[Svma]) -> Vec<Fact> {
        let image = self.open(file);
        let fact = |svma: &Svma| {
            let image = image.as_deref();
            image.map_or_else(Fact::default, |image| fact(image, about, *svma))
        };
        at.iter().map(fact).collect()
    }

    /// A file that is asked about.
    fn open(&mut self, file: ImageFile) -> Option<Arc<Image>> {
        read_sources_as_owner(&file);
        let images = self.images;
        if file.live.is_empty() {
            return file.open(images);
        }
        let opened = self.opened.entry(file);
        opened.or_insert_with_key(|file| file.open(images)).clone()
    }
}

/// Whoever owns a file may have written its debug information, and root must not read on
/// behalf of somebody else what that one may not.
fn read_sources_as_owner(file: &ImageFile) {
    if effective_user() == 0
        && let Ok(about) = std::fs::metadata(&file.path)
    {
        read_sources_as(Rights::of_owner(about.uid(), about.gid()));
    }
}

fn fact(image: &Image, about: About, svma: Svma) -> Fact {
    let debug = image.debug();
    let none = Fact::default();
    match about {
        About::Covered => Fact {
            covered: debug.covers(svma),
            ..none
        },
        About::Toolchain => Fact {
            toolchain: debug.is_toolchain(svma),
            ..none
        },
        About::Function => {
            let outermost = debug.frames(svma).pop().unwrap_or_default();
            Fact {
                function: outermost.function,
                file: outermost.file,
                ..none
            }
        }
        About::Marking => Fact {
            marking: Some(debug.source_evidence(svma).marking),
            whole: debug.accesses_whole_variable(svma),
            ..none
        },
    }
}
