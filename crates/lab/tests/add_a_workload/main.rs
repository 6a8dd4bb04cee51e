//! Tests that the workload in this folder is the one that docs/add-a-workload.md shows, and that it runs.

mod sweep;

use lab::find;
use lab::job::{Job, Runnable};
use lab::progress::Progress;
use std::sync::Arc;
use sweep::Sweep;

const PAGE: &str = include_str!("../../../../docs/add-a-workload.md");

fn job(params: &str) -> Job {
    Job::simulated(
        "sweep",
        find::kernel("mm1-mmotm-20130606").expect("an embedded kernel"),
        Arc::new(find::machine("parallelio-8g").expect("an embedded machine")),
        placed::Node::parse("sweep.toml", params).expect("TOML"),
        "1/64".parse().expect("a fraction"),
    )
}

#[test]
fn the_page_shows_the_workload() {
    let shown = PAGE.split("sweep.rs\n").nth(1).and_then(|rest| rest.split("```").next()).expect("Rust");
    assert_eq!(shown.replace("crate::", "lab::"), include_str!("sweep.rs"));
}

#[test]
fn the_workload_runs_and_its_second_sweep_reads_swap() {
    let job = job("sweeps = 2\n");
    Sweep.check(&job).expect("memory and swap are large enough");
    let outcome = Sweep.run(&job, &Progress::default()).expect("the run ends");
    let times: Vec<(&str, f64)> = outcome.rows.iter().map(|row| (row.name.as_str(), row.value)).collect();
    let [("Ops sweep-1", first), ("Ops sweep-2", second)] = times.as_slice() else { panic!("{times:?}") };
    assert!(*first > 0.0 && second > first, "{times:?}");
}

#[test]
fn what_does_not_fit_or_is_not_known_is_refused_before_it_runs() {
    let wrong = |params: &str| Sweep.check(&job(params)).expect_err("it is wrong").to_string();
    assert_eq!(
        wrong("percent = 900\n"),
        "machine `parallelio-8g` at scale 1/64: 900 % of memory do not fit memory and swap"
    );
    assert_eq!(wrong("percents = 9\n"), "sweep.toml:1: unknown key `percents`: did you mean `percent`?");
}
