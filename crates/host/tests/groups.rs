//! Tests of memory control groups in the library: pages are charged to the group of their file or region, limits and
//! protection hold, and nothing is lost.

mod common;

use common::gate::{Gate, Gated};
use common::pages::{Chance, PAGE, page};
use common::{builder, folder, memory};
use highwater::{Advice, Builder, Error, File, Group, GroupError, Memory, OpenOptions, PageRead};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Number of bytes that all CPUs of a memory with two shards may have charged in advance.
const STOCKS: u64 = 2 * 64 * PAGE;

fn with_groups(count: u16) -> Memory {
    builder().shards(2).groups(count).start().expect("8 MiB are there")
}

/// Creates a file whose pages are the first version of `pages` pages.
fn write_file(path: &Path, pages: u64) {
    std::fs::write(path, (0..pages).flat_map(|number| page(number, 1)).collect::<Vec<u8>>())
        .expect("the disk has room");
}

fn open(memory: &Memory, group: &Group, path: &Path) -> File {
    OpenOptions::new().write(true).create(true).group(group).open(memory, path).expect("it is there")
}

/// Reads all pages of a file, and checks that they have the contents of version `version`. Reads even pages by copy,
/// and odd pages in place.
fn check(file: &File, pages: u64, version: u64) {
    let mut bytes = vec![0; PAGE as usize];
    for number in 0..pages {
        if number % 2 == 0 {
            file.read_exact_at(&mut bytes, number * PAGE).expect("memory can be freed");
            assert!(bytes == page(number, version), "page {number}");
        } else {
            assert!(file.page(number).expect("memory can be freed")[..] == page(number, version)[..], "page {number}");
        }
    }
}

fn kind_of<T>(result: Result<T, Error>) -> Option<GroupError> {
    match result {
        Err(Error::Group { kind, .. }) => Some(kind),
        _ => None,
    }
}

#[test]
fn without_room_there_are_no_groups() {
    let error = memory().group("cache").unwrap_err();
    assert_eq!(error.to_string(), "group cache: the memory was started without room for groups (`groups`)");
    assert_eq!(kind_of(memory().group("cache")), Some(GroupError::NoRoom { room: 0 }));
}

#[test]
fn groups_have_names_and_a_tree() {
    let memory = with_groups(3);
    for name in ["", "a/b", "/"] {
        assert_eq!(kind_of(memory.group(name)), Some(GroupError::Name));
    }
    let a = memory.group("a").unwrap();
    let b = a.group("b").unwrap();
    assert_eq!((a.name(), b.name(), memory.group("a").unwrap().group("b").unwrap().name()), ("a", "a/b", "a/b"));
    let own_b = memory.group("b").unwrap();
    assert_eq!(kind_of(memory.group("c")), Some(GroupError::NoRoom { room: 3 }));
    assert_eq!(a.remove().unwrap_err().to_string(), "group a: it has children: remove them first");
    let region = b.anonymous(PAGE).unwrap();
    region.write_at(b"charged", 0).unwrap();
    assert!(b.usage() > 0 && a.usage() == b.usage() && own_b.usage() == 0, "{} {}", a.usage(), b.usage());
    drop(region);
    b.remove().unwrap();
    a.remove().unwrap();
    for result in
        [a.remove(), a.set_max(PAGE), a.group("b").map(drop), a.anonymous(PAGE).map(drop), a.reclaim(1).map(drop)]
    {
        assert_eq!(kind_of(result), Some(GroupError::Removed));
    }
    memory.check().unwrap();
}

#[test]
fn a_file_belongs_to_the_group_of_its_first_handle() {
    let (folder, memory, other) = (folder(), with_groups(2), with_groups(1));
    let path = folder.path().join("data");
    write_file(&path, 10);
    let [a, b] = ["a", "b"].map(|name| memory.group(name).unwrap());
    let file = open(&memory, &a, &path);
    let again = memory.open(&path).unwrap();
    check(&again, 10, 1);
    assert!(a.usage() >= 10 * PAGE && b.usage() == 0);
    let in_b = OpenOptions::new().group(&b);
    assert_eq!(kind_of(in_b.open(&memory, &path)), Some(GroupError::OtherGroup));
    drop((file, again));
    drop(in_b.open(&memory, &path).expect("the last handle is dropped"));
    assert_eq!(kind_of(in_b.open(&other, &path)), Some(GroupError::OtherMemory));
    b.remove().unwrap();
    let error = in_b.open(&memory, &path).unwrap_err();
    assert_eq!(error.to_string(), format!("group of {}: it was removed", path.display()));
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput);
}

/// A group of 1 MiB reads a file of 6 MiB, writes it anew and syncs it. A group of 512 KiB does the same with a region
/// and swap. No page is lost, and neither group ever exceeds its limit.
#[test]
fn max_holds_and_nothing_is_lost() {
    stay_below_max(builder());
}

/// The multi-generational LRU reclaims for two groups that use more pages than their limits. No page is lost, and
/// neither group ever exceeds its limit.
#[test]
fn max_holds_with_generations() {
    stay_below_max(builder().kernel("7.2-mglru"));
}

fn stay_below_max(builder: Builder) {
    const PAGES: u64 = 1536;
    let folder = folder();
    let memory = builder.shards(2).groups(2).swap(16 << 20).swap_folder(folder.path()).start().unwrap();
    let path = folder.path().join("data");
    write_file(&path, PAGES);
    let [files, heaps] = ["files", "heaps"].map(|name| memory.group(name).unwrap());
    files.set_max(1 << 20).unwrap();
    heaps.set_max(512 << 10).unwrap();
    let file = open(&memory, &files, &path);
    check(&file, PAGES, 1);
    for number in 0..PAGES {
        if number % 2 == 0 {
            file.write_all_at(&page(number, 2), number * PAGE).unwrap();
        } else {
            file.page_mut(number).unwrap().copy_from_slice(&page(number, 2));
        }
        assert!(files.usage() <= 1 << 20);
    }
    file.sync_data().unwrap();
    check(&file, PAGES, 2);
    let heap = heaps.anonymous(PAGES * PAGE).unwrap();
    (0..PAGES).for_each(|number| heap.write_at(&page(number, 3), number * PAGE).unwrap());
    assert!((0..PAGES).all(|number| heap.page(number).unwrap()[..] == page(number, 3)[..]));
    assert!(files.peak() <= 1 << 20 && heaps.peak() <= 512 << 10, "{} {}", files.peak(), heaps.peak());
    assert!(files.usage() > 256 << 10 && heaps.swap_usage() >= (PAGES - 128) * PAGE);
    assert!(files.events()["max"] > 0 && files.stat()["pgsteal"] > 0 && files.events()["oom"] == 0);
    assert!(memory.vmstat().get("nr_free_pages") > 300, "memory itself was never short");
    drop(heap);
    assert!(heaps.usage() <= STOCKS && heaps.swap_usage() == 0, "{}", heaps.usage());
    memory.check().unwrap();
}

/// A file of 400 pages is in a group whose `min` protects them. It stays in memory while a file of another group,
/// larger than memory, is read.
#[test]
fn a_protected_file_keeps_its_pages() {
    let (folder, memory) = (folder(), with_groups(2));
    let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
    let (kept, pages) = (400, 8192);
    write_file(&own, kept);
    write_file(&other, pages);
    let [tables, backup] = ["tables", "backup"].map(|name| memory.group(name).unwrap());
    tables.set_min(kept * PAGE + STOCKS).unwrap();
    let [own, other] = [open(&memory, &tables, &own), open(&memory, &backup, &other)];
    check(&own, kept, 1);
    check(&other, pages, 1);
    assert!(backup.usage() > 2 << 20 && memory.vmstat().get("pgsteal_kswapd_normal") > 0, "memory was never short");
    let read = memory.vmstat().get("pgpgin");
    check(&own, kept, 1);
    assert_eq!(memory.vmstat().get("pgpgin"), read, "a protected page was read again");
    tables.set_min(0).unwrap();
    check(&other, pages, 1);
    check(&other, pages, 1);
    let read = memory.vmstat().get("pgpgin");
    check(&own, kept, 1);
    assert!(memory.vmstat().get("pgpgin") > read, "without protection, pages are reclaimed");
    memory.check().unwrap();
}

/// A memory has room for two groups, a parent and its child, and the child is removed. The child's pages stay charged
/// to it until they are freed; only then is there room for a new group. Pages that are read later from the child's file
/// are charged to the parent.
#[test]
fn a_removed_group_keeps_its_pages_and_its_file_goes_to_the_parent() {
    let (folder, memory) = (folder(), with_groups(2));
    let path = folder.path().join("data");
    write_file(&path, 200);
    let parent = memory.group("parent").unwrap();
    let child = parent.group("child").unwrap();
    let file = open(&memory, &child, &path);
    check(&file, 100, 1);
    child.remove().unwrap();
    assert!(child.usage() >= 100 * PAGE, "{}", child.usage());
    assert_eq!(kind_of(parent.group("next")), Some(GroupError::NoRoom { room: 2 }));
    let before = child.usage();
    check(&file, 200, 1);
    assert!(child.usage() == before && parent.usage() >= 200 * PAGE, "{} {}", child.usage(), parent.usage());
    memory.check().unwrap();
    assert!(memory.drop_caches() >= 200);
    let next = parent.group("next").expect("the place is free");
    assert_eq!((child.usage(), next.usage()), (0, 0), "the number belongs to another group");
    check(&file, 200, 1);
    assert_eq!(next.usage(), 0);
    memory.check().unwrap();
}

/// Pages that are pinned cannot be freed: at the limit, the next page is refused, and the error names the group.
#[test]
fn a_full_group_is_named_and_other_groups_go_on() {
    let (folder, memory) = (folder(), with_groups(3));
    let path = folder.path().join("data");
    write_file(&path, 200);
    let outer = memory.group("outer").unwrap();
    let [full, free] = ["full", "free"].map(|name| outer.group(name).unwrap());
    full.set_max(64 * PAGE).unwrap();
    let file = open(&memory, &full, &path);
    let mut guards: Vec<PageRead<'_>> = Vec::new();
    let error = (0..200).find_map(|number| file.page(number).map(|guard| guards.push(guard)).err()).unwrap();
    let words = format!("group outer/full is full: nothing can be freed of its {} bytes (max)", 64 * PAGE);
    assert_eq!((error.to_string(), guards.len()), (words, 64));
    assert!(matches!(error, Error::OutOfMemory { .. }) && full.events()["oom"] > 0);
    let heap = free.anonymous(1 << 20).unwrap();
    heap.write_at(&[7; 1 << 20], 0).unwrap();
    drop(guards);
    check(&file, 200, 1);
    outer.set_max(1 << 20).unwrap();
    let error =
        heap.page_mut(0).map(drop).and_then(|()| free.anonymous(2 << 20)?.write_at(&[1; 2 << 20], 0)).unwrap_err();
    assert!(error.to_string().starts_with("group outer is full"), "{error}");
    drop(file);
    memory.check().unwrap();
}

/// Anonymous memory without swap cannot be reclaimed, so writers above `high` sleep.
#[test]
fn threads_are_throttled_above_high() {
    let memory = with_groups(1);
    let heaps = memory.group("heaps").unwrap();
    heaps.set_high(1 << 20).unwrap();
    let heap = heaps.anonymous(2 << 20).unwrap();
    let began = Instant::now();
    heap.write_at(&[1; 700 << 10], 0).unwrap();
    assert_eq!(heaps.pressure().some.total_us, 0);
    for number in 175..270 {
        heap.page_mut(number).unwrap()[0] = 1;
    }
    let (took, pressure) = (began.elapsed(), heaps.pressure());
    assert!(heaps.events()["high"] > 0 && took > Duration::from_millis(50), "{took:?}");
    assert!(pressure.some.total_us > 50_000 && memory.pressure().some.total_us >= pressure.some.total_us, "{pressure}");
    heaps.set_high(None).unwrap();
    heap.write_at(&vec![2; 2 << 20], 0).unwrap();
}

/// A thread that pins pages beyond the `high` of a group does not sleep in the call that pins a page. It sleeps at its
/// next miss, even if this miss is charged to another group.
#[test]
fn a_thread_pays_for_pinned_pages_at_its_next_call() {
    let (folder, memory) = (folder(), with_groups(2));
    let [path, other] = ["data", "other"].map(|name| folder.path().join(name));
    write_file(&path, 300);
    write_file(&other, 1);
    let [tables, others] = ["tables", "others"].map(|name| memory.group(name).unwrap());
    let [file, other] = [open(&memory, &tables, &path), open(&memory, &others, &other)];
    file.advise(0..0, Advice::Random);
    let _guards: Vec<_> = (0..150).map(|number| file.page(number).unwrap()).collect();
    tables.set_high(100 * PAGE).unwrap();
    let (mut held, mut longest) = (Vec::new(), Duration::ZERO);
    // The stocks have up to 128 pages, for which nobody pays.
    for number in 150..300 {
        let began = Instant::now();
        held.push(file.page(number).unwrap());
        longest = longest.max(began.elapsed());
    }
    let began = Instant::now();
    other.page(0).map(drop).unwrap();
    longest = longest.max(began.elapsed());
    assert!(longest > Duration::from_millis(100), "nobody was throttled: {longest:?}");
    assert!((150..).zip(&held).all(|(number, guard)| guard[..] == page(number, 1)[..]));
    assert_eq!(others.events()["high"], 0);
    assert_eq!(others.pressure().some.total_us, 0, "the thread paid in its former group");
    assert!(tables.pressure().some.total_us > 100_000 && tables.events()["high"] > 0);
}

#[test]
fn reclaim_on_demand_frees_what_was_asked_for() {
    let (folder, memory) = (folder(), with_groups(1));
    let path = folder.path().join("data");
    write_file(&path, 1000);
    let cache = memory.group("cache").unwrap();
    let file = open(&memory, &cache, &path);
    check(&file, 1000, 1);
    let (before, freed) = (cache.usage(), cache.reclaim(1 << 20).unwrap());
    assert!(freed >= 1 << 20 && cache.usage() <= before - (1 << 20), "{freed} of {before}");
    cache.set_max(100 * PAGE).unwrap();
    assert!(cache.usage() <= 100 * PAGE, "{}", cache.usage());
    check(&file, 1000, 1);
    assert!(cache.peak() <= before + STOCKS);
}

/// Six threads each use two files and a region, which belong to three groups with different limits. A seventh thread
/// makes and removes groups with a file. All bytes must be as written. When all files and regions are dropped, each
/// group must be charged for its per-CPU stocks at most.
#[test]
fn threads_use_files_of_different_groups() {
    use_different_groups(builder());
}

/// Threads use files and regions of different groups with the multi-generational LRU.
#[test]
fn threads_use_files_of_different_groups_with_generations() {
    use_different_groups(builder().kernel("7.2-mglru"));
}

fn use_different_groups(builder: Builder) {
    const PAGES: u64 = 600;
    let folder = folder();
    let memory = builder.shards(2).groups(6).swap(16 << 20).swap_folder(folder.path()).start().unwrap();
    let outer = memory.group("outer").unwrap();
    let groups = [outer.group("a").unwrap(), outer.group("b").unwrap(), memory.group("c").unwrap()];
    outer.set_max(3 << 20).unwrap();
    groups[0].set_max(1 << 20).unwrap();
    groups[1].set_high(1 << 20).unwrap();
    groups[2].set_low(1 << 20).unwrap();
    let end = Instant::now() + Duration::from_secs(common::pages::soak_seconds(2));
    thread::scope(|scope| {
        for n in 0..6 {
            let (memory, groups, folder) = (&memory, &groups, folder.path());
            scope.spawn(move || {
                let files = [0, 1].map(|k| open(memory, &groups[(n + k) % 3], &folder.join(format!("{n} {k}"))));
                let region = groups[n % 3].anonymous(PAGES * PAGE).unwrap();
                let mut versions = vec![[0; 3]; PAGES as usize];
                files.iter().for_each(|file| file.set_len(PAGES * PAGE).unwrap());
                let (mut chance, mut version) = (Chance(n as u64 + 1), 0);
                while Instant::now() < end {
                    version += 1;
                    let (number, which) = (chance.below(PAGES), chance.below(3) as usize);
                    let known = &mut versions[number as usize][which];
                    let action = chance.below(3);
                    match (action, files.get(which)) {
                        (0, Some(file)) => file.write_all_at(&page(number, version), number * PAGE).unwrap(),
                        (0, None) => region.write_at(&page(number, version), number * PAGE).unwrap(),
                        (1, Some(file)) => file.page_mut(number).unwrap().copy_from_slice(&page(number, version)),
                        (1, None) => region.page_mut(number).unwrap().copy_from_slice(&page(number, version)),
                        (_, Some(file)) => assert!(file.page(number).unwrap()[..] == page(number, *known)[..]),
                        (_, None) => assert!(region.page(number).unwrap()[..] == page(number, *known)[..]),
                    }
                    if action < 2 {
                        *known = version;
                    }
                    if version % 500 == 0 {
                        files[0].sync_data().unwrap();
                    }
                }
            });
        }
        let (memory, outer, folder) = (&memory, &outer, folder.path());
        scope.spawn(move || {
            let path = folder.join("short");
            write_file(&path, 50);
            while Instant::now() < end {
                let Ok(group) = outer.group("short") else { continue };
                group.set_max(20 * PAGE).unwrap();
                let file = open(memory, &group, &path);
                check(&file, 50, 1);
                assert!(group.peak() <= 20 * PAGE);
                group.remove().unwrap();
                check(&file, 50, 1);
            }
        });
    });
    assert!(outer.peak() <= 3 << 20 && groups[0].peak() <= 1 << 20);
    memory.check().unwrap();
    // All files and regions are dropped. Pages of regions that were being swapped out then are still charged.
    groups.iter().for_each(|group| _ = group.reclaim(1 << 20).unwrap());
    assert!(groups.iter().all(|group| group.usage() <= STOCKS));
    for group in groups.iter().chain([&outer]) {
        group.remove().unwrap();
        assert_eq!(group.usage(), 0, "{group:?} {:?}", group.stat());
    }
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

/// Pages of two groups lie side by side in swap. One group is removed while a thread of the other reads its own pages,
/// so swap readahead also brings in pages of the removed group. A new group with another parent then gets the removed
/// group's number. In the end, no page is counted for the wrong parent.
#[test]
fn a_group_goes_while_others_read_its_pages_ahead() {
    const PAGES: u64 = 64;
    let folder = folder();
    let memory = builder().shards(2).groups(4).swap(16 << 20).swap_folder(folder.path()).start().unwrap();
    let parents = ["even", "odd"].map(|name| memory.group(name).unwrap());
    let reader = memory.group("reader").unwrap();
    let end = Instant::now() + Duration::from_secs(common::pages::soak_seconds(2));
    let mut rounds = 0;
    while Instant::now() < end {
        let (parent, other) = (&parents[rounds % 2], &parents[(rounds + 1) % 2]);
        rounds += 1;
        let group = parent.group("short").unwrap();
        let regions = [group.anonymous(PAGES * PAGE).unwrap(), reader.anonymous(PAGES * PAGE).unwrap()];
        // The pages of both regions lie in swap side by side.
        for number in 0..PAGES {
            regions.iter().for_each(|region| region.write_at(&page(number, 1), number * PAGE).unwrap());
        }
        _ = memory.group("reader").unwrap().reclaim(PAGES * PAGE).unwrap();
        _ = group.reclaim(PAGES * PAGE).unwrap();
        let [short, long] = regions;
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..PAGES {
                    assert!(long.page(number).unwrap()[..] == page(number, 1)[..], "page {number}");
                }
            });
            drop(short);
            group.remove().unwrap();
            // This has the number of the removed group as soon as the last page of that group is freed.
            if let Ok(next) = other.group("next") {
                drop(next.anonymous(PAGES * PAGE).unwrap());
                next.remove().unwrap();
            }
        });
        drop(long);
    }
    memory.check().unwrap();
    for group in parents.iter().chain([&reader]) {
        _ = group.reclaim(1 << 20);
        group.remove().unwrap();
        assert_eq!((group.usage(), group.swap_usage()), (0, 0), "{group:?} after {rounds} rounds: {:?}", group.stat());
    }
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

/// The disk writes nothing for a while. Writers of a group at its limit wait for it; they do not fail.
#[test]
fn a_group_full_of_dirty_pages_waits_for_the_disk() {
    const PAGES: u64 = 400;
    let (folder, gate) = (folder(), Arc::new(Gate::default()));
    let (behind, (at_gate, reached)) = (gate.clone(), mpsc::channel());
    let memory = builder()
        .shards(2)
        .groups(1)
        .behind(move |inner| Arc::new(Gated::new(inner, &behind, &at_gate)))
        .start()
        .unwrap();
    let logs = memory.group("logs").unwrap();
    logs.set_max(100 * PAGE).unwrap();
    let log = open(&memory, &logs, &folder.path().join("log"));
    thread::scope(|scope| {
        scope.spawn(|| (0..PAGES).for_each(|number| log.write_all_at(&page(number, 1), number * PAGE).unwrap()));
        reached.recv().expect("writeback begins at the limit");
        thread::sleep(Duration::from_secs(1));
        gate.open();
    });
    log.sync_data().unwrap();
    check(&log, PAGES, 1);
    assert!(logs.peak() <= 100 * PAGE);
}
