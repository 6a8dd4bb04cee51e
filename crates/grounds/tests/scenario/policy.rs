//! Policies other than Linux's lists, in the engine: they decide the order of pages, and everything else is as with
//! Linux's lists.

use crate::choices::everything;
use crate::ground::{PAGES, Plan};
use engine::kernel::Kernel;
use engine::lru::choices::PolicyKind;
use engine::lru::policy::{Insert, Pages, Policy, Seen, Verdict, Victims, set_own};
use engine::memory::List;
use engine::page_cache::Shadow;
use machine::FrameNumber;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of pages of the policy [`Fifo`] that came back with their shadow.
static CAME_BACK: AtomicU64 = AtomicU64::new(0);

/// The shadow that the policy [`Fifo`] leaves for each page that it evicts.
const LEFT: u32 = 0x2a5a_5a5a;

/// A policy that evicts pages in the order in which they came, and leaves shadows.
#[derive(Default)]
struct Fifo {
    list: List,
}

impl<P: Pages> Policy<P> for Fifo {
    fn insert(&mut self, pages: &P, page: FrameNumber, how: Insert) {
        if let Some(shadow) = how.shadow() {
            assert_eq!(shadow, Shadow::of_bits(LEFT));
            CAME_BACK.fetch_add(1, Relaxed);
        }
        self.list.push_front(pages, page);
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        while (out.len() as u64) < want && !out.is_full() {
            let Some(page) = self.list.last() else { return };
            self.list.remove(pages, page);
            out.push(page);
        }
    }

    fn judge(&mut self, _: &P, _: FrameNumber, _: Seen) -> Verdict {
        Verdict::Reclaim
    }

    fn put_back(&mut self, pages: &P, page: FrameNumber, _: Verdict) {
        self.list.push_front(pages, page);
    }

    fn evicted(&mut self, _: &P, _: FrameNumber) -> Option<Shadow> {
        Some(Shadow::of_bits(LEFT))
    }

    fn remove(&mut self, pages: &P, page: FrameNumber) {
        self.list.remove(pages, page);
    }

    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber)) {
        self.list.iter(pages).for_each(visit);
    }
}

fn plan(policy: PolicyKind) -> Plan {
    let mut plan = Plan::default();
    plan.choices.lru.policy = policy;
    plan
}

/// Runs a mixed workload: dirty files, streams, anonymous memory, a disk that stalls, large blocks. Contents and counts
/// are verified at the end.
#[test]
fn every_policy_reclaims_files_and_anonymous_memory() {
    for policy in [PolicyKind::Lru, PolicyKind::Clock] {
        let vmstat = plan(policy).run(everything);
        assert!(vmstat["pswpout"] > 1000 && vmstat["pgsteal_kswapd_normal"] > 1000, "{policy:?}: {vmstat:?}");
        assert_eq!((vmstat["nr_inactive_anon"], vmstat["nr_active_file"]), (0, 0), "{policy:?}");
    }
}

/// A hot set of a quarter of memory is read again and again, while a file four times as large as memory is read once.
/// LRU and CLOCK keep the hot set: the device reads less than 10 % more than if it read each page of both files once.
#[test]
fn lru_and_clock_keep_what_is_used_beside_a_stream() {
    let read = |policy| {
        let vmstat = plan(policy).run(|ground| {
            let (hot, stream) = (ground.import(PAGES as u32 / 4), ground.import(4 * PAGES as u32));
            for start in (0..4 * PAGES as u32).step_by(256) {
                ground.read(&hot, 0..PAGES as u32 / 4).unwrap();
                ground.read(&stream, start..start + 256).unwrap();
            }
        });
        vmstat["pgpgin"]
    };
    // The amount in KiB if each page is read once.
    let once = 4 * (PAGES / 4 + 4 * PAGES);
    for policy in [PolicyKind::Lru, PolicyKind::Clock] {
        let read = read(policy);
        assert!(read < once * 11 / 10, "{policy:?}: {read} KiB, {once} if the hot set stays");
    }
}

#[test]
fn a_program_brings_a_policy_whose_shadows_come_back() {
    let text = "[lru]\npolicy = \"own\"\n";
    let kernel = Kernel::parse("mine", "mine.toml", text, &|_| Err(String::new())).unwrap();
    assert!(kernel.choices.check().unwrap_err().to_string().contains("has brought no policy"));
    set_own(|| Box::new(Fifo::default())).unwrap();
    assert!(set_own(|| Box::new(Fifo::default())).is_err());
    kernel.choices.check().unwrap();
    let vmstat = plan(PolicyKind::Own).run(|ground| {
        let file = ground.import(2 * PAGES as u32);
        for _ in 0..2 {
            ground.read(&file, 0..2 * PAGES as u32).unwrap();
        }
        everything(ground);
    });
    let came_back = CAME_BACK.load(Relaxed);
    let refaults = vmstat["workingset_refault_file"] + vmstat["workingset_refault_anon"];
    assert!(came_back > 0 && refaults == came_back, "{came_back}: {vmstat:?}");
}
