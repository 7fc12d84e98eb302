//! Loadable modules: found by walking the kernel's own list in the guest's
//! memory, and linked to where they are there.

use super::guest::PerCpu;
use super::{KERNEL, Vm};
use crate::Stop;
use redhanded_image::kernel_file::unpack;
use redhanded_image::{Image, link};
use redhanded_model::Avma;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// No list is followed longer than this.
const MOST_MODULES: usize = 1000;
/// No module has more sections.
const MOST_SECTIONS: u64 = 500;
/// How often the list is followed although its ends are what they were.
pub(super) const WALK_EVERY: Duration = Duration::from_secs(2);
/// The state of a module whose code is complete: live, or about to be initialised.
const USABLE: [u32; 2] = [0, 1];

/// A module as the kernel's list has it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Loaded {
    address: u64,
    name: String,
}

impl Vm {
    /// Where the kernel's list of modules begins and ends.
    pub(super) fn ends_of_list(&self) -> Option<(u64, usize)> {
        Some((self.guest.symbol("modules")?, 16))
    }

    /// Looks whether modules came or went.
    pub(super) fn modules_may_have_changed(&mut self) {
        let Some((head, len)) = self.ends_of_list() else {
            return;
        };
        // A list is followed one by one, and each step takes a round trip.
        let now = self.started.elapsed();
        let ends = self.peek(head, len);
        if ends.is_some() && ends == self.list_ends && now < self.next_walk {
            return;
        }
        self.list_ends = ends;
        self.must_walk = false;
        self.next_walk = now + WALK_EVERY;
        let Some(loaded) = self.list(head) else {
            return;
        };
        if self.known_list == loaded {
            return;
        }
        let before = std::mem::replace(&mut self.known_list, loaded.clone());
        let mut changed = false;
        // One that went and came back is another: it need not be the same file.
        let stays = |name: &str| {
            let mut same = loaded.iter().filter(|module| before.contains(module));
            same.any(|module| module.name == name)
        };
        let (stay, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.modules)
            .into_iter()
            .partition(|module| module.name == KERNEL || stays(&module.name));
        self.modules = stay;
        for module in gone {
            if let Some(image) = &module.image {
                self.unwinder.remove_module(image, module.bias);
            }
            self.guest.per_cpu.retain(|of| of.module != module.name);
            self.breakpoints
                .retain(|address| !module.has_segment(Avma(*address)));
            changed = true;
        }
        for module in &loaded {
            if self.modules.iter().any(|known| known.name == module.name) {
                continue;
            }
            match self.load(module) {
                Ok(()) => {
                    self.unseen.remove(&format!("module {}", module.name));
                    changed = true;
                }
                Err(why) => {
                    self.unseen.insert(format!("module {}", module.name), why);
                }
            }
        }
        if changed {
            self.pending.push_back(Stop::ModulesChanged);
        }
    }

    /// The modules in the kernel's list whose code is complete.
    fn list(&mut self, head: u64) -> Option<Vec<Loaded>> {
        let (list, name, state) = (
            self.guest.field("module", "list")?,
            self.guest.field("module", "name")?,
            self.guest.field("module", "state")?,
        );
        let mut loaded = Vec::new();
        let mut at = self.word(head)?;
        for _ in 0..MOST_MODULES {
            if at == head {
                return Some(loaded);
            }
            let address = at.wrapping_sub(list);
            let next = self.word(at)?;
            let read = self.peek(address.wrapping_add(state), 4)?;
            let usable = USABLE.contains(&u32::from_le_bytes(read.try_into().ok()?));
            if usable {
                let bytes = self.peek(address.wrapping_add(name), 56)?;
                let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                loaded.push(Loaded {
                    address,
                    name: String::from_utf8_lossy(name).into_owned(),
                });
            }
            at = next;
        }
        None
    }

    /// Makes a module known: its file, linked to where it is.
    fn load(&mut self, module: &Loaded) -> Result<(), String> {
        let Some(sections) = self.sections(module.address) else {
            return Err(self.not_yet(module, "its sections could not be read from the guest"));
        };
        let path = self
            .files
            .find_module(&module.name)
            .ok_or("its file was not found; name its folder with --modules")?;
        let file = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = unpack(&file).map_err(|error| format!("{}: {error}", path.display()))?;
        let debug = self.files.find_debug(&path, &module.name);
        let linked = link(&file, &sections, debug.as_deref(), &|_| None)
            .map_err(|error| error.to_string())?;
        let first = sections.iter().map(|(_, address)| *address).min();
        let place = self.files.linked();
        let place = place.join(format!("{:x}", first.unwrap_or(0)));
        let target = place.join(format!("{}.ko", module.name));
        // Another of this name may be mapped: it is replaced, not written over.
        let new = place.join("new");
        fs::create_dir_all(&place)
            .and_then(|()| fs::write(&new, &linked))
            .and_then(|()| fs::rename(&new, &target))
            .map_err(|error| format!("cannot write {}: {error}", target.display()))?;
        let plain = Image::open(&target).map_err(|error| error.to_string())?;
        let mut live = Vec::new();
        for segment in plain.segments().iter().filter(|segment| segment.executable) {
            let at = segment.svma.0;
            let answers = self.ask(&self.reading(at, segment.file_size as usize));
            let text = answers.and_then(|mut answers| answers.pop()?.memory());
            let Some(text) = text else {
                return Err(self.not_yet(module, "its code could not be read from the guest"));
            };
            live.push((segment.svma, text));
        }
        let segments = || plain.segments().iter();
        let start = segments().map(|segment| segment.svma.0).min();
        let end = segments()
            .map(|s| s.svma.0.saturating_add(s.mem_size))
            .max();
        let range = start.unwrap_or(0)..end.unwrap_or(0);
        let image: Arc<Image> = self.images.adopt(plain.with_live_text(&live));
        let within = self.per_cpu_of(module.address);
        let svma = image.section_address(".data..percpu");
        if let (Some(within), Some(svma)) = (within, svma) {
            self.guest.per_cpu.push(PerCpu {
                module: module.name.clone(),
                within,
                svma,
            });
        }
        self.add_module(image, module.name.clone(), 0, range);
        Ok(())
    }

    /// Why a module is not known that may be when the list is followed next: it was
    /// just being loaded, or no CPU saw it.
    fn not_yet(&mut self, module: &Loaded, why: &str) -> String {
        self.known_list.retain(|known| known != module);
        why.to_owned()
    }

    /// Where the per-CPU variables of a module are in the data of a CPU.
    fn per_cpu_of(&mut self, module: u64) -> Option<Range<u64>> {
        let (start, size) = (
            self.guest.field("module", "percpu")?,
            self.guest.field("module", "percpu_size")?,
        );
        let start = self.word(module.wrapping_add(start))?;
        let size = self.peek(module.wrapping_add(size), 4)?;
        let size = u32::from_le_bytes(size.try_into().ok()?);
        Some(start..start.checked_add(u64::from(size))?)
    }

    /// The names and addresses of a module's sections, as the kernel shows them in
    /// sysfs.
    fn sections(&mut self, module: u64) -> Option<Vec<(String, u64)>> {
        let guest = &self.guest;
        let attributes = guest.field("module", "sect_attrs")?;
        let first = guest.field("module_sect_attrs", "attrs")?;
        let number = guest.field("module_sect_attrs", "nsections");
        // Since 6.14 the address is the private part of the attribute itself.
        let (size, name, address) = match guest.field("module_sect_attr", "address") {
            Some(address) => (
                guest.btf.size_of("module_sect_attr")?,
                guest.field("module_sect_attr", "battr.attr.name")?,
                address,
            ),
            None => (
                guest.btf.size_of("bin_attribute")?,
                guest.field("bin_attribute", "attr.name")?,
                guest.field("bin_attribute", "private")?,
            ),
        };
        let table = self.word(module.wrapping_add(attributes))?;
        let count = match number {
            Some(at) => self.word(table.wrapping_add(at))? & 0xffff_ffff,
            None => MOST_SECTIONS,
        };
        let mut sections = BTreeMap::new();
        for index in 0..count.min(MOST_SECTIONS) {
            let entry = table.wrapping_add(first).wrapping_add(index * size);
            let text = self.word(entry.wrapping_add(name))?;
            if text == 0 {
                break;
            }
            let bytes = self.string(text)?;
            // What only initialisation needed is freed, and something else there now.
            if !bytes.starts_with(".init") {
                sections.insert(bytes, self.word(entry.wrapping_add(address))?);
            }
        }
        (!sections.is_empty()).then(|| sections.into_iter().collect())
    }

    fn string(&mut self, address: u64) -> Option<String> {
        // A string at the end of a page may be followed by nothing.
        let bytes = self.peek_up_to(address, 64);
        if bytes.is_empty() {
            return None;
        }
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl super::KernelFiles {
    /// The folder for modules that were linked to where they are in this run's
    /// guest. Those of runs that are over are in nobody's way any more.
    fn linked(&self) -> PathBuf {
        let all = self.cache.join("linked");
        for run in fs::read_dir(&all).into_iter().flatten().flatten() {
            if !Path::new("/proc").join(run.file_name()).exists() {
                let _ = fs::remove_dir_all(run.path());
            }
        }
        // The process in front opens them too, perhaps when we have ended already.
        all.join(std::os::unix::process::parent_id().to_string())
    }

    /// The file of a module.
    fn find_module(&self, name: &str) -> Option<PathBuf> {
        let is = |path: &Path| module_of(path).is_some_and(|(of, debug)| of == name && !debug);
        self.modules.iter().find_map(|place| find(place, &is))
    }

    /// The debug information of a module that is apart from it.
    fn find_debug(&self, file: &Path, name: &str) -> Option<Vec<u8>> {
        // Beside it may be the same file, packed.
        let elsewhere = |path: &Path| path.parent() != file.parent();
        let is = |path: &Path| {
            let of = module_of(path);
            of.is_some_and(|(of, debug)| of == name && (debug || elsewhere(path)))
        };
        let found = self.modules.iter().find_map(|place| find(place, &is))?;
        let file = fs::read(found).ok()?;
        Some(unpack(&file).ok()?.into_owned())
    }
}

/// The module that a file is of by its name, in which `-` and `_` are the same, and
/// whether it is debug information only by its name.
fn module_of(path: &Path) -> Option<(String, bool)> {
    let name = path.file_name()?.to_str()?;
    let name = [".gz", ".xz", ".zst"]
        .iter()
        .find_map(|packed| name.strip_suffix(packed))
        .unwrap_or(name);
    let (name, debug) = match name.strip_suffix(".debug") {
        Some(name) => (name, true),
        None => (name, false),
    };
    Some((name.strip_suffix(".ko")?.replace('-', "_"), debug))
}

/// The first file below `place` that is the wanted one.
fn find(place: &Path, is: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    if place.is_file() {
        return is(place).then(|| place.to_owned());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(place)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries.iter().find_map(|entry| find(entry, is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_modules_have_their_names() {
        let of = |name: &str| module_of(Path::new(name));
        let is = |name: &str, debug| Some((name.to_owned(), debug));
        assert_eq!(of("/lib/x/snd-hda.ko"), is("snd_hda", false));
        assert_eq!(of("snd_hda.ko.xz"), is("snd_hda", false));
        assert_eq!(of("snd_hda.ko.debug"), is("snd_hda", true));
        assert_eq!(of("snd_hda.ko.zst"), is("snd_hda", false));
        assert_eq!(of("snd_hda.o"), None);
    }
}
