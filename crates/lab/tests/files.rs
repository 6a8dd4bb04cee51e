//! Tests that every kernel, machine and experiment file of the project is valid, and that a kernel states a source for
//! each value in which it differs from its base.

use engine::kernel::Origin;
use lab::{embedded, find};

#[test]
fn every_line_of_a_kernel_file_has_a_source() {
    for name in embedded::names("kernels") {
        let kernel = find::kernel(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!kernel.about.is_empty(), "{name} has no `about`");
        for setting in kernel.own() {
            let Origin::File { place, source, .. } = &setting.origin else { continue };
            assert!(source.is_some(), "{place}: `{}` has no source behind it", setting.key);
        }
    }
}

/// Checks that a kernel file changes a value of its base, or that its `about` says that the kernel reclaims as its base
/// does. Each value that it sets differs from the base's.
#[test]
fn a_kernel_differs_from_its_base_in_everything_that_it_names() {
    for name in embedded::names("kernels") {
        let kernel = find::kernel(name).unwrap_or_else(|error| panic!("{error}"));
        let Some(base) = kernel.bases.first() else { continue };
        let is_like_its_base = kernel.about.ends_with(&format!("reclaims as {base} does"));
        assert!(kernel.differences().next().is_some() != is_like_its_base, "{name} and its base {base}");
        for setting in kernel.own() {
            assert!(setting.replaces.is_some(), "{name}: `{}` is as in the base", setting.key);
        }
    }
}

#[test]
fn experiments_name_kernels_that_exist_and_figures_of_theirs() {
    for name in embedded::names("experiments") {
        let experiment = find::experiment(name).unwrap_or_else(|error| panic!("{error}"));
        for kernel in &experiment.kernels {
            find::kernel(kernel).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for column in experiment.published.iter().flat_map(|published| &published.columns) {
            assert!(experiment.kernels.contains(column), "{name}: {column} is published but not compared");
        }
    }
}

#[test]
fn machine_files_are_read_and_experiments_name_one_and_a_workload() {
    for name in embedded::names("machines") {
        let machine = find::machine(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!machine.about.is_empty(), "{name} has no `about`");
    }
    for name in embedded::names("experiments") {
        let experiment = find::experiment(name).unwrap_or_else(|error| panic!("{error}"));
        find::machine(&experiment.machine).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(lab::grounds::find(&experiment.workload).is_some(), "{name}: no workload {}", experiment.workload);
    }
}
