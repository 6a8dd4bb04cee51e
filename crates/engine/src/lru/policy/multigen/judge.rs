//! Judgement of an isolated page by its recent use through page tables (mechanisms/multigen, 5.3).

use super::choices::{IsolatedMarks, Promotion};
use super::{Multigen, walk};
use crate::anonymous::Owners;
use crate::lru::Lru;
use crate::lru::policy::Verdict;
use crate::memory::Flags;
use machine::{FrameNumber, Machine};

impl<M: Machine> Lru<M> {
    /// Judges an isolated page by its uses through page tables since the last judgement. Mappings with advice of
    /// sequential or random access do not count (mechanisms/multigen, 8.6). Uses through the file do not count here:
    /// they had their effect earlier, through the page's tier. `is_kswapd` is `true` if kswapd judges.
    pub(in crate::lru) fn judge_in_generations(
        &self,
        multigen: &Multigen,
        frame: FrameNumber,
        is_kswapd: bool,
        owners: &mut Owners<M>,
    ) -> Verdict {
        let descriptor = &self.frames[frame];
        match multigen.choices.isolated_marks {
            // A walk or a look around that found the page used after it was isolated has left this mark.
            IsolatedMarks::FirstTaken if descriptor.mappings() > 0 && descriptor.is(Flags::REFERENCED) => {
                return Verdict::Keep;
            }
            IsolatedMarks::FirstTaken | IsolatedMarks::Kept => {}
        }
        if descriptor.mappings() == 0 || self.anonymous().page_referenced(frame, owners).recent == 0 {
            return Verdict::Reclaim;
        }
        self.look_around(multigen, frame, is_kswapd, owners);
        match multigen.choices.promotion {
            Promotion::FirstSighting => Verdict::Activate,
            Promotion::SecondSighting => {
                let seen = |flags| walk::is_first_sighting(flags).then(|| flags.with(Flags::REFERENCED));
                if descriptor.update(seen).is_ok() {
                    return Verdict::Keep;
                }
                descriptor.set(Flags::WORKINGSET);
                Verdict::Activate
            }
        }
    }
}
