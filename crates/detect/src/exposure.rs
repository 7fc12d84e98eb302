//! How often each site was sampled: what a run can say about code in which it found nothing.

use redhanded_model::{ModuleId, Svma};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// How often one site was sampled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exposure {
    /// The file name of its module.
    pub module: String,
    /// Where it is in the module's file.
    pub site: Svma,
    /// How often.
    pub samples: u64,
}

/// Counts samples by site. A library that is mapped in several processes is one module.
#[derive(Debug, Default)]
pub struct Exposed {
    names: HashMap<ModuleId, String>,
    samples: HashMap<(ModuleId, Svma), u64>,
}

impl Exposed {
    /// A module has this name.
    pub fn name(&mut self, module: ModuleId, name: &str) {
        self.names.insert(module, name.to_owned());
    }

    /// A site was sampled.
    pub fn add(&mut self, module: ModuleId, site: Svma) {
        *self.samples.entry((module, site)).or_default() += 1;
    }

    /// All sites that were sampled.
    pub fn into_list(self) -> Vec<Exposure> {
        let mut by_name: BTreeMap<(String, u64), u64> = BTreeMap::new();
        for ((module, site), samples) in self.samples {
            if let Some(name) = self.names.get(&module) {
                *by_name.entry((name.clone(), site.0)).or_default() += samples;
            }
        }
        let list = by_name
            .into_iter()
            .map(|((module, site), samples)| Exposure {
                module,
                site: Svma(site),
                samples,
            });
        list.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_site_add_up_over_processes() {
        let mut exposed = Exposed::default();
        exposed.name(ModuleId(1), "lib.so");
        exposed.name(ModuleId(2), "lib.so");
        for (module, site) in [(1, 8), (2, 8), (1, 4), (3, 4)] {
            exposed.add(ModuleId(module), Svma(site));
        }
        let list = exposed.into_list();
        let list: Vec<_> = list.iter().map(|e| (e.site.0, e.samples)).collect();
        assert_eq!(list, [(4, 1), (8, 2)]);
    }
}
