//! Detection of rotating disks. The kernel's `queue/rotational` is 1 unless a driver sets it to 0, and drivers for
//! hypervisors, RAID controllers and USB bridges often do not. So a disk's name, maker and bus are examined, too: they
//! may show that the disk does not rotate.

use std::fs;
use std::path::Path;

/// Prefixes of the names of devices that never rotate, each with the kind of device.
const NAMES: [(&str, &str); 10] = [
    ("vd", "a virtio disk: the host decides what is behind it"),
    ("xvd", "a disk of Xen: the host decides what is behind it"),
    ("nvme", "an NVMe drive"),
    ("mmcblk", "an SD card or eMMC"),
    ("zram", "compressed memory"),
    ("pmem", "persistent memory"),
    ("ram", "memory"),
    ("loop", "a file"),
    ("nbd", "a disk behind a network"),
    ("rbd", "a disk behind a network"),
];

/// Words in lower case, each with a kind of disk that certainly does not rotate. A disk is of this kind if the word
/// occurs in its vendor or model. Most of these disks are virtual.
const MAKERS: [(&str, &str); 14] = [
    ("qemu", "a disk of QEMU"),
    ("vbox", "a disk of VirtualBox"),
    ("vmware", "a disk of VMware"),
    ("msft virtual disk", "a disk of Hyper-V"),
    ("virtual disk", "a disk of a hypervisor"),
    ("virtual hd", "a disk of a hypervisor"),
    ("vdisk", "a disk of a hypervisor"),
    ("persistentdisk", "a disk of Google Compute Engine"),
    ("amazon elastic block", "a disk of Amazon EC2"),
    ("do volume", "a disk of DigitalOcean"),
    ("bhyve", "a disk of bhyve"),
    ("parallels", "a disk of Parallels"),
    ("ssd", "a solid-state drive"),
    ("nvme", "an NVMe drive"),
];

/// Beginnings of folder names in the paths, below /sys/devices, of a hypervisor's disks, each with the kind of disk.
const BUSES: [(&str, &str); 4] = [
    ("virtio", "a virtio disk: the host decides what is behind it"),
    ("vmbus", "a disk of Hyper-V: the host decides what is behind it"),
    ("vbd-", "a disk of Xen: the host decides what is behind it"),
    ("xen", "a disk of Xen: the host decides what is behind it"),
];

/// Returns the reason why a disk certainly does not rotate, even if its queue reports that it does; none if no reason
/// is known. `place` is the folder of the disk, or of a partition of it, below `/sys/devices`.
pub fn why_not(place: &Path) -> Option<String> {
    let disk = [Some(place), place.parent()].into_iter().flatten().find(|it| it.join("queue").is_dir())?;
    let name = disk.file_name()?.to_string_lossy();
    if let Some(below) = below(disk) {
        let why: Vec<String> = below.iter().map(|disk| why_not(disk)).collect::<Option<_>>()?;
        return Some(format!("it lies on {}", why.first()?));
    }
    // A name has a letter or a digit after the kind: `vda`, `xvdb`, `nvme0n1`, `loop0`.
    let is_kind = |kind: &str| {
        name.strip_prefix(kind).is_some_and(|rest| match kind {
            "vd" | "xvd" => rest.bytes().all(|c| c.is_ascii_lowercase()),
            _ => rest.starts_with(|c: char| c.is_ascii_digit()),
        })
    };
    if let Some((_, what)) = NAMES.iter().find(|(kind, _)| is_kind(kind)) {
        return Some(format!("{name} is {what}"));
    }
    let word = |file: &str| fs::read_to_string(disk.join("device").join(file)).unwrap_or_default().trim().to_owned();
    let maker = format!("{} {}", word("vendor"), word("model"));
    let maker = maker.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((_, what)) = MAKERS.iter().find(|(known, _)| maker.to_lowercase().contains(known)) {
        return Some(format!("{name} is {what} (`{maker}`)"));
    }
    let folders = disk.components().map(|folder| folder.as_os_str().to_string_lossy().to_lowercase());
    let mut folders = folders.take(disk.components().count() - 1);
    let bus = folders.find_map(|folder| BUSES.iter().find(|(bus, _)| folder.starts_with(bus)))?;
    Some(format!("{name} is {}", bus.1))
}

/// Returns the disks that a disk of the device mapper or of `md` consists of; none for other disks.
fn below(disk: &Path) -> Option<Vec<std::path::PathBuf>> {
    let slaves = fs::read_dir(disk.join("slaves")).ok()?;
    let mut disks: Vec<_> = slaves.flatten().filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect();
    disks.sort();
    (!disks.is_empty()).then_some(disks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the folder of a disk at `path` below `root`. `files` has the names and texts of the files in it.
    fn disk(root: &Path, path: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let place = root.join(path);
        fs::create_dir_all(place.join("queue")).unwrap();
        fs::write(place.join("queue/rotational"), "1\n").unwrap();
        for (file, text) in files {
            let file = place.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        place
    }

    #[test]
    fn virtual_disks_are_told_by_their_name_their_maker_and_their_bus() {
        let root = tempfile::tempdir().unwrap();
        let why = |path: &str, maker: &[(&str, &str)]| why_not(&disk(root.path(), path, maker));
        let told = |path: &str, maker: &[(&str, &str)]| why(path, maker).unwrap_or_else(|| panic!("{path} turns"));
        assert!(told("pci0/virtio1/block/vda", &[]).starts_with("vda is a virtio disk"));
        assert!(told("vbd-51712/block/xvda", &[]).contains("Xen"));
        assert!(told("virtual/block/loop7", &[]).contains("a file"));
        assert!(told("pci0/nvme/nvme0/nvme0n1", &[]).contains("NVMe"));
        let qemu = [("device/vendor", "ATA     \n"), ("device/model", "QEMU HARDDISK   \n")];
        assert_eq!(told("ata1/block/sda", &qemu), "sda is a disk of QEMU (`ATA QEMU HARDDISK`)");
        assert!(told("ata2/block/sdb", &[("device/model", "VBOX HARDDISK")]).contains("VirtualBox"));
        let vmware = [("device/vendor", "VMware  "), ("device/model", "Virtual disk    ")];
        assert!(told("host0/block/sdc", &vmware).contains("VMware"));
        assert!(
            told("host1/block/sdd", &[("device/vendor", "Msft"), ("device/model", "Virtual Disk")]).contains("Hyper-V")
        );
        assert!(told("host2/block/sde", &[("device/model", "Samsung SSD 870")]).contains("solid-state"));
        assert!(told("VMBUS:01/vmbus_0_11/host0/block/sdf", &[]).contains("Hyper-V"));
        assert!(told("virtio5/host3/block/sdg", &[]).contains("virtio"), "virtio-scsi");
        assert_eq!(why("ata3/block/sdh", &[("device/vendor", "ATA"), ("device/model", "WDC WD40EFRX-68N")]), None);
        assert_eq!(why("ata4/block/sdi", &[]), None, "nothing is known of it");
    }

    #[test]
    fn a_partition_and_a_mapped_disk_are_what_they_lie_on() {
        let root = tempfile::tempdir().unwrap();
        let vda = disk(root.path(), "virtio1/block/vda", &[("vda2/size", "8\n")]);
        assert!(why_not(&vda.join("vda2")).is_some_and(|why| why.starts_with("vda is a virtio disk")));
        let sda = disk(root.path(), "ata1/block/sda", &[("device/model", "ST4000DM004")]);
        let mapped = |name: &str, on: &[&Path]| {
            let mapped = disk(root.path(), &format!("virtual/block/{name}"), &[]);
            fs::create_dir_all(mapped.join("slaves")).unwrap();
            for (n, on) in on.iter().enumerate() {
                std::os::unix::fs::symlink(on, mapped.join("slaves").join(n.to_string())).unwrap();
            }
            why_not(&mapped)
        };
        assert!(mapped("dm-0", &[&vda]).is_some_and(|why| why.starts_with("it lies on vda")));
        assert_eq!(mapped("dm-1", &[&sda]), None);
        assert_eq!(mapped("md0", &[&vda, &sda]), None, "one of both turns");
    }
}
