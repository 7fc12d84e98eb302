//! Which code runs, sampled now and then while the machine is stopped anyway: the
//! functions that the CPUs are in, and those they will return to. Most of a kernel
//! does not run at a given time, and only few sites can be armed at once.

use super::memory::BlockCache;
use super::modules::WALK_EVERY;
use super::{Answer, GuestMachine, Request, USER_END};
use redhanded_model::Avma;
use std::time::Duration;

/// How often.
const EVERY: Duration = Duration::from_millis(20);
/// How much of a stack is searched for return addresses.
const STACK: usize = 768;

/// What has to be read for a profile; nothing if none is due.
#[derive(Default)]
pub(super) struct Profile {
    requests: Vec<Request>,
    /// The pc and the top of the stack of each CPU that is in the kernel.
    pcs: Vec<u64>,
    stacks: Vec<u64>,
}

impl Profile {
    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }
}

impl GuestMachine {
    /// A profile, if one is due and the registers of all CPUs are known.
    pub(super) fn due_profile(&mut self) -> Profile {
        let now = self.started.elapsed();
        if now < self.next_profile || !self.unread_registers().is_empty() {
            return Profile::default();
        }
        // While nothing is armed only new modules are of interest.
        let idle = self.breakpoints.is_empty() && self.inserted.is_empty();
        self.next_profile = now + if idle { WALK_EVERY } else { EVERY };
        let in_kernel = self.vcpus.values().filter(|vcpu| vcpu.has_kernel_mapped());
        let (pcs, stacks): (Vec<u64>, Vec<u64>) = in_kernel
            .filter_map(|vcpu| vcpu.registers)
            .map(|registers| {
                (
                    registers.general.rip,
                    registers.general.stack_pointer() & !7,
                )
            })
            .unzip();
        let mut ranges: Vec<(u64, usize)> = stacks.iter().map(|top| (*top, STACK)).collect();
        ranges.extend(self.kernel.module_list());
        Profile {
            requests: BlockCache::default().requests(self.kernel_view(), &ranges),
            pcs,
            stacks,
        }
    }

    /// Evaluates what was read for a profile.
    pub(super) fn profiled(&mut self, profile: &Profile, answers: Vec<Answer>) {
        if profile.requests.is_empty() {
            return;
        }
        let mut read = BlockCache::default();
        read.store(&profile.requests, answers, true);
        for pc in &profile.pcs {
            self.note_running(*pc);
        }
        for top in &profile.stacks {
            let stack = read.known(*top, STACK);
            for word in stack.as_chunks::<8>().0 {
                self.note_running(u64::from_le_bytes(*word));
            }
        }
        if let Some((at, len)) = self.kernel.module_list() {
            let head = read.known(at, len);
            self.must_walk |= self.list_head.as_ref() != Some(&head);
        }
    }

    /// Profiles and checks the modules, if that is due.
    pub(super) fn observe(&mut self) {
        let now = self.started.elapsed();
        if now < self.next_profile && !self.must_walk && now < self.next_walk {
            return;
        }
        self.fetch_registers(None);
        self.update_modules();
        let profile = self.due_profile();
        // No CPU has to wait for the evaluation.
        let answers = if self.pending.is_empty() {
            self.ask_then_resume(profile.requests())
        } else {
            self.ask(profile.requests())
        };
        self.profiled(&profile, answers.unwrap_or_default());
    }

    /// Notes the function at an address, if there is one.
    fn note_running(&mut self, address: u64) {
        if address < USER_END {
            return;
        }
        let Some(module) = self.module_at(Avma(address)) else {
            return;
        };
        let Some(image) = &module.image else { return };
        let Some(function) = image.function_at(module.svma(Avma(address))) else {
            return;
        };
        let range = module.avma(function.start).0..module.avma(function.end).0;
        if !self.running_code.contains(&range) {
            self.running_code.push(range);
        }
    }
}
