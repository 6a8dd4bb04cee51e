//! Sent data takes memory until the other side has received it.

use crate::ground::{PAGES, Plan};
use engine::slab::choices::SlabOrder;
use engine::{Error, Task};

/// Number of data bytes in one packet.
const SEGMENT: u64 = 1448;

fn plan() -> Plan {
    let mut plan = Plan { cpus: 8, swap_slots: 0, ..Plan::default() };
    plan.choices.slab.order = SlabOrder::Slub;
    plan
}

/// A packet takes half a page in a slab of order 3, which cannot be reclaimed. When the packets are acknowledged, few
/// slabs stay.
#[test]
fn what_was_sent_lies_in_slabs_until_it_is_acknowledged() {
    let vmstat = plan().run(|ground| {
        let slabs = &ground.engine.slab().socket_buffers;
        assert_eq!(slabs.order().0, 3);
        let slab_pages = || ground.count("nr_slab_unreclaimable");
        let before = slab_pages();
        let send = |bytes| ground.engine.access().send(&mut Task::user(), bytes).unwrap();
        let (one, many, none) = (send(1), send(800 * SEGMENT), send(0));
        let held = slab_pages() - before;
        assert_eq!(held, 51 * 8, "16 packets to a block of eight pages: 801 take 51");
        ground.engine.access().acknowledge(one);
        ground.engine.access().acknowledge(none);
        assert_eq!(slab_pages() - before, held, "others are in the slab");
        ground.engine.access().acknowledge(many);
        let kept = slabs.idle_pages();
        assert_eq!(slab_pages() - before, kept);
        assert!(kept <= 7 * 8, "{kept} pages are kept");
    });
    assert_eq!(vmstat["alloc_high_order_slow"], 0);
}

/// Sending more data than memory holds fails with an error. The failed call keeps no memory.
#[test]
fn what_does_not_fit_is_not_sent() {
    plan().run(|ground| {
        let before = ground.count("nr_slab_unreclaimable");
        let mut task = Task::user();
        let error = ground.engine.access().send(&mut task, 2 * PAGES * 2 * SEGMENT).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        let slabs = &ground.engine.slab().socket_buffers;
        assert_eq!(ground.count("nr_slab_unreclaimable") - before, slabs.idle_pages());
        let sent = ground.engine.access().send(&mut task, PAGES / 2 * SEGMENT).unwrap();
        ground.engine.access().acknowledge(sent);
    });
}
