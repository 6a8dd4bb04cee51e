//! The contract that every ground keeps, as a suite of tests.
//!
//! The tests of a ground run each check of [`suite`] as the main task of a system of its own. This system has at least
//! 2 MiB of memory, twice as much room for files, and as much swap as memory. A check panics if the ground breaks a
//! promise of [`System`]. The simulator keeps only a part of the contents of pages, so only this part is checked there.

use super::contents::{Kept, Pattern};
use super::{MapMode, Pressure, Sharing, System, SystemError, page_bytes};
use machine::{Nanos, PAGE_BYTES};
use std::sync::atomic::Ordering::SeqCst;

/// A check: its name and its function.
pub type Check<S> = (&'static str, fn(&S) -> Result<(), SystemError>);

/// Returns all checks of the suite.
#[must_use]
pub fn suite<S: System>() -> Vec<Check<S>> {
    vec![
        ("time goes on", time_goes_on),
        ("a task returns what it found", a_task_returns_what_it_found),
        ("a task that is told to end can end", a_task_that_is_told_to_end_can_end),
        ("a process that is forked has a copy of memory", a_forked_process_has_a_copy),
        ("chance follows from seed and stream", chance_follows_from_seed_and_stream),
        ("files are found by name", files_are_found_by_name),
        ("files hold what was written, in any pieces", files_hold_what_was_written),
        ("pages of a file are read in place", pages_are_read_in_place),
        ("a read that was started can be waited for", started_reads_are_reads),
        ("a file is as long as it was made", a_file_is_as_long_as_it_was_made),
        ("a mapping of a file is the file", a_mapping_of_a_file_is_the_file),
        ("regions begin empty and hold what was stored", regions_hold_what_was_stored),
        ("a touch changes at most the last byte of a page and may fault", a_touch_changes_at_most_the_last_byte),
        ("pressure is reported in order", pressure_is_reported_in_order),
        ("a file larger than memory is read by several tasks", a_file_larger_than_memory),
        ("a region larger than memory comes back from swap", a_region_larger_than_memory),
    ]
}

/// Returns the number of pages in the largest file and in the largest region that checks use: twice memory, but at most
/// what fits on an ordinary disk.
fn large<S: System>(system: &S) -> u32 {
    (2 * system.memory_pages()).min(1 << 20) as u32
}

fn pressure_is_reported_in_order<S: System>(system: &S) -> Result<(), SystemError> {
    if let Some(Pressure { some, full }) = system.pressure(None)? {
        assert!(some.total_us >= full.total_us, "{some} {full}");
        assert!(some.percent.into_iter().chain(full.percent).all(|percent| (0.0..=100.0).contains(&percent)));
    }
    assert!(system.pressure(Some("no group")).is_err() || system.pressure(None)?.is_none());
    for wrong in ["", "some 1", "none 150000 1000000", "some 0 1000000", "full 150000 100"] {
        assert!(system.pressure_trigger(None, wrong).is_err(), "`{wrong}`");
    }
    Ok(())
}

fn time_goes_on<S: System>(system: &S) -> Result<(), SystemError> {
    let (started, cpu) = (system.now(), system.cpu_times());
    system.sleep(Nanos::from_millis(2));
    let slept = system.now();
    assert!(slept.since(started) >= Nanos::from_millis(2), "slept from {started} to {slept}");
    system.compute(Nanos::from_millis(2));
    assert!(system.now().since(slept) >= Nanos::from_millis(2), "computed from {slept} to {}", system.now());
    // Some kernels only sample how CPU time divides into user and system time.
    let used = system.cpu_times().since(cpu);
    let used = used.user + used.system;
    assert!(used >= Nanos::from_millis(1), "2 ms of computing used {used} of a CPU");
    Ok(())
}

fn a_task_returns_what_it_found<S: System>(system: &S) -> Result<(), SystemError> {
    let tasks: Vec<_> = (0..4_u64)
        .map(|n| {
            system.start(&format!("adder {n}"), move |system| {
                system.sleep(Nanos::from_millis(4 - n));
                n + 1
            })
        })
        .collect();
    let found: Vec<u64> = tasks.into_iter().map(|task| task.join(system)).collect();
    assert_eq!(found, [1, 2, 3, 4]);
    Ok(())
}

fn a_task_that_is_told_to_end_can_end<S: System>(system: &S) -> Result<(), SystemError> {
    let task = system.start("sleeper", |system| {
        let mut rounds = 0;
        while !system.is_killed() {
            system.sleep(Nanos::from_millis(1));
            rounds += 1;
        }
        let before = system.now();
        system.sleep(Nanos::from_secs(1000));
        (rounds, system.now().since(before))
    });
    system.sleep(Nanos::from_millis(10));
    task.kill(system);
    let (rounds, slept) = task.join(system);
    assert!(rounds > 0 && slept < Nanos::from_secs(100), "{rounds} rounds, then asleep for {slept}");
    assert!(!system.is_killed(), "another task was told");
    Ok(())
}

fn a_forked_process_has_a_copy<S: System>(system: &S) -> Result<(), SystemError> {
    let (region, words) = (system.map(2)?, system.share_words(2)?);
    let at = page_bytes(1);
    let pattern = |version| Pattern::new("forked", version);
    let store = move |system: &S, region: &S::Region, version| {
        let mut bytes = [0; PAGE_BYTES];
        pattern(version).fill(system.kept(), at, &mut bytes);
        system.store(region, at, &bytes)
    };
    let load = move |system: &S, region: &S::Region, version| {
        let mut bytes = [0; PAGE_BYTES];
        system.load(region, at, &mut bytes)?;
        Ok::<_, SystemError>(pattern(version).verify(system.kept(), at, &bytes)?)
    };
    store(system, &region, 1)?;
    let shared = words.clone();
    let child = system.fork_and_return("child", &[&region], move |system, mut regions| {
        let region = regions.pop().expect("it has the copy of one region");
        // The parent stores before the child loads.
        while shared[0].load(SeqCst) == 0 && !system.is_killed() {
            system.sleep(Nanos::from_millis(1));
        }
        load(system, &region, 1)?;
        store(system, &region, 3)?;
        load(system, &region, 3)?;
        shared[1].store(7, SeqCst);
        system.unmap(region);
        Ok::<_, SystemError>("child".to_owned())
    });
    let child = match (child, S::FORKS) {
        (Err(_), false) => {
            system.unmap(region);
            return Ok(());
        }
        (Ok(_), false) => panic!("the system forks, and says that it cannot"),
        (child, true) => child?,
    };
    store(system, &region, 2)?;
    words[0].store(1, SeqCst);
    assert_eq!(child.join(system)?, "child");
    load(system, &region, 2)?;
    assert_eq!(words[1].load(SeqCst), 7, "the two share the words");
    system.unmap(region);
    a_forked_process_can_end(system)
}

fn a_forked_process_can_end<S: System>(system: &S) -> Result<(), SystemError> {
    let waiting = system.fork_and_return("waiting", &[], |system, _| {
        while !system.is_killed() {
            system.sleep(Nanos::from_millis(20));
        }
        system.is_killed()
    })?;
    assert!(!waiting.has_ended());
    waiting.kill(system);
    assert_eq!(waiting.join_unless_killed(system), Some(true));

    // Several tasks fork at once.
    let fork = |system: &S, n: u64| {
        let child = system.fork_and_return(&format!("child of {n}"), &[], move |_, _| n)?;
        Ok::<_, SystemError>(child.join(system))
    };
    let tasks: Vec<_> = (0..4).map(|n| system.start(&format!("parent {n}"), move |system| fork(system, n))).collect();
    let found: Vec<u64> = tasks.into_iter().map(|task| task.join(system)).collect::<Result<_, _>>()?;
    assert_eq!(found, [0, 1, 2, 3]);
    Ok(())
}

fn chance_follows_from_seed_and_stream<S: System>(system: &S) -> Result<(), SystemError> {
    let drawn = |stream| system.rng(stream).next_u64();
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    let elsewhere = system.start("drawer", |system| system.rng(1).next_u64()).join(system);
    assert_eq!(elsewhere, drawn(1));
    Ok(())
}

fn files_are_found_by_name<S: System>(system: &S) -> Result<(), SystemError> {
    let file = system.create("a")?;
    assert_eq!(system.length(&file), 0);
    assert!(system.create("a").is_err(), "created twice");
    system.write(&file, 10, b"highwater")?;
    let length = system.start("reader", |system| system.open("a").map(|file| system.length(&file))).join(system)?;
    assert_eq!((length, system.length(&file)), (19, 19));
    let mut bytes = [0; 64];
    let mut file = system.open("a")?;
    assert_eq!(system.read(&mut file, 10, &mut bytes)?, 9);
    assert_eq!(system.read(&mut file, 19, &mut bytes)?, 0);
    system.remove("a")?;
    assert!(system.open("a").is_err() && system.remove("a").is_err(), "still there after it was removed");
    Ok(())
}

fn a_file_is_as_long_as_it_was_made<S: System>(system: &S) -> Result<(), SystemError> {
    let mut file = system.create("long")?;
    system.write(&file, 0, b"highwater")?;
    system.set_length(&file, page_bytes(3))?;
    assert_eq!(system.length(&file), page_bytes(3));
    let mut bytes = [1; 8];
    assert_eq!(system.read(&mut file, page_bytes(2), &mut bytes)?, 8);
    assert!(bytes == [0; 8] || system.kept() == Kept::Nothing, "a hole read as {bytes:?}");
    system.set_length(&file, 4)?;
    assert_eq!((system.read(&mut file, 0, &mut bytes)?, system.length(&file)), (4, 4));
    system.remove("long")
}

fn a_mapping_of_a_file_is_the_file<S: System>(system: &S) -> Result<(), SystemError> {
    if !system.maps_files() {
        return Ok(());
    }
    let (kept, pattern) = (system.kept(), Pattern::new("m", 1));
    let mut file = system.create("m")?;
    let mut page = vec![0; PAGE_BYTES];
    system.set_length(&file, page_bytes(8))?;
    let shared = system.map_file(&file, 0..8, MapMode::default())?;
    let private = system.map_file(&file, 0..8, MapMode { sharing: Sharing::Private, ..MapMode::default() })?;
    for n in 0..8 {
        pattern.fill(kept, page_bytes(n), &mut page);
        system.store(&shared, page_bytes(n), &page)?;
        system.read(&mut file, page_bytes(n), &mut page)?;
        pattern.verify(kept, page_bytes(n), &page)?;
    }
    Pattern::new("m", 2).fill(kept, 0, &mut page);
    system.store(&private, 0, &page)?;
    system.load(&shared, 0, &mut page)?;
    pattern.verify(kept, 0, &page)?;
    assert!(system.remove("m").is_err(), "a file was removed under its mappings");
    assert!(
        system
            .map_file(&file, 0..9, MapMode::default())
            .and_then(|region| {
                let result = system.touch(&region, 8..9, false);
                system.unmap(region);
                result
            })
            .is_err(),
        "a page after the end of the file was touched"
    );
    system.unmap(shared);
    system.unmap(private);
    system.remove("m")
}

fn files_hold_what_was_written<S: System>(system: &S) -> Result<(), SystemError> {
    let kept = system.kept();
    let pattern = Pattern::new("b", 1);
    let file = system.create("b")?;
    let mut bytes = vec![0; 5 * PAGE_BYTES];
    // Pieces that begin and end within pages.
    let pieces =
        [(0, 8), (8, PAGE_BYTES), (PAGE_BYTES, 3 * PAGE_BYTES + 2048), (3 * PAGE_BYTES + 2048, 5 * PAGE_BYTES)];
    for (start, end) in pieces {
        pattern.fill(kept, start as u64, &mut bytes[start..end]);
        system.write(&file, start as u64, &bytes[start..end])?;
    }
    let mut file = system.open("b")?;
    for round in 0..2 {
        let mut found = vec![1; 5 * PAGE_BYTES];
        assert_eq!(system.read(&mut file, 0, &mut found)?, 5 * PAGE_BYTES, "round {round}");
        pattern.verify(kept, 0, &found)?;
        assert_eq!(system.read(&mut file, 4090, &mut found[..20])?, 20);
        pattern.verify(kept, 4090, &found[..20])?;
        // The contents are checked once more, read from the device.
        system.sync(&file)?;
        system.drop_caches()?;
    }
    system.remove("b")
}

fn pages_are_read_in_place<S: System>(system: &S) -> Result<(), SystemError> {
    const PAGES: u64 = 5;
    let kept = system.kept();
    let pattern = Pattern::new("in place", 1);
    let write = |first: u64, pages: u64| -> Result<S::File, SystemError> {
        let file = if first == 0 { system.create("in place")? } else { system.open("in place")? };
        let mut bytes = vec![0; page_bytes(pages) as usize];
        pattern.fill(kept, page_bytes(first), &mut bytes);
        system.write(&file, page_bytes(first), &bytes)?;
        Ok(file)
    };
    let verify = |file: &mut S::File, page: u64| -> Result<(), SystemError> {
        let bytes = |bytes: &[u8]| (bytes.len(), pattern.verify(kept, page_bytes(page), bytes));
        let (length, verified) = system.read_in_place(file, page, bytes)?;
        assert_eq!(length, PAGE_BYTES);
        Ok(verified?)
    };
    let written = write(0, PAGES)?;
    {
        let mut file = system.open("in place")?;
        (0..PAGES).try_for_each(|page| verify(&mut file, page))?;
        assert!(verify(&mut file, PAGES).is_err(), "a page after the end is read");
        // The file then grows by a page and a part of a page. The rest of its last page reads as zeroes.
        drop(write(PAGES, 1)?);
        system.write(&written, page_bytes(PAGES + 1), b"highwater")?;
        verify(&mut file, PAGES)?;
        let tail =
            system.read_in_place(&mut file, PAGES + 1, |bytes| bytes[8..].iter().map(|b| u64::from(*b)).sum())?;
        let last = if kept == Kept::Bytes { u64::from(b'r') } else { 0 };
        assert_eq!((tail, system.length(&file)), (last, page_bytes(PAGES + 1) + 9));
        assert!(verify(&mut file, PAGES + 2).is_err(), "a page after the end is read");
    }
    // The contents are checked once more, read from the device by several tasks.
    system.sync(&written)?;
    drop(written);
    system.drop_caches()?;
    let readers: Vec<_> = (0..4)
        .map(|n| {
            let pattern = pattern.clone();
            system.start(&format!("reader {n}"), move |system| -> Result<(), SystemError> {
                let mut file = system.open("in place")?;
                system.expect_random_reads(&mut file);
                for page in (0..=PAGES).rev() {
                    system.read_in_place(&mut file, page, |bytes| pattern.verify(kept, page_bytes(page), bytes))??;
                }
                Ok(())
            })
        })
        .collect();
    for reader in readers {
        reader.join(system)?;
    }
    system.remove("in place")
}

fn started_reads_are_reads<S: System>(system: &S) -> Result<(), SystemError> {
    const PAGES: u64 = 64;
    let kept = system.kept();
    let pattern = Pattern::new("started", 1);
    let mut bytes = vec![0; page_bytes(PAGES) as usize];
    pattern.fill(kept, 0, &mut bytes);
    let written = system.create("started")?;
    system.write(&written, 0, &bytes)?;
    system.sync(&written)?;
    drop(written);
    system.drop_caches()?;
    {
        let mut file = system.open("started")?;
        system.expect_random_reads(&mut file);
        // Some pages are requested twice, and one page after the end, which has no effect.
        for page in (0..=PAGES).rev().chain(0..4) {
            system.start_read(&mut file, page)?;
        }
        for page in 0..PAGES {
            let mut page_read = vec![0; PAGE_BYTES];
            assert_eq!(system.read(&mut file, page_bytes(page), &mut page_read)?, PAGE_BYTES, "page {page}");
            pattern.verify(kept, page_bytes(page), &page_read)?;
        }
    }
    system.remove("started")
}

fn regions_hold_what_was_stored<S: System>(system: &S) -> Result<(), SystemError> {
    let kept = system.kept();
    let pattern = Pattern::new("region", 1);
    let region = system.map(8)?;
    let mut bytes = vec![1; 8 * PAGE_BYTES];
    system.load(&region, 0, &mut bytes)?;
    if kept != Kept::Nothing {
        let stamps: Vec<&[u8]> = bytes.chunks(PAGE_BYTES).map(|page| &page[..8]).collect();
        assert!(stamps.iter().all(|stamp| *stamp == [0; 8]), "fresh memory holds {stamps:x?}");
    }
    pattern.fill(kept, 100, &mut bytes[..3 * PAGE_BYTES]);
    system.store(&region, 100, &bytes[..3 * PAGE_BYTES])?;
    let mut found = vec![0; 3 * PAGE_BYTES];
    system.load(&region, 100, &mut found)?;
    pattern.verify(kept, 100, &found)?;
    system.unmap(region);
    Ok(())
}

fn a_touch_changes_at_most_the_last_byte<S: System>(system: &S) -> Result<(), SystemError> {
    let kept = system.kept();
    let pattern = Pattern::new("touched", 1);
    let region = system.map(16)?;
    let before = system.faults();
    system.touch(&region, 0..16, true)?;
    let faults = system.faults().since(before);
    assert!(faults.minor + faults.major > 0, "16 fresh pages made no fault");
    let mut bytes = vec![0; PAGE_BYTES];
    pattern.fill(kept, 0, &mut bytes);
    system.store(&region, 0, &bytes)?;
    system.touch(&region, 0..1, true)?;
    system.touch(&region, 0..16, false)?;
    let last = bytes.len() - 1;
    system.load(&region, 0, &mut bytes[..last])?;
    // A touch that writes may change the last byte.
    pattern.verify(kept, 0, &bytes)?;
    system.unmap(region);
    assert!(!system.vmstat().is_empty(), "a ground has counters");
    Ok(())
}

fn a_file_larger_than_memory<S: System>(system: &S) -> Result<(), SystemError> {
    const TASKS: u64 = 4;
    let kept = system.kept();
    let pages = u64::from(large(system));
    let file = system.create("large")?;
    let pattern = Pattern::new("large", 1);
    let mut bytes = vec![0; 64 * PAGE_BYTES];
    for start in (0..pages).step_by(64) {
        let n = (pages - start).min(64) as usize * PAGE_BYTES;
        pattern.fill(kept, page_bytes(start), &mut bytes[..n]);
        system.write(&file, page_bytes(start), &bytes[..n])?;
    }
    system.sync(&file)?;
    system.drop_caches()?;
    let readers: Vec<_> = (0..TASKS)
        .map(|n| {
            let pattern = pattern.clone();
            system.start(&format!("reader {n}"), move |system| -> Result<(), SystemError> {
                let mut file = system.open("large")?;
                system.expect_random_reads(&mut file);
                let mut rng = system.rng(n);
                let mut page = vec![0; PAGE_BYTES];
                for round in 0..pages.min(4096) {
                    let at = rng.below(pages);
                    if round % 2 == 0 {
                        assert_eq!(system.read(&mut file, page_bytes(at), &mut page)?, PAGE_BYTES);
                        pattern.verify(kept, page_bytes(at), &page)?;
                    } else {
                        system.read_in_place(&mut file, at, |page| pattern.verify(kept, page_bytes(at), page))??;
                    }
                }
                Ok(())
            })
        })
        .collect();
    for reader in readers {
        reader.join(system)?;
    }
    system.remove("large")
}

fn a_region_larger_than_memory<S: System>(system: &S) -> Result<(), SystemError> {
    let kept = system.kept();
    let pages = large(system);
    let region = system.map(pages)?;
    let mut page = vec![0; PAGE_BYTES];
    for version in 1..=2 {
        let pattern = |version| Pattern::new("large region", version);
        for n in 0..pages {
            let offset = page_bytes(n.into());
            if version > 1 {
                system.load(&region, offset, &mut page)?;
                pattern(version - 1).verify(kept, offset, &page)?;
            }
            pattern(version).fill(kept, offset, &mut page);
            system.store(&region, offset, &page)?;
        }
    }
    assert!(system.faults().major > 0, "{pages} pages fit a memory of {}", system.memory_pages());
    system.unmap(region);
    Ok(())
}
