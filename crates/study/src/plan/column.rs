//! Names of columns, and the command that repeats one job of a column.

use std::collections::BTreeMap;
use std::path::Path;

use engine::kernel::Origin;

use super::{Request, Subject, sets::OF_MACHINE};
use catalogue::ground::{Ground, Start};
use catalogue::{difference, find};
use figures::cgroup::Version;
use report::Column;

/// Makes a column, named after its kernel and its changes. The ground's name comes first, unless all runs are
/// simulated.
pub(super) fn column(subject: &Subject<'_>, grounds: &[Ground]) -> Column {
    let Subject { named, setup, ground, image, is_one_of_images, .. } = *subject;
    let image = image.filter(|_| is_one_of_images).and_then(Path::file_name);
    let of_image = image.map_or_else(String::new, |name| format!("@{}", name.display())).replace("@vmlinuz-", "@");
    let (kernel, running) = (&named.kernel, grounds::running_kernel(ground));
    let changed = kernel.settings.iter().filter(|setting| running.is_none() && setting.origin == Origin::Set);
    let of_kernel =
        changed.map(|setting| (format!("{}.{}", setting.section, setting.key), difference::plain(&setting.value)));
    let set: BTreeMap<String, String> = of_kernel.chain(setup.set.clone()).collect();
    let kernel = running.unwrap_or_else(|| kernel.name.clone());
    let changes: String = set.iter().map(|(key, value)| format!("+{key}={value}")).collect();
    Column {
        id: if grounds == [Ground::Sim] {
            format!("{kernel}{changes}")
        } else {
            format!("{ground}-{kernel}{changes}{of_image}")
        },
        comparable: ground == Ground::Sim && !find::is_file(&named.word) && set.is_empty(),
        set,
        ..Column::new(&kernel, ground)
    }
}

/// Makes the ids of columns unique: if several columns have the same id, `#2` is appended to that of the second, `#3`
/// to that of the third, and so on.
pub(super) fn number(columns: &mut [Column]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for column in columns {
        let times = seen.entry(column.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            column.id = format!("{}#{times}", column.id);
        }
    }
}

/// Returns a command line of `highwater run` that repeats the subject's job with the seed `seed`.
pub(super) fn replay(request: &Request, subject: &Subject<'_>, seed: u64) -> String {
    let Subject { named, setup, ground, image, .. } = *subject;
    let mut command =
        format!("highwater run {} --kernel {} --seed {seed}", quoted(&setup.experiment_word), quoted(&named.word));
    if let Some(image) = image {
        command.push_str(&format!(" --kernel-image {}", quoted(&image.display().to_string())));
        let modules = request.place.kernel_modules.as_ref();
        let modules = modules.map(|folder| format!(" --kernel-modules {}", quoted(&folder.display().to_string())));
        command.push_str(&modules.unwrap_or_default());
        let Start { append, cgroup, counts_instructions } = &request.place.start;
        if !append.is_empty() {
            command.push_str(&format!(" --kernel-append {}", quoted(append)));
        }
        if *cgroup == Version::V1 {
            command.push_str(" --cgroup-version 1");
        }
        command.push_str(if *counts_instructions { " --icount" } else { "" });
    }
    if ground.is_timed_by_the_wall() {
        command.push_str(&format!(" --on {ground} --dir {}", quoted(&request.place.folder.display().to_string())));
        command.push_str(if request.place.is_limited { "" } else { " --no-limit" });
        command.push_str(if request.place.makes_swap { " --swap" } else { "" });
    }
    let is_changed = !request.groups.is_empty() || setup.set.keys().any(|key| key.starts_with(OF_MACHINE));
    if request.machine.is_some() || is_changed {
        command.push_str(&format!(" --machine {}", quoted(&setup.machine_word)));
    }
    if let Some(scale) = request.scale.filter(|scale| !scale.is_full()) {
        command.push_str(&format!(" --scale {scale}"));
    }
    command
}

/// Returns a word quoted for a shell.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+,:@%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
