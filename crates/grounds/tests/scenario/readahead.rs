//! Readahead: which pages a read brings in beside the wanted ones.

use crate::ground::Plan;
use engine::access::choices::ReadaheadHistory::{self, Contiguous, Ignored};
use engine::page_cache::ReadPattern;
use engine::{ReadState, Task};
use machine::PAGE_BYTES;

/// Returns the pages of a file that are in memory after reads of one page each at `pages`, each by a reader of its own.
fn cached(history: ReadaheadHistory, pattern: ReadPattern, pages: &'static [u32]) -> Vec<u32> {
    let found = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let result = found.clone();
    let mut plan = Plan::default();
    plan.choices.access.readahead_history = history;
    plan.run(move |ground| {
        let file = ground.create();
        ground.write(&file, 0..400).unwrap();
        ground.fsync(&file).unwrap();
        ground.engine.access().drop_caches();
        for page in pages {
            let (mut state, mut task, mut bytes) = (ReadState::default(), Task::user(), [0; PAGE_BYTES]);
            state.pattern = pattern;
            let offset = u64::from(*page) * PAGE_BYTES as u64;
            ground.engine.access().read(&mut task, &file, &mut state, offset, &mut bytes).unwrap();
        }
        *result.borrow_mut() = (0..400).filter(|page| file.index.get(*page).is_some()).collect();
    });
    found.take()
}

/// Three readers read pages 100, 101 and 102. The fourth has read nothing before, and reads page 103: three pages before
/// it are in memory, so that it reads three more pages ahead. The pages of a random reader are read alone.
#[test]
fn pages_in_memory_before_the_wanted_one_are_taken_for_a_stream() {
    let normal = ReadPattern::Normal;
    assert_eq!(cached(Ignored, normal, &[100, 101, 102, 103]), [100, 101, 102, 103]);
    // Page 101 has one page before it, which is not more than is wanted; page 102 has two.
    assert_eq!(cached(Contiguous, normal, &[100, 101]), [100, 101]);
    assert_eq!(cached(Contiguous, normal, &[100, 101, 102]), [100, 101, 102, 103, 104]);
    assert_eq!(cached(Contiguous, ReadPattern::Random, &[100, 101, 102]), [100, 101, 102]);
    assert_eq!(cached(Contiguous, normal, &[100, 200, 300]), [100, 200, 300]);
}

/// A reader has read the first pages of a file, and the next reader goes on where memory ends. The run reaches the
/// beginning of the file, so that twice as many pages are read ahead, but no more than the largest window has.
#[test]
fn a_run_from_the_beginning_of_the_file_counts_twice_up_to_the_largest_window() {
    let first = cached(Contiguous, ReadPattern::Normal, &[0]);
    assert_eq!(first, (0..4).collect::<Vec<_>>(), "the first window");
    let second = cached(Contiguous, ReadPattern::Normal, &[0, 4]);
    assert_eq!(second, (0..4 + 2 * 4 + 1).collect::<Vec<_>>());
    let third = cached(Contiguous, ReadPattern::Normal, &[0, 4, 13]);
    assert_eq!(third, (0..13 + 27).collect::<Vec<_>>());
    let fourth = cached(Contiguous, ReadPattern::Normal, &[0, 4, 13, 40]);
    assert_eq!(fourth, (0..40 + 32).collect::<Vec<_>>());
}
