//! Read sections of Linux that are guarded by a sequence counter (seqlock).
//!
//! A reader of such data may read while another task writes. It sees this from the counter
//! and reads again, so its accesses collide with the writer's by design. Such a section is
//! recognised by its begin and end functions, inlined on both sides of the access.

use crate::Image;
use redhanded_model::Svma;

/// Parts of the names of functions that begin and end a section. Since Linux 5.9 most of
/// what sources call are macros, and only the functions that load the counter are inlined.
const SECTIONS: [(&[&str], &[&str]); 2] = [
    (
        &[
            "read_seqbegin",
            "read_seqcount_begin",
            "read_seqcount_latch",
            "raw_read_seqcount",
            "raw_seqcount_begin",
            "__seqprop_sequence",
            "__seqprop_raw_spinlock_sequence",
            "__seqprop_spinlock_sequence",
            "__seqprop_rwlock_sequence",
            "__seqprop_mutex_sequence",
            "__seqprop_ww_mutex_sequence",
            "__scoped_seqlock_next",
        ],
        &[
            "read_seqretry",
            "need_seqretry",
            "read_seqcount_retry",
            "read_seqcount_latch_retry",
            "__scoped_seqlock_next",
        ],
    ),
    (
        &[
            "write_seqlock",
            "write_seqcount_begin",
            "write_seqcount_latch",
        ],
        &[
            "write_sequnlock",
            "write_seqcount_end",
            "write_seqcount_latch",
        ],
    ),
];

impl Image {
    /// Whether the access at `svma` is in a read section of a sequence counter.
    #[must_use]
    pub fn in_sequence_section(&self, svma: Svma) -> bool {
        if !self.is_kernel() {
            return false;
        }
        let Some(function) = self.function_at(svma) else {
            return false;
        };
        let (mut begun, mut ended) = ([false; 2], [false; 2]);
        for instruction in self.instructions(function) {
            let at = instruction.ip();
            for frame in self.debug().frames(Svma(at)) {
                let Some(name) = frame.function.filter(|_| frame.inlined) else {
                    continue;
                };
                for (kind, (begin, end)) in SECTIONS.iter().enumerate() {
                    let is = |names: &[&str]| names.iter().any(|one| name.contains(one));
                    begun[kind] |= at < svma.0 && is(begin);
                    ended[kind] |= at > svma.0 && is(end);
                }
            }
        }
        begun
            .into_iter()
            .zip(ended)
            .any(|(begun, ended)| begun && ended)
    }
}
