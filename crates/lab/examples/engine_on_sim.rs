//! The engine on the simulator, without workload and report: a task touches twice as much memory as the machine has.
//!
//! Run: `cargo run --release --package highwater-lab --example engine_on_sim`

use engine::stat::Vmstat;
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::{Engine, Task, memory::Layout};
use lab::find;
use machine::{DeviceId, Machine};
use sim::{Config, Sim};
use std::{cell::RefCell, error::Error, rc::Rc};

/// Returns the counters after a task touched `pages` pages of anonymous memory on a machine with half as many pages of
/// memory.
fn touch(kernel: &str, pages: u32) -> Result<Vmstat, Box<dyn Error>> {
    let (kernel, file) = (find::kernel(kernel)?, find::machine("parallelio-8g")?);
    let disks = vec![file.disks[0].device.clone()];
    let layout = Layout::flat(u64::from(pages) / 2);
    let devices = [DeviceLayout { file_blocks: 2_100_000..54_500_000 }];
    let swap =
        SwapLayout { device: DeviceId(0), first_block: 1000, slots: pages, is_synchronous: false, memory_percent: 0 };

    let sim = Sim::new(Config { cost: file.cost, disks, seed: 1, ..Config::uniform(2, 0) });
    let engine = Rc::new(Engine::new(sim.clone(), &kernel.choices, &layout, &devices, swap)?);
    sim.attach(engine.clone());
    for task in engine.kernel_tasks() {
        let engine = engine.clone();
        sim.spawn(&task.name(), move || engine.run(task));
    }
    let (program, result) = (engine.clone(), Rc::new(RefCell::new(Ok(()))));
    let found = result.clone();
    sim.run("main", move || {
        let region = program.anonymous().create_region(None, pages, false);
        *found.borrow_mut() = program.access().touch(&mut Task::user(), &region, 0..pages, true);
    })?;
    result.borrow().clone()?;
    engine.check()?;
    println!("{} at {}: fingerprint {:016x}", kernel.name, sim.now(), sim.fingerprint());
    Ok(engine.vmstat())
}

fn main() -> Result<(), Box<dyn Error>> {
    for kernel in ["3.10-rc4-vanilla", "mm1-mmotm-20130606"] {
        let vmstat = touch(kernel, 1 << 16)?;
        for name in ["pgscan_kswapd_normal", "pgscan_direct_normal", "pswpout", "allocstall"] {
            println!("  {name:<22}{:>8}", vmstat[name]);
        }
    }
    Ok(())
}

#[test]
fn half_of_what_is_touched_goes_to_swap() {
    let vmstat = touch("mm1-mmotm-20130606", 1 << 13).unwrap();
    assert!(vmstat["pswpout"] >= 1 << 12, "{vmstat:?}");
}
