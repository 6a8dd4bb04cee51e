//! Measures how often a comparison finds a difference where there is none: a kernel is compared with itself, under
//! other seeds.
//!
//! `cargo test --package highwater-lab --test verdicts -- --ignored --nocapture` simulates thousands of runs and prints
//! the figures in docs/verdicts.md.

use lab::{
    grounds,
    plan::{Plan, Request, Set},
    report::TableRow,
    runner,
    verdict::{Comparison, Sample},
};

/// An experiment, its scale, and a parameter that makes it so small that thousands of runs take minutes. Each run
/// reclaims.
const EXPERIMENT: (&str, &str, &str) = ("anon", "1/64", "params.operations=300");
const KERNEL: &str = "6.18-classic";

/// Largest number of comparisons of one row with samples of the same size.
const TIMES: usize = 200;
const SEEDS: usize = 10;

/// Returns the main rows of the experiment, each with the values of `runs` runs.
fn rows((experiment, scale, set): (&str, &str, &str), runs: usize) -> Vec<TableRow> {
    let set = set.split_once('=').map(|(key, value)| Set { key: key.into(), values: vec![value.into()] });
    let request = Request {
        experiment: experiment.into(),
        kernels: vec![KERNEL.into()],
        set: set.into_iter().collect(),
        scale: scale.parse().ok(),
        seed: 1,
        runs: runs as u64,
        ..Request::default()
    };
    let plan = Plan::new(&request, grounds::find).unwrap_or_else(|error| panic!("{error}"));
    let table = plan.run(runner::all_cores(), &()).whole().expect("it runs").table;
    table.rows.into_iter().filter(|row| table.main_rows.contains(&row.name)).collect()
}

/// Compares a row with itself, up to [`TIMES`] times: each comparison takes the values of `seeds` runs with different
/// seeds, and the values of the next `seeds` runs. Returns how many comparisons find a difference: first if the values
/// are paired in order, then if they are treated as two independent sets. Also returns the number of comparisons.
fn told_apart(row: &TableRow, seeds: usize) -> ([usize; 2], usize) {
    let (mut found, mut times) = ([0, 0], 0);
    for both in row.cells[0].samples.chunks_exact(2 * seeds).take(TIMES) {
        let (base, own) = both.split_at(seeds);
        let in_place: Vec<Sample> =
            base.iter().zip(own).map(|(base, own)| Sample { seed: base.seed, ..*own }).collect();
        for (count, own) in found.iter_mut().zip([in_place.as_slice(), own]) {
            let comparison = Comparison::of(row.better, base, own).expect("both have values");
            *count += usize::from(comparison.verdict.is_told_apart());
        }
        times += 1;
    }
    (found, times)
}

/// Returns whether the row has more distinct values than a fiftieth of its values. Comparisons of nearly constant
/// values would find no difference.
fn differs(row: &TableRow) -> bool {
    let mut values: Vec<u64> = row.cells[0].samples.iter().map(|sample| sample.value.to_bits()).collect();
    let all = values.len();
    values.sort_unstable();
    values.dedup();
    values.len() * 50 > all
}

fn percent(count: usize, of: usize) -> f64 {
    100.0 * count as f64 / of as f64
}

#[test]
#[ignore = "thousands of runs: some minutes"]
fn a_kernel_beside_itself_is_told_apart_in_3_to_7_percent_of_cases() {
    let mut pooled = [[0; 2]; 3];
    let mut all = [0; 3];
    println!("| experiment | row | seeds | in pairs | as sets |\n| --- | --- | --: | --: | --: |");
    for row in rows(EXPERIMENT, 2 * SEEDS * TIMES).iter().filter(|row| differs(row)) {
        for (n, seeds) in [5, 6, SEEDS].into_iter().enumerate() {
            let ([pairs, sets], times) = told_apart(row, seeds);
            let (pairs_percent, sets_percent) = (percent(pairs, times), percent(sets, times));
            println!("| {} | {} | {seeds} | {pairs_percent:.1} % | {sets_percent:.1} % |", EXPERIMENT.0, row.name);
            (pooled[n][0], pooled[n][1], all[n]) = (pooled[n][0] + pairs, pooled[n][1] + sets, all[n] + times);
        }
    }
    // With five seeds the test tells 3.2 % of equal columns apart, and with six 3.1 % or 4.1 %: no possible error is
    // nearer to 5 %. Ties reduce these shares. The rows come from the same runs, so that all of them together have a
    // standard error of a point, as one row has.
    for (([pairs, sets], times), least) in pooled.into_iter().zip(all).zip([[2.0, 2.0], [2.0, 2.0], [3.0, 3.0]]) {
        let shares = [pairs, sets].map(|count| percent(count, times));
        println!("all: {:.1} % in pairs, {:.1} % as sets, of {times}", shares[0], shares[1]);
        assert!(shares.iter().zip(least).all(|(share, least)| (least..=7.0).contains(share)), "{shares:?}");
    }
}

/// Compares six runs of a kernel with themselves. No difference is found. This short test runs by default; the long one
/// is ignored.
#[test]
fn a_kernel_beside_itself_with_the_same_seeds_is_the_same() {
    let row = &rows(EXPERIMENT, 6)[0];
    let samples = &row.cells[0].samples;
    assert_eq!(samples.len(), 6);
    // The runs end when their operations are done, and not when the next look finds it, each 10 ms.
    assert!(samples.iter().all(|one| samples.iter().filter(|it| it.value == one.value).count() == 1), "{samples:?}");
    let same = Comparison::of(row.better, samples, samples).expect("values");
    assert!(!same.verdict.is_told_apart() && same.shift.value == 0.0, "{same:?}");
}
