//! The swap file: made, taken over, and never what it is not.

use highwater::machine::{SwapFile, SwapFileError};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const PAGE: u64 = 4096;

#[test]
fn a_swap_file_is_made_taken_over_and_resized() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("swap");
    let made = SwapFile::open(&path, 100 * PAGE + 17).expect("there is room");
    assert_eq!((made.slots(), made.path()), (100, path.as_path()));
    let status = fs::metadata(&path).expect("it was made");
    assert_eq!((status.len(), status.permissions().mode() & 0o777), (101 * PAGE, 0o600));
    assert!(status.blocks() * 512 >= 101 * PAGE, "{} blocks of 512 bytes are allocated", status.blocks());
    let identity = made.identity();

    let error = SwapFile::open(&path, PAGE).expect_err("it is in use");
    assert!(matches!(error, SwapFileError::InUse { .. }), "{error}");
    drop(made.into_parts());

    for pages in [300, 50] {
        let again = SwapFile::open(&path, pages * PAGE).expect("nobody uses it");
        assert_eq!((u64::from(again.slots()), again.identity()), (pages, identity));
        assert_eq!(fs::metadata(&path).expect("it is there").len(), (pages + 1) * PAGE);
    }
    fs::remove_file(&path).expect("it is there");
    assert_ne!(SwapFile::open(&path, PAGE).expect("there is room").identity(), identity);
}

#[test]
fn a_file_with_other_contents_is_never_touched() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let mut linux = vec![0; 8192];
    linux[4086..4096].copy_from_slice(b"SWAPSPACE2");
    let mut damaged = vec![0; 4096];
    damaged[..16].copy_from_slice(b"highwater swap\x00\x01");
    damaged[20] = 1;
    let cases: [(&[u8], &str); 5] = [
        (b"SQLite format 3\0 and more", "a file that begins with \"SQLite format 3\\x00\""),
        (&[0; 100_000], "zeroes"),
        (&linux, "a swap area of Linux"),
        (&damaged, "a Highwater swap file of another version, or a damaged one"),
        (b"x", "a file that begins with \"x\""),
    ];
    for (contents, found) in cases {
        fs::write(&path, contents).expect("there is room");
        let error = SwapFile::open(&path, 10 * PAGE).expect_err("it is something else");
        let expected = format!("{}: not a swap file but {found}; it was not touched", path.display());
        assert_eq!(error.to_string(), expected);
        assert!(fs::read(&path).expect("it is there") == contents);
    }
}

#[test]
fn an_empty_file_will_do_and_nothing_that_is_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("swap");
    fs::write(&path, "").expect("there is room");
    assert_eq!(SwapFile::open(&path, 2 * PAGE).expect("it is empty").slots(), 2);
    assert!(matches!(SwapFile::open(directory.path(), PAGE), Err(SwapFileError::Io { doing: "open", .. })));
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("there is room");
    assert!(matches!(SwapFile::open(&link, PAGE), Err(SwapFileError::Foreign { .. })));
    for bytes in [0, PAGE - 1, u64::MAX] {
        let error = SwapFile::open(&path, bytes).expect_err("no such size");
        assert!(matches!(error, SwapFileError::Size { .. }), "{error}");
    }
}

#[test]
fn a_swap_file_without_room_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("swap");
    let too_large = (u64::from(u32::MAX) - 1) * PAGE;
    match SwapFile::open(&path, too_large) {
        Err(error) => {
            assert!(matches!(error, SwapFileError::Allocate { .. }), "{error}");
            assert!(!path.exists());
        }
        // A disk of more than 16 TiB.
        Ok(file) => assert_eq!(u64::from(file.slots()), too_large / PAGE),
    }
}
