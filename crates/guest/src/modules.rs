//! Kernel modules for a guest: the drivers that are not built into its kernel image, and the modules on which these
//! depend.
//!
//! A package that was unpacked but not installed has no `modules.dep`, so the dependencies of a module are read from
//! the module itself.

use flate2::read::GzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names of the drivers without which a guest does not work: for its disks, the serial port to the outside, and the
/// file system.
pub const NEEDED: [&str; 4] = ["virtio_pci", "virtio_blk", "virtio_console", "ext4"];

/// The driver of swap in compressed memory.
pub const ZRAM: &str = "zram";

/// Modules with the checksums that ext4 needs. They must be listed here, because the kernel would ask a program of the
/// system to load them, and a guest has no such program. Some releases lack one or both of these modules, because the
/// checksums are built in or part of a library.
const ASKED_FOR: [&str; 2] = ["crc32c_generic", "crc32c_cryptoapi"];

/// The module files of one kernel release, by name, and the names of its built-in drivers.
#[derive(Clone, Debug)]
pub struct Modules {
    /// The folder of the release's module files: `…/lib/modules/RELEASE`.
    pub folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

/// A module of the kernel, unpacked so that it can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The name of the module, with `_` instead of `-`.
    pub name: String,
    /// The contents of the module, unpacked.
    pub bytes: Vec<u8>,
}

impl Modules {
    /// Finds the modules of a release. If the folder `given` is set, searches only there. Otherwise searches the
    /// image's own folder first, because some packages put the image among its modules. The folders `lib/modules` above
    /// the image come next, and those of this computer come last.
    #[must_use]
    pub fn find(image: &Path, release: &str, given: Option<&Path>) -> Option<Self> {
        let near = |folder: &Path| ["lib/modules", "usr/lib/modules"].map(|below| folder.join(below).join(release));
        let above: Vec<&Path> = image.ancestors().skip(1).take(3).collect();
        let places: Vec<PathBuf> = match given {
            Some(folder) => [folder.to_owned()].into_iter().chain(near(folder)).collect(),
            None => {
                let beside = image.parent().filter(|folder| folder.ends_with(release)).map(Path::to_owned);
                beside.into_iter().chain(above.into_iter().chain([Path::new("/")]).flat_map(near)).collect()
            }
        };
        let folder = places.into_iter().find(|folder| folder.join("kernel").is_dir())?;
        let mut files = BTreeMap::new();
        collect(&folder.join("kernel"), &mut files);
        let built_in = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let built_in = built_in.lines().filter_map(|line| name_of(Path::new(line))).collect();
        Some(Self { folder, files, built_in })
    }

    /// Returns whether a driver is built into the kernel image, as `modules.builtin` says.
    #[must_use]
    pub fn is_built_in(&self, name: &str) -> bool {
        self.built_in.contains(name)
    }

    /// Returns whether there is a module of this name, or a driver of this name in the kernel image.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.is_built_in(name) || self.files.contains_key(name)
    }

    /// Reads the modules `names` and the modules on which they depend, and returns them in the order in which they can
    /// be loaded. Leaves out modules that are built into the kernel image, and modules that are not found.
    ///
    /// # Errors
    /// When a module cannot be read or unpacked. The error says so in words for the user.
    pub fn load_order(&self, names: &[&str]) -> Result<Vec<Module>, String> {
        let mut order = Vec::new();
        ASKED_FOR.iter().chain(names).try_for_each(|name| self.add(name, &mut order))?;
        Ok(order)
    }

    fn add(&self, name: &str, order: &mut Vec<Module>) -> Result<(), String> {
        let Some(path) = self.files.get(name).filter(|_| !order.iter().any(|module| module.name == name)) else {
            return Ok(());
        };
        let bytes = unpacked(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for needed in depends(&bytes) {
            self.add(&needed, order)?;
        }
        order.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

/// Returns the name of the module in a file, such as `virtio_blk` for `virtio-blk.ko.xz`; `None` if the file is no
/// module.
fn name_of(path: &Path) -> Option<String> {
    let (name, packed) = path.file_name()?.to_str()?.split_once(".ko")?;
    (packed.is_empty() || packed.starts_with('.')).then(|| name.replace('-', "_"))
}

fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, files);
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
}

fn unpacked(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    let mut out = Vec::new();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => GzDecoder::new(&bytes[..]).read_to_end(&mut out).map(drop)?,
        Some("xz") => lzma_rs::xz_decompress(&mut Cursor::new(&bytes), &mut out).map_err(io::Error::other)?,
        Some("zst") => return unpacked_by_zstd(path),
        Some("ko") => return Ok(bytes),
        _ => return Err(io::Error::other("packed in a way that is not read here: .gz, .xz and .zst are")),
    }
    Ok(out)
}

/// Unpacks a file with the program `zstd`. A computer whose modules are packed by `zstd` usually has this program.
fn unpacked_by_zstd(path: &Path) -> io::Result<Vec<u8>> {
    let output = Command::new("zstd").args(["-dcq", "--"]).arg(path).stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("there is no zstd to unpack it: the package zstd has it"),
        _ => error,
    })?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Returns the names of the modules on which `module` depends, found in the text `depends=a,b` in the module's bytes.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|bytes| bytes == KEY) else { return Vec::new() };
    let text = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(text).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_those_that_they_depend_on() {
        let folder = tempfile::tempdir().unwrap();
        let modules = folder.path().join("lib/modules/6.1.0-1-test");
        fs::create_dir_all(modules.join("kernel/drivers/block")).unwrap();
        let write = |name: &str, depends: &str| {
            let text = format!("\x7fELF\0name={name}\0depends={depends}\0");
            fs::write(modules.join(format!("kernel/drivers/block/{name}.ko")), text).unwrap();
        };
        write("virtio-blk", "virtio-ring,virtio");
        write("virtio-ring", "virtio");
        write("virtio", "");
        fs::write(modules.join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        let image = folder.path().join("boot/vmlinuz");
        let found = Modules::find(&image, "6.1.0-1-test", None).unwrap();
        let order = found.load_order(&NEEDED).unwrap();
        let names: Vec<&str> = order.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_blk"]);
        assert!(found.is_built_in("ext4") && found.has("virtio_blk") && !found.has("virtio_console"));
        assert!(Modules::find(&image, "6.2", None).is_none());
        assert!(Modules::find(Path::new("/"), "6.2", Some(&modules)).is_some(), "the folder itself");
        assert!(Modules::find(&modules.join("vmlinuz"), "6.1.0-1-test", None).is_some(), "beside the image");
    }

    #[test]
    fn a_module_that_cannot_be_unpacked_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("virtio.ko.zst");
        fs::write(&path, "not packed").unwrap();
        assert!(!unpacked(&path).unwrap_err().to_string().is_empty());
        let strange = folder.path().join("virtio.ko.rar");
        fs::write(&strange, "").unwrap();
        assert!(unpacked(&strange).unwrap_err().to_string().contains(".gz, .xz and .zst are"));
    }
}
