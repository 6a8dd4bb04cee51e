//! Tests of pictures: the output of `--plot` and `--flamegraph` for each verb, and the refusal of wrong options.

use std::{fs, path::Path, process::Command};

/// Runs a command. Returns its report, or its message if it fails.
fn highwater(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(arguments).output().expect("the binary was built for this test");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    if output.status.success() { Ok(out) } else { Err(format!("{:?} {err}", output.status.code())) }
}

/// Returns the picture that a command draws with `option`. Checks that the option does not change the report.
fn drawn(option: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("picture.svg");
    let with = [arguments, &[option, file.to_str().expect("UTF-8")]].concat();
    let report = highwater(&with).unwrap_or_else(|message| panic!("{arguments:?}: {message}"));
    assert_eq!(report, highwater(arguments).expect("it ran before"), "a picture changes no report");
    let svg = fs::read_to_string(&file).expect("it was written");
    assert!(svg.contains("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    svg
}

fn has(svg: &str, words: &[&str]) {
    for word in words {
        assert!(svg.contains(word), "{word} is not in {svg}");
    }
}

#[test]
fn a_comparison_is_drawn_over_time_with_a_line_for_each_kernel() {
    let kernels = ["--kernels", "3.10-rc4-vanilla,mm1-mmotm-20130606"];
    let svg =
        drawn("--plot", &[&["compare", "parallelio", "--scale", "1/32", "--rows", "ops mem"], &kernels[..]].concat());
    has(
        &svg,
        &[
            "Operations of the server, 1/s\n",
            "Swapped in and out, MiB/s\n",
            "mm1-mmotm-20130606\n",
            "prefers-color-scheme:dark",
        ],
    );
    // Lines that coincide are drawn in turns, so each kernel has pieces. Together the pieces span the whole time of
    // three panels.
    let lines = svg.lines().filter(|line| line.starts_with("<polyline") && line.contains("stroke-width=\"2\""));
    let (vanilla, other): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains("#BC4C00"));
    for pieces in [vanilla, other] {
        let points: usize = pieces.iter().map(|line| line.matches(',').count()).sum();
        assert!(pieces.len() >= 3 && points > 300, "{pieces:?}");
    }
}

#[test]
fn what_packets_wait_for_is_drawn_from_a_trace() {
    // The small ping of tests/ping.rs, with a disk so fast that the interrupt handler falls behind.
    let machine = "ping-8g+disk.device.bandwidth_bytes_per_s=15360000000+disk.device.queue.nr_requests=64\
                   +disk.device.queue.max_request_pages=32";
    let svg = drawn(
        "--plot",
        &[
            "compare",
            "ping+packets=40+hogs=8+apart_ms=5",
            "--kernels",
            "2.6.23-rc5,2.6.23-rc5-pagevec",
            "--scale",
            "1/64",
            "--machine",
            machine,
            "--rows",
            "rtt",
        ],
    );
    has(
        &svg,
        &[
            "2.6.23-rc5-pagevec\n",
            "packets\n",
            "disk requests\n",
            " ms without interrupts\n",
            "waits for the LRU lock\n",
        ],
    );
}

#[test]
fn an_ablation_and_variants_are_drawn_as_bars() {
    let ablation = ["ablate", "parallelio", "--from", "mm1-mmotm-20130606", "--to", "mm1-lessdisrupt-v1", "--rows"];
    let svg = drawn("--plot", &[&ablation[..], &["kswapd pages scanned", "--scale", "1/32"]].concat());
    has(&svg, &["this difference alone\n", "share of the way in %\n", " %\n"]);
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = folder.path().join("small.toml");
    let text = "about = \"a\"\nmachine = \"randread-512m\"\nworkload = \"randread\"\nkernels = [\"highwater\"]\n\
                variant_rows = [\"Hit ratio\"]\n[params]\noperations = 2000\n\
                [[variant]]\nname = \"a larger file\"\nset = { \"params.file_percent\" = '800' }\n";
    fs::write(&experiment, text).expect("a temporary file");
    let svg = drawn("--plot", &["variants", experiment.to_str().expect("UTF-8"), "--scale", "1/64"]);
    has(&svg, &["Hit ratio, %\n", "as it is\n", "a larger file\n"]);
    let strips = ["variants", experiment.to_str().expect("UTF-8"), "--scale", "1/64"];
    has(&drawn("--memory-map", &strips), &["physical memory by variant", "as it is\n", "a larger file\n", "MiB\n"]);
}

#[test]
fn a_flame_graph_is_drawn_without_a_profile_being_written() {
    let svg = drawn("--flamegraph", &["run", "randread", "--kernel", "highwater", "--scale", "1/64", "--rows", "hit"]);
    has(&svg, &["randread: virtual CPU time", "kswapd0", "balance_pgdat"]);
    let columns = ["compare", "randread", "--scale", "1/64", "--runs", "2", "--set", "params.operations=500"];
    let svg = drawn("--flamegraph-difference", &[&columns[..], &["--kernels", "6.1-classic,6.1-mglru"]].concat());
    has(&svg, &["virtual CPU time of 6.1-mglru", ", and what it differs by from 6.1-classic", "2 runs added up"]);
}

#[test]
fn a_picture_has_an_ending_that_viewers_know_and_a_file_of_its_own() {
    let one = ["run", "randread", "--kernel", "highwater", "--flamegraph-difference", "one.svg"];
    assert!(highwater(&one).unwrap_err().contains("expected two columns"));
    for option in ["--plot", "--flamegraph"] {
        let message = highwater(&["run", "randread", "--kernel", "highwater", option, "a.png"]).unwrap_err();
        assert_eq!(message, format!("Some(2) error: {option} writes SVG: a.png should end in .svg\n"));
        assert!(!Path::new("a.png").exists());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("both.svg");
    let file = file.to_str().expect("UTF-8");
    let message =
        highwater(&["run", "randread", "--kernel", "highwater", "--plot", file, "--flamegraph", file]).unwrap_err();
    assert!(message.contains("--plot and --flamegraph name the same file"), "{message}");
    let message = highwater(&[
        "ablate", "randread", "--from", "a", "--to", "b", "--rows", "hit", "--plot", file, "--output", file,
    ]);
    assert!(message.unwrap_err().contains("--output and --plot name the same file"));
}
