//! The effect that a use of a page through its file has on the page's flags, under the classic policy. Without
//! `Activation::AtScan`, an inactive page becomes referenced by the first use. The second use makes it active and
//! clears the referenced flag; the third sets this flag again.

use crate::lru::Lru;
use crate::memory::Flags;
use machine::{FrameNumber, Machine};

impl<M: Machine> Lru<M> {
    /// Notes a use of a page. `flags` are the flags that the page had before this use.
    pub(in crate::lru) fn note_classic_use(&self, frame: FrameNumber, flags: Flags) {
        let descriptor = &self.frames[frame];
        if !flags.has(Flags::REFERENCED) {
            descriptor.set(Flags::REFERENCED);
        } else if self.choices.activation.is_at_scan() {
            descriptor.set(Flags::USED_AGAIN);
        } else if !flags.has(Flags::ACTIVE) {
            if flags.has(Flags::LRU) {
                self.activate(frame);
                descriptor.clear(Flags::REFERENCED);
                self.age_by_activation(frame);
            } else if self.is_waiting(frame) {
                descriptor.set(Flags::ACTIVE);
                descriptor.clear(Flags::REFERENCED);
            } else if self.choices.accessed_in_batch.is_obeyed() {
                if self.is_in_local_batch(frame) {
                    descriptor.set(Flags::ACTIVE);
                }
                descriptor.clear(Flags::REFERENCED);
                self.age_by_activation(frame);
            }
        }
    }

    /// Advances the nonresident age (`nonresident_age`) of the lruvec of a page, because the page was inactive and has
    /// become active.
    #[doc(alias = "workingset_activation")]
    fn age_by_activation(&self, frame: FrameNumber) {
        if self.has_refaults() {
            self.age_nonresident(self.lruvec_of_page(frame), self.frames.pages(frame));
        }
    }
}
