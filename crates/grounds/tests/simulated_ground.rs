//! The simulated ground as a workload sees it: the contract of [`workloads::system::System`], contents and groups.

use catalogue::find;
use catalogue::group::Group;
use catalogue::hardware::ProgramWork;
use engine::memory::{Gfp, Layout};
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use figures::scale::Scale;
use grounds::system::sim::{SimSystem, SystemConfig};
use machine::{DeviceId, Nanos, Order, PAGE_BYTES};
use sim::Sim;
use workloads::system::contents::Pattern;
use workloads::system::{Advice, Given, System, SystemError, conformance};

/// Runs `body` as the main task of a small machine, which has 4 MiB of memory, 8 MiB of swap, and the disk of the
/// machine `parallelio-8g`. Returns the fingerprint of the run.
fn on_small(stamps: bool, body: impl FnOnce(&SimSystem) -> Result<(), SystemError> + 'static) -> u64 {
    on_layout(Layout::flat(1024), stamps, body)
}

/// Like [`on_small`], but with a given layout of memory.
fn on_layout(layout: Layout, stamps: bool, body: impl FnOnce(&SimSystem) -> Result<(), SystemError> + 'static) -> u64 {
    let machine = find::machine("parallelio-8g").unwrap();
    let sim = Sim::new(sim::Config {
        disks: vec![machine.disks[0].device.clone()],
        frames: layout.frames() as usize,
        stamps,
        ..sim::Config::uniform(2, 50)
    });
    let devices = vec![DeviceLayout { file_blocks: 10_000..20_000 }];
    let swap =
        SwapLayout { device: DeviceId(0), first_block: 1000, slots: 2048, is_synchronous: false, memory_percent: 0 };
    let config = SystemConfig { layout, devices, swap, stamps, program_work: ProgramWork::default() };
    let given = Given { seed: 1, scale: Scale::FULL, progress: kit::progress::Progress::default() };
    let kernel = find::kernel("mm1-mmotm-20130606").unwrap();
    let system = SimSystem::new(&sim, &kernel.choices, &config, given).unwrap();
    let engine = system.shared_engine();
    sim.run("main", move || body(&system).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    engine.check().unwrap();
    sim.fingerprint()
}

#[test]
fn the_simulated_ground_is_a_ground() {
    for stamps in [true, false] {
        for (name, check) in conformance::suite() {
            println!("{name}, stamps {stamps}");
            on_small(stamps, check);
        }
    }
}

#[test]
fn keeping_stamps_changes_no_event() {
    for (name, check) in conformance::suite() {
        assert_eq!(on_small(true, check), on_small(false, check), "{name}");
    }
}

/// Advice on, and a read of, pages beyond the largest page number (16 TiB) must not concern the pages whose numbers
/// have the same low 32 bits.
#[test]
fn what_lies_far_behind_the_end_is_no_page_of_the_file() {
    const FAR: u64 = 1 << 44;
    on_small(true, |system| {
        system.import("a", 64)?;
        let mut file = system.open("a")?;
        for start in [FAR, FAR + 1] {
            system.advise(&mut file, Advice::WillNeed, start..start + (1 << 20))?;
        }
        system.start_read(&mut file, FAR / PAGE_BYTES as u64)?;
        system.sleep(Nanos::from_secs(1));
        assert_eq!(system.vmstat()["nr_file_pages"], 0);
        assert!(system.write_direct("a", FAR / PAGE_BYTES as u64, 1).is_err());
        system.read(&mut file, 0, &mut [0; PAGE_BYTES])?;
        system.sleep(Nanos::from_secs(1));
        let held = system.vmstat()["nr_file_pages"];
        for start in [FAR, FAR + 1] {
            system.advise(&mut file, Advice::DontNeed, start..start + (1 << 20))?;
        }
        assert!(held > 0 && system.vmstat()["nr_file_pages"] == held);
        Ok(())
    });
}

/// A reader holds a page while caches are dropped and the page's file is removed. The page must stay in memory
/// until the reader releases it. Then a block of pages must be available, and free again after it is given back.
#[test]
fn a_held_page_stays_and_a_block_comes_back() {
    on_small(true, |system| {
        let file = system.create("a")?;
        system.write(&file, 0, &vec![0; 64 * PAGE_BYTES])?;
        system.sync(&file)?;
        let mut file = system.open("a")?;
        let held = system.hold_page(&mut file, 7)?;
        system.drop_caches_and_slabs()?;
        assert_eq!(system.vmstat()["nr_file_pages"], 1);
        drop(file);
        system.remove("a")?;
        system.release_page(held);
        assert_eq!(system.vmstat()["nr_file_pages"], 0);
        // The page left its file before its reader released it, and waits in a per-CPU batch until the batches are
        // drained.
        system.engine().lru().drain_all();
        let free = system.free_pages();
        let block = system.take_block(Gfp::USER_MOVABLE, Order(6))?.expect("half of memory is free");
        assert_eq!(free - system.free_pages(), 64);
        system.give_block_back(block);
        assert!(system.take_block(Gfp::HUGE_PAGE, Order(10))?.is_none(), "all of memory");
        assert!(system.look_up(3)? && !system.look_up(3)?);
        let was = system.set_min_free_kbytes(256)?;
        assert_eq!((system.set_min_free_kbytes(was)?, system.set_min_free_kbytes(was)?), (256, was));
        Ok(())
    });
}

/// A task reads a file in a group with a limit of 1 MiB, so it must reclaim. A trigger on the pressure of the
/// parent group must fire. The pressure must also appear in the figures of both groups, and in their rows.
#[test]
fn a_controller_waits_for_the_pressure_of_a_group() {
    let outer = Group { name: "outer".into(), ..Group::default() };
    let tasks = vec!["reader".to_owned()];
    let inner = Group { name: "outer/inner".into(), max_mib: Some(1), tasks, ..Group::default() };
    let groups = [outer, inner];
    on_layout(Layout { groups: 4, ..Layout::flat(1024) }, true, move |system| {
        system.create_groups(&groups, Scale::FULL)?;
        assert!(system.pressure(Some("none")).is_err());
        let mut trigger = system.pressure_trigger(Some("outer"), "some 1000 500000")?;
        assert!(!trigger.wait(Nanos::from_millis(700))?, "nothing happens yet");
        let reader = system.spawn("reader", |system| {
            system.import("a", 4096).unwrap();
            let (mut file, mut page) = (system.open("a").unwrap(), [0; PAGE_BYTES]);
            for n in 0..4096 {
                system.read(&mut file, n * PAGE_BYTES as u64, &mut page).unwrap();
            }
        });
        let began = system.now();
        assert!(trigger.wait(Nanos::from_secs(60))?);
        assert!(system.now().since(began) < Nanos::from_secs(60));
        system.join(&reader);
        let of = |group| Ok::<_, SystemError>(system.pressure(group)?.expect("a simulator reports it"));
        let [machine, outer, inner] = [of(None)?, of(Some("outer"))?, of(Some("outer/inner"))?];
        assert!(inner.some.total_us >= 1000 && outer == inner, "{inner}");
        assert!(machine.full.total_us <= machine.some.total_us && machine.some.total_us > 0, "{machine}");
        let rows = system.group_rows();
        let row = |name: &str| rows.iter().find(|row| row.name == name).expect("each group has it").value;
        assert_eq!(row("outer/inner: memory.pressure some"), inner.some.total_us as f64 / 1e6);
        Ok(())
    });
}

#[test]
fn wrong_contents_are_found() {
    on_small(true, |system| {
        let file = system.create("a")?;
        let mut page = vec![0; PAGE_BYTES];
        Pattern::new("a", 1).fill(system.kept(), 0, &mut page);
        system.write(&file, 0, &page)?;
        let mut file = system.open("a")?;
        system.read(&mut file, 0, &mut page)?;
        let error = Pattern::new("a", 2).verify(system.kept(), 0, &page).unwrap_err();
        assert!(error.0.starts_with("wrong contents: byte 0 of `a`"), "{error}");
        Ok(())
    });
}
