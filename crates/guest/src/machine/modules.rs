//! The loadable modules of the kernel: noticed when its list changes, and linked to
//! their addresses in the guest.

use super::{GuestMachine, SPACE};
use crate::Source;
use crate::linux::{LoadedModule, PerCpu};
use redhanded_image::kernel_file::unpack;
use redhanded_image::{Image, link};
use redhanded_model::{Avma, ModuleId};
use redhanded_sys::{FileMap, write_whole};
use redhanded_target::{Module, Stop, VMLINUX};
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How often the list is walked although its head has not changed.
pub(super) const WALK_EVERY: Duration = Duration::from_secs(2);

impl GuestMachine {
    /// Checks whether modules were loaded or unloaded.
    pub(super) fn update_modules(&mut self) {
        let Some((head, len)) = self.kernel.module_list() else {
            return;
        };
        // Walking the list takes a round trip for each module.
        let now = self.started.elapsed();
        let ends = Source::read(self, head, len);
        if ends.is_some() && ends == self.list_head && now < self.next_walk {
            return;
        }
        self.list_head = ends;
        self.must_walk = false;
        self.next_walk = now + WALK_EVERY;
        let kernel = Arc::clone(&self.kernel);
        let Some(loaded) = kernel.loaded_modules(self) else {
            return;
        };
        if self.known_modules == loaded {
            return;
        }
        let before = std::mem::replace(&mut self.known_modules, loaded.clone());
        let mut changed = false;
        // A module that was loaded again is another one: its file may differ.
        let stays = |name: &str| {
            let mut same = loaded.iter().filter(|module| before.contains(module));
            same.any(|module| module.name == name)
        };
        let (stay, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.modules)
            .into_iter()
            .partition(|module| module.name == VMLINUX || stays(&module.name));
        self.modules = stay;
        for module in gone {
            if let Some(image) = &module.image {
                self.unwinder.remove_module(image, module.bias);
            }
            let kernel = Arc::make_mut(&mut self.kernel);
            kernel.per_cpu.retain(|of| of.module != module.name);
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

    /// Adds a module: its file, linked to its addresses, with its code as it is in
    /// memory.
    fn load(&mut self, module: &LoadedModule) -> Result<(), String> {
        let kernel = Arc::clone(&self.kernel);
        let Some(sections) = kernel.module_sections(self, module.address) else {
            return Err(self.not_yet(module, "its sections could not be read from the guest"));
        };
        let path = self
            .files
            .find_module(&module.name)
            .ok_or("its file was not found; name its folder with --modules")?;
        let file = FileMap::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = unpack(&file).map_err(|error| format!("{}: {error}", path.display()))?;
        let debug = self.files.find_debug(&path, &module.name);
        let functions = self.kernel_functions();
        let resolve = |name: &str| functions.get(name).copied();
        let linked = link(&file, &sections, debug.as_deref(), &resolve)
            .map_err(|error| error.to_string())?;
        let first = sections.iter().map(|(_, address)| *address).min();
        let place = self.files.linked();
        let place = place.join(format!("{:x}", first.unwrap_or(0)));
        let target = place.join(format!("{}.ko", module.name));
        // The old file of this name may be mapped: it is replaced, not overwritten.
        fs::create_dir_all(&place)
            .and_then(|()| write_whole(&target, 0o600, &linked))
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
        let within = kernel.module_per_cpu(self, module.address);
        drop(kernel);
        let svma = image.section_address(".data..percpu");
        if let (Some(within), Some(svma)) = (within, svma) {
            Arc::make_mut(&mut self.kernel).per_cpu.push(PerCpu {
                module: module.name.clone(),
                within,
                svma,
            });
        }
        self.add_module(image, module.name.clone(), 0, range);
        Ok(())
    }

    /// The kernel's own functions by name, and where they are in memory.
    fn kernel_functions(&self) -> HashMap<String, u64> {
        let mut modules = self.modules.iter();
        let kernel = modules.find(|module| module.name == VMLINUX);
        let Some((image, bias)) = kernel.and_then(|it| Some((it.image.as_ref()?, it.bias))) else {
            return HashMap::new();
        };
        let functions = image.functions().as_slice().iter();
        let named = functions.filter_map(|function| {
            let name = function.name.as_deref()?.to_owned();
            Some((name, function.start.0.wrapping_add(bias)))
        });
        named.collect()
    }

    /// Why a module could not be added; it is tried again at the next walk. It was just
    /// being loaded, or no CPU had it mapped.
    fn not_yet(&mut self, module: &LoadedModule, why: &str) -> String {
        self.known_modules.retain(|known| known != module);
        why.to_owned()
    }

    pub(super) fn add_module(
        &mut self,
        image: Arc<Image>,
        name: String,
        bias: u64,
        range: Range<u64>,
    ) {
        self.unwinder.add_module(&image, bias);
        self.modules.push(Arc::new(Module {
            id: ModuleId(self.next_module),
            space: SPACE,
            name,
            bias,
            range,
            image: Some(image),
        }));
        self.next_module += 1;
    }
}
