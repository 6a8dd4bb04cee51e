//! Tests of reports as one page, of saved reports, and of logs of MMTests as users have them: their contents, size, and
//! rendering in a browser. Without `chromium` the rendering is skipped with a message.

use lab::html::{Page, Part, Section};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Largest size of a page, bytes.
const PAGE_BYTES_MAX: usize = 2_000_000;

fn highwater(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the binary");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).expect("reports are UTF-8")
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the binary");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).expect("messages are UTF-8")
}

/// Runs a command that must succeed. Returns its warnings.
fn warned(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the binary");
    let told = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert!(output.status.success() && told.starts_with("warning: "), "{arguments:?}: {told}");
    told
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Returns the words in a page or a text, separated by single spaces.
fn words(text: &str) -> String {
    text.replace(['(', ')', '★', '–'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the visible text in a page.
fn seen(page: &str) -> String {
    let (mut text, mut is_in) = (String::new(), false);
    // A long name may have break opportunities within it.
    for c in page.replace("<wbr>", "").chars() {
        match c {
            '<' => {
                is_in = true;
                text.push(' ');
            }
            '>' => is_in = false,
            c if !is_in => text.push(c),
            _ => {}
        }
    }
    words(&text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

const COMPARED: [&str; 5] = ["compare", "randread", "--scale", "1/64", "--runs"];

#[test]
fn a_page_has_every_row_of_the_text_and_stays_small_and_alone() {
    let folder = folder();
    let arguments = [&COMPARED[..], &["2"]].concat();
    let text = highwater(folder.path(), &[&arguments[..], &["--all"]].concat());
    let page = highwater(folder.path(), &[&arguments[..], &["--format", "html"]].concat());
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    let flat = seen(&page);
    // The first lines are headings, which the page arranges in another way.
    let mut rows = 0;
    for line in text.lines().skip(3).filter(|line| !line.trim().is_empty()) {
        assert!(flat.contains(&words(line)), "`{line}` is not on the page");
        rows += 1;
    }
    assert!(rows > 30, "{text}");
    for word in
        ["Over time", "Latency", "Where time goes", "Kernels", "Machine", "highwater compare randread --scale 1/64"]
    {
        assert!(flat.contains(word), "{word}");
    }
    // The page shows the fingerprint of the run, although counters and a profile were recorded.
    assert!(flat.contains(&words(text.lines().find(|line| line.contains("fingerprint")).expect("one"))));
    for (n, part) in page.split("=\"http").enumerate().skip(1) {
        assert!(part.starts_with("://www.w3.org/"), "{n}: {}", &part[..60.min(part.len())]);
    }
    let lower = page.to_lowercase();
    assert!(["src=", "<link", "@import", "fetch(", "url(", "xmlhttprequest"].iter().all(|it| !lower.contains(it)));
}

/// An explanation of stalls needs no horizontal scrolling on a telephone.
#[test]
fn stalls_fit_a_narrow_page() {
    let folder = folder();
    let run = ["explain", "stall", "anon", "--kernel", "3.10-rc4-vanilla", "--scale", "1/64", "--most", "2"];
    let page = highwater(folder.path(), &[&run[..], &["--format", "html"]].concat());
    let flat = seen(&page);
    assert!(flat.contains("1. anon ") && flat.contains("asked order 0, movable, wait, io, fs"), "{flat}");
    for width in [390, 1440] {
        let within =
            "[...page.querySelectorAll('pre, .scroll')].filter((it) => it.scrollWidth > it.clientWidth).length";
        let expression = format!("{TOO_WIDE} + ' ' + {within}");
        let Some(said) = asked(folder.path(), &page, width, &expression) else { return };
        assert_eq!(said, "0 0 0", "{width}");
    }
}

#[test]
fn every_verb_that_reports_makes_a_page() {
    let folder = folder();
    let path = folder.path();
    let small = ["--scale", "1/64", "--format", "html"];
    let runs: [&[&str]; 2] = [
        &["run", "anon", "--kernel", "highwater"],
        &["ablate", "randread", "--from", "3.10-rc4-vanilla", "--to", "3.10-rc4-vanilla+lru.batch=3", "--rows", "Hit"],
    ];
    let simulated = runs.iter().map(|run| highwater(path, &[run, &small[..]].concat()));
    let texts: [&[&str]; 5] = [
        &["diff", "3.10-rc4-vanilla", "highwater"],
        &["explain", "parallelio"],
        &["explain", "mm1-mmotm-20130606"],
        &["explain", "parallelio-8g"],
        &["explain", "lru.swappiness"],
    ];
    let texts = texts.iter().map(|text| highwater(path, &[text, &["--format", "html"][..]].concat()));
    for page in simulated.chain(texts) {
        assert!(page.starts_with("<!DOCTYPE html>") && page.len() < PAGE_BYTES_MAX, "{}", &page[..80]);
        assert!(seen(&page).contains("Command highwater "), "no command");
    }
    let saved = highwater(path, &["run", "anon", "--kernel", "7.2-mglru", "--scale", "1/64", "--format", "json"]);
    fs::write(path.join("saved.json"), saved).expect("a temporary file");
    let page = highwater(path, &["doctor", "saved.json", "--format", "html"]);
    assert!(page.contains("anonymous-thrashing (illness)"), "{page}");
}

/// A note is shown only if a part of a table lies outside of the screen.
#[test]
fn a_table_that_is_wider_than_the_screen_says_so() {
    let folder = folder();
    let kernels = "highwater,7.2-mglru,6.18-classic,3.10-rc4-vanilla,mm1-mmotm-20130606";
    let compare = ["compare", "randread", "--scale", "1/64", "--kernels", kernels, "--rows", "Ops", "--format", "html"];
    let page = highwater(folder.path(), &compare);
    for (width, is_wide) in [(500, true), (1600, false)] {
        let Some(dom) = browser(folder.path(), &page, width, &[]) else { return };
        // The first frame has the table of figures. Other frames may be folded.
        let frame = &dom[dom.find("<div class=\"scroll").expect("a table")..];
        let class = frame.split('"').nth(1).expect("a class");
        assert_eq!(class.contains("wide"), is_wide, "{width}: {class}");
        let told = dom.matches("<p class=\"note sideways\">").count();
        assert_eq!(told > 0, is_wide, "{width}: told {told} times");
    }
}

#[test]
fn a_page_without_tables_has_no_filter_of_rows_and_long_names_may_break() {
    let folder = folder();
    let path = folder.path();
    let run = ["run", "anon", "--kernel", "7.2-mglru", "--scale", "1/64", "--format"];
    fs::write(path.join("saved.json"), highwater(path, &[&run[..], &["json"]].concat())).expect("a temporary file");
    let page = highwater(path, &["doctor", "saved.json", "--format", "html"]);
    assert!(!page.contains("id=\"filter\"") && !page.contains("<table"), "nothing to filter");
    browser(path, &page, 1440, &[]);
    let page = highwater(path, &[&run[..], &["html"]].concat());
    assert!(page.contains("id=\"filter\"") && page.contains("workingset_<wbr>refault_<wbr>file"), "{page}");
}

#[test]
fn names_that_are_scripts_do_not_run_and_saved_reports_are_columns() {
    let folder = folder();
    let path = folder.path();
    let saved = highwater(path, &["run", "anon", "--kernel", "highwater", "--scale", "1/64", "--format", "json"]);
    let evil = "</script><script>document.title='ran'</script><img src=x onerror=document.title='ran'>";
    let mut report: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    report["machine"] = evil.into();
    report["experiment"] = evil.into();
    report["columns"][0]["kernel"] = evil.into();
    report["rows"][0]["name"] = evil.into();
    fs::write(path.join("evil.json"), report.to_string()).expect("a temporary file");
    let page = highwater(path, &["report", "evil.json"]);
    assert!(!page.contains("<script>document") && !page.contains("<img"), "a name went through");
    assert!(seen(&page).contains("<script>document.title"), "the name is not shown");
    // The saved report is also shown as a column, in every form.
    let column = ["--scale", "1/64", "--column", "evil.json", "--column", "evil.json", "--kernels", "highwater"];
    for format in ["table", "json", "csv", "markdown", "html"] {
        let text = highwater(path, &[&["compare", "randread"], &column[..], &["--all", "--format", format]].concat());
        // Randread has no row of this name, and the saved report has no rate of reads.
        assert!(text.contains("Ops anon-slowest-task") && text.contains("Ops randread"), "{format}: {text}");
        assert!(
            format != "table" || text.lines().any(|line| line.starts_with("Ops randread ") && line.ends_with(" -"))
        );
    }
    assert!(
        refused(path, &["compare", "randread", "--column", "none.json"])
            .contains("cannot read none.json: no such file")
    );
    fs::write(path.join("other.json"), "{}").expect("a temporary file");
    let told = refused(path, &["compare", "randread", "--column", "other.json"]);
    assert!(told.contains("other.json: expected the JSON of `highwater run`, `compare`, `stat` or `import`"), "{told}");
    browser(path, &page, 1440, &["ran"]);
}

#[test]
fn a_report_takes_series_and_stacks() {
    let folder = folder();
    let path = folder.path();
    let run = ["run", "anon", "--kernel", "highwater", "--scale", "1/64", "--format", "json", "--output", "a.json"];
    highwater(path, &[&run[..], &["--series", "a.csv", "--every", "0.1", "--profile", "a.folded"]].concat());
    let page = highwater(path, &["report", "a.json", "a.csv", "a.folded"]);
    for word in ["Over time: a.csv", "Where time goes: a.folded", "Touch: share of operations"] {
        assert!(page.contains(word), "{word}");
    }
    assert!(refused(path, &["report", "a.json", "a.csv", "--format", "table"]).contains("only --format html draws"));
    assert!(refused(path, &["report", "a.folded", "--format", "json"]).contains("only --format html draws"));
    let dom = browser(path, &page, 1440, &[]);
    if let Some(dom) = dom {
        // All charts of the page are drawn, and there is a flame graph.
        assert_eq!(dom.matches("<canvas").count(), page.matches("data-chart=").count(), "charts that were not drawn");
        assert!(dom.matches("aria-label=\"run: ").count() == 1, "no flame graph");
    }
}

#[test]
fn what_is_written_as_mmtests_is_imported_again() {
    let folder = folder();
    let path = folder.path();
    for (experiment, kernel) in [("parallelio", "3.10-rc4-vanilla"), ("randread", "highwater")] {
        let run = ["run", experiment, "--kernel", kernel, "--scale", "1/64", "--format"];
        let json = highwater(path, &[&run[..], &["json"]].concat());
        highwater(path, &[&run[..], &["mmtests", "--output", experiment]].concat());
        let back = highwater(path, &["import", experiment]);
        let [there, back]: [serde_json::Value; 2] = [json, back].map(|text| serde_json::from_str(&text).expect("JSON"));
        let rows = |report: &serde_json::Value| report["rows"].as_array().expect("rows").clone();
        assert!(rows(&there).len() > 15, "{experiment}");
        let head = |report: &serde_json::Value| {
            let mut head = report.clone();
            head["rows"] = serde_json::Value::Null;
            head
        };
        assert_eq!(head(&there), head(&back), "{experiment}");
        for (there, back) in rows(&there).iter().zip(&rows(&back)) {
            for key in ["group", "name", "unit", "better", "format", "values"] {
                assert_eq!(there[key], back[key], "{experiment}");
            }
        }
        assert_eq!(rows(&there).len(), rows(&back).len(), "{experiment}");
    }
    let told = refused(path, &["import", "."]);
    assert!(told.contains("choose one of the tests with --test: parallelio, randread"), "{told}");
    assert!(refused(path, &["compare", "ping", "--format", "mmtests"]).contains("name it with --output"));
    let told = refused(path, &["compare", "ping", "--format", "mmtests", "--output", "randread"]);
    assert!(told.contains("cannot write to randread: the folder is not empty"), "{told}");
    // Measured columns beside simulated ones.
    highwater(path, &["import", "parallelio", "--output", "logs.json"]);
    let text =
        highwater(path, &["run", "parallelio", "--kernel", "highwater", "--scale", "1/64", "--column", "logs.json"]);
    assert!(text.contains("logs.json: parallelio, machine parallelio-8g, scale 1/64, seed 1, fingerprint "), "{text}");
    // The imported report has one run of its experiment. The folder also has other reports, and logs that MMTests
    // itself wrote.
    let run: serde_json::Value =
        serde_json::from_str(&highwater(path, &["import", ".", "--test", "parallelio"])).expect("JSON");
    assert_eq!((&run["columns"][0]["ground"], &run["scale"]), (&"sim".into(), &"1/64".into()));
    let run: serde_json::Value =
        serde_json::from_str(&highwater(path, &["import", "parallelio/3.10-rc4-vanilla"])).expect("JSON");
    assert_eq!((&run["columns"][0]["ground"], &run["scale"]), (&"sim".into(), &"1/64".into()));
    fs::remove_file(path.join("parallelio/highwater-report.json")).expect("it was written");
    let run: serde_json::Value = serde_json::from_str(&highwater(path, &["import", "parallelio"])).expect("JSON");
    assert_eq!((&run["columns"][0]["ground"], &run["machine"]), (&"linux".into(), &"that of the logs".into()));
}

#[test]
fn a_damaged_log_is_told_and_the_rest_imported() {
    let folder = folder();
    let path = folder.path();
    highwater(
        path,
        &["run", "randread", "--kernel", "highwater", "--scale", "1/64", "--format", "mmtests", "--output", "logs"],
    );
    let iteration = path.join("logs/highwater/iter-0");
    fs::write(iteration.join("iostat-randread"), "Device r/s\nsda 1\nsda 1\nsda ?\n").expect("a log");
    fs::write(iteration.join("proc-vmstat-randread"), "time: 1\npgfault 1\ntime: x\n").expect("a log");
    let rows = iteration.join("randread/logs/highwater-rows.log");
    let order = fs::read_to_string(&rows).expect("it was written");
    fs::write(&rows, [&order, "no array\n"].concat()).expect("a log");
    let told = warned(path, &["import", "logs"]);
    for (file, what) in [
        ("iostat-randread:4", "expected a number in column r/s: found `?`"),
        ("proc-vmstat-randread:3", "expected `time: SECONDS`: found `time: x`"),
        (
            &*format!("highwater-rows.log:{}", order.lines().count() + 1),
            "expected [group, name, unit, better, format, figure]",
        ),
    ] {
        assert!(told.contains(&format!("{file}: {what}")), "{file}: {told}");
    }
    let told = warned(path, &["doctor", "logs"]);
    assert!(told.contains("iostat-randread:4: expected a number"), "{told}");
    // A log packed by gzip, as MMTests packs, and a log that cannot be unpacked.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, order.as_bytes()).expect("memory takes all");
    let packed = packed.finish().expect("memory takes all");
    fs::remove_file(&rows).expect("it was written");
    let rows = rows.with_extension("log.gz");
    fs::write(&rows, &packed).expect("a log");
    let count =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON")["rows"].as_array().map(Vec::len);
    assert_eq!(count(&highwater(path, &["import", "logs"])), Some(order.lines().count()));
    fs::write(&rows, &packed[..packed.len() / 2]).expect("a log");
    let told = warned(path, &["import", "logs"]);
    assert!(told.contains("highwater-rows.log.gz: cannot be read: "), "{told}");
}

/// `import` writes a report and a series from the same logs. If one of them cannot be written, an older file of the
/// other must be left as it is.
#[cfg(target_os = "linux")]
#[test]
fn an_import_replaces_both_of_its_files_or_neither() {
    let folder = folder();
    let path = folder.path();
    let run = ["run", "randread", "--kernel", "highwater", "--scale", "1/64", "--format", "mmtests"];
    highwater(path, &[&run[..], &["--output", "logs"]].concat());
    let there = |name: &str| fs::read_to_string(path.join(name)).expect("it is there");
    let import = |files: [&str; 4]| {
        ["report.json", "series.csv"].iter().for_each(|name| fs::write(path.join(name), "old").expect("written"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(["import", "logs"]).args(files).current_dir(path).stdin(Stdio::null());
        command.output().expect("the binary").status.code()
    };
    // Without a log of counters over time there is no series to write.
    assert_eq!(import(["--output", "report.json", "--series", "series.csv"]), Some(2));
    assert_eq!((there("report.json"), there("series.csv")), ("old".to_owned(), "old".to_owned()));
    let monitor = path.join("logs/highwater/iter-0/proc-vmstat-randread");
    fs::write(monitor, "time: 10\npgfault 1\ntime: 20\npgfault 9\n").expect("a log");
    assert_eq!(import(["--output", "report.json", "--series", "/dev/full"]), Some(1));
    assert_eq!(there("report.json"), "old");
    assert_eq!(import(["--output", "/dev/full", "--series", "series.csv"]), Some(1));
    assert_eq!(there("series.csv"), "old");
    assert_eq!(import(["--output", "report.json", "--series", "series.csv"]), Some(0));
    assert!(there("report.json").starts_with('{') && there("series.csv").starts_with("column,"));
}

/// Loads an HTML page in Chromium without a network, in a window `width` pixels wide. Returns the document as HTML
/// after all scripts ran. Panics if it contains a `<title>` with one of `forbidden_titles`, because then a script in a
/// name has run. Prints a message and returns `None` if Chromium is not installed.
fn browser(folder: &Path, page: &str, width: u32, forbidden_titles: &[&str]) -> Option<String> {
    let Some(program) = chromium() else {
        eprintln!("skipped: no chromium is installed, so no browser looks at this page");
        return None;
    };
    let file = folder.join("page.html");
    fs::write(&file, page).expect("a temporary file");
    let profile = folder.join("profile");
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        "--dump-dom",
    ];
    let (out, told) = (folder.join("dom.html"), folder.join("told.txt"));
    let mut child = Command::new(program)
        .args(flags)
        .arg(format!("--window-size={width},1200"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).expect("a temporary file"))
        .stderr(fs::File::create(&told).expect("a temporary file"))
        .spawn()
        .expect("it was found");
    let started = Instant::now();
    while child.try_wait().expect("it is a child").is_none() {
        if started.elapsed() > Duration::from_secs(120) {
            child.kill().expect("it is a child");
            panic!("chromium does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let (dom, told) = (fs::read_to_string(&out).expect("UTF-8"), fs::read_to_string(&told).unwrap_or_default());
    let complaints: Vec<&str> = told.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    assert!(dom.contains("<main"), "chromium shows nothing: {told}");
    for title in forbidden_titles {
        assert!(!dom.contains(&format!("<title>{title}</title>")), "a script in a name ran");
    }
    Some(dom)
}

/// Returns the value of a JavaScript expression, evaluated in Chromium. In the expression, `page` is the document of
/// the HTML page `page`, which is shown in a frame `width` pixels wide. A frame is used because a browser window cannot
/// be that narrow. Returns `None` if Chromium is not installed.
fn asked(folder: &Path, page: &str, width: u32, expression: &str) -> Option<String> {
    let inner = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!DOCTYPE html><main></main><iframe style=\"width:{width}px;height:900px;border:0\" srcdoc=\"{inner}\"></iframe><script>\
         onload = () => {{ const frame = document.querySelector('iframe'), page = frame.contentDocument; \
         document.querySelector('main').textContent = {expression}; frame.remove(); }};</script>"
    );
    let dom = browser(folder, &frame, 1600, &[])?;
    let said = dom.split("<main>").nth(1).and_then(|rest| rest.split("</main>").next());
    Some(said.expect("a browser keeps its elements").to_owned())
}

/// A JavaScript expression that gives two numbers: by how many pixels a document is wider than its window, and how many
/// of its navigation links end outside of the window.
const TOO_WIDE: &str = "[page.documentElement.scrollWidth - page.documentElement.clientWidth, [...page.querySelectorAll('nav a')]\
                        .filter((it) => it.getBoundingClientRect().right > page.documentElement.clientWidth).length].join(' ')";

/// Renders a page with 24 sections, four for each of six experiments, as `compare` does for several experiments. At
/// each window width, no link to a section may reach beyond the window.
#[test]
fn links_to_many_sections_are_within_the_window_at_any_width() {
    let names = ["parallelio", "randread-under-a-long-name-of-somebody", "anon", "multibuild", "postmark", "streaming"];
    let section = |of: &&str, title: &&str| Section {
        of: Some((*of).to_owned()),
        ..Section::new(*title, vec![Part::Words("Words.".into())])
    };
    let titles = ["Figures", "Over time", "Latency", "Where time goes"];
    let sections = names.iter().flat_map(|of| titles.iter().map(move |title| section(of, title))).collect();
    let page = Page { title: "Many".into(), about: Vec::new(), sections }.render();
    assert_eq!(page.matches("<b>anon</b>").count(), 1, "an experiment is named once: {page}");
    assert!(page.contains("<h2 id=\"t9\">anon: Over time</h2>"), "{page}");
    let folder = folder();
    for width in [390, 800, 1440] {
        let Some(said) = asked(folder.path(), &page, width, TOO_WIDE) else { return };
        assert_eq!(said, "0 0", "{width}");
    }
}

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

#[test]
fn stacks_that_are_too_deep_are_told_with_their_line() {
    let folder = folder();
    fs::write(folder.path().join("deep.folded"), format!("a;b 1\n{} 5\n", vec!["f"; 20_000].join(";")))
        .expect("written");
    let told = refused(folder.path(), &["report", "deep.folded"]);
    assert_eq!(told, "error: deep.folded:2: expected at most 500 calls, one within the other\n");
}
