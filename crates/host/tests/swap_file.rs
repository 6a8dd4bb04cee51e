//! Tests of the swap file's creation: a missing file is created, an old swap file is replaced, and a file that is no
//! swap file is refused.

mod common;

use common::builder;
use highwater::machine::{SwapFile, SwapFileError};
use highwater::{Error, IoError, Memory, Region};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

const PAGE: u64 = 4096;

#[test]
fn a_swap_file_is_made_and_made_anew_in_another_size() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("swap");
    let made = SwapFile::open(&path, 100 * PAGE + 17).expect("there is room");
    assert_eq!((made.slots(), made.bytes()), (100, 101 * PAGE));
    let status = fs::metadata(&path).expect("it was made");
    assert_eq!((status.len(), status.permissions().mode() & 0o777), (101 * PAGE, 0o600));
    assert!(status.blocks() * 512 >= 101 * PAGE, "{} blocks of 512 bytes are allocated", status.blocks());

    let error = SwapFile::open(&path, PAGE).expect_err("it is in use");
    assert!(matches!(error, SwapFileError::InUse { .. }), "{error}");
    drop(made.into_parts());

    for pages in [300, 50] {
        let again = SwapFile::open(&path, pages * PAGE).expect("nobody uses it");
        assert_eq!(u64::from(again.slots()), pages);
        assert_eq!(fs::metadata(&path).expect("it is there").len(), (pages + 1) * PAGE);
    }
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
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("there is room");
    let others =
        [(directory.path(), "a folder"), (&socket, "a socket"), (Path::new("/dev/zero"), "a character device")];
    for (path, what) in others {
        let error = SwapFile::open(path, PAGE).expect_err("it is no file");
        assert!(matches!(&error, SwapFileError::Foreign { found, .. } if found == what), "{error}");
    }
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
        // The file was made, so the disk has more than 16 TiB of room.
        Ok(file) => assert_eq!(u64::from(file.slots()), too_large / PAGE),
    }
}

/// A file of another user is not replaced, because that user could read swapped pages by an open descriptor.
#[test]
fn a_file_of_another_user_is_never_swap() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("swap");
    fs::write(&path, "").expect("there is room");
    if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
        return println!("skipped: only root can make a file of another user");
    }
    let error = SwapFile::open(&path, 2 * PAGE).expect_err("it is another user's").to_string();
    let expected = "not a swap file but a file of another user (65534); it was not touched";
    assert_eq!(error, format!("{}: {expected}", path.display()));
    assert_eq!(fs::metadata(&path).expect("it is there").len(), 0);
}

/// An existing swap file is replaced by a new file. A process that still has the old file open sees no swapped pages.
#[test]
fn a_swap_file_that_is_there_is_made_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("swap");
    drop(SwapFile::open(&path, 2 * PAGE).expect("there is room"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let before = fs::File::open(&path).expect("it is ours");
    let (file, _in_use) = SwapFile::open(&path, 2 * PAGE).expect("nobody uses it").into_parts();
    file.write_all_at(b"secret", PAGE).expect("there is room");
    let mut found = [0; 6];
    let _ = before.read_at(&mut found, PAGE).expect("it is open");
    assert_eq!(found, [0; 6], "what a descriptor of before reads");
    assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);

    let (path, link) = (directory.path().join("second"), directory.path().join("link"));
    drop(SwapFile::open(&path, PAGE).expect("there is room"));
    fs::hard_link(&path, &link).expect("there is room");
    let error = SwapFile::open(&path, PAGE).expect_err("it has another name").to_string();
    assert!(error.ends_with("not a swap file but a file with 2 names; it was not touched"), "{error}");
}

#[test]
fn an_unnamed_swap_file_is_in_no_folder() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, _in_use) = SwapFile::unnamed(directory.path(), 100 * PAGE + 17).expect("there is room").into_parts();
    let status = file.metadata().expect("it is open");
    assert_eq!((status.len(), status.nlink(), status.mode() & 0o777), (101 * PAGE, 0, 0o600));
    assert!(status.blocks() * 512 >= 101 * PAGE, "{} blocks of 512 bytes are allocated", status.blocks());
    assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 0);
    let nowhere = directory.path().join("nowhere");
    let error = SwapFile::unnamed(&nowhere, PAGE).expect_err("no such folder").to_string();
    assert!(error.starts_with(&format!("{}: cannot make the swap file: ", nowhere.display())), "{error}");
    assert!(matches!(SwapFile::unnamed(directory.path(), 1), Err(SwapFileError::Size { .. })));
}

/// Another process truncates the swap file, and later writes extend it again, with a hole. A reader of a lost page gets
/// an error and never wrong bytes. All other pages are intact.
#[test]
fn a_page_that_a_truncated_swap_file_lost_is_an_error_and_never_wrong() {
    for encrypts in [false, true] {
        truncate(encrypts);
    }
}

fn truncate(encrypts: bool) {
    const PAGES: u64 = 3000;
    // The truncated file ends within a block. The system fills the rest of this block with zeroes.
    const END: u64 = 500 * PAGE + 1000;
    let folder = common::folder();
    let path = folder.path().join("swap");
    let memory = builder().size(4 << 20).swap(32 << 20).swap_file(&path).encrypt_swap(encrypts).start().unwrap();
    let (region, other) = (memory.anonymous(PAGES * PAGE).unwrap(), memory.anonymous(PAGES * PAGE).unwrap());
    let page = |number: u64| (number + 1).to_le_bytes().repeat(PAGE as usize / 8);
    (0..PAGES).for_each(|number| region.write_at(&page(number), number * PAGE).unwrap());
    fs::File::options().write(true).open(&path).unwrap().set_len(END).unwrap();
    (0..PAGES).for_each(|number| other.write_at(&page(number + PAGES), number * PAGE).unwrap());
    assert!(fs::metadata(&path).unwrap().len() > END, "swapping goes on");

    let mut found = vec![0; PAGE as usize];
    let mut lost = [0, 0];
    for _ in 0..2 {
        for number in 0..PAGES {
            match region.read_at(&mut found, number * PAGE) {
                Ok(()) => assert!(found == page(number), "page {number} is wrong"),
                Err(Error::SwapRead { source: IoError::Truncated, .. }) => lost[0] += 1,
                Err(error) => panic!("page {number}: {error}"),
            }
            match other.read_at(&mut found, number * PAGE) {
                Ok(()) => assert!(found == page(number + PAGES), "page {number} of the other region is wrong"),
                Err(Error::SwapRead { source: IoError::Truncated, .. }) => lost[1] += 1,
                Err(error) => panic!("page {number} of the other region: {error}"),
            }
        }
    }
    assert!((1000..2 * (PAGES - 400)).contains(&lost[0]), "{lost:?} reads of lost pages");
    assert_eq!(lost[1], 0, "what is swapped later is there");
}

/// The first bytes of every page that these tests write.
const STAMP: &[u8; 16] = b"plain as a stamp";

/// Returns a memory with swap at `path`, and a region of three times its size whose pages all begin with [`STAMP`].
fn stamped(path: &Path, encrypts: bool) -> (Memory, Region) {
    let memory = builder().size(4 << 20).swap(32 << 20).swap_file(path).encrypt_swap(encrypts).start().unwrap();
    let region = memory.anonymous(STAMPED * PAGE).unwrap();
    (0..STAMPED).for_each(|number| region.write_at(&stamped_page(number), number * PAGE).unwrap());
    (memory, region)
}

const STAMPED: u64 = 3000;

/// Returns the contents of page `number`. They begin with [`STAMP`], and pages 2n and 2n + 1 are equal.
fn stamped_page(number: u64) -> Vec<u8> {
    let mut page = (number / 2).to_le_bytes().repeat(PAGE as usize / 8);
    page[..16].copy_from_slice(STAMP);
    page
}

/// Returns the non-zero blocks of a swap file, without its header.
fn blocks(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let blocks = bytes.chunks(PAGE as usize).skip(1).filter(|block| block.iter().any(|&byte| byte != 0));
    blocks.map(<[u8]>::to_vec).collect()
}

#[test]
fn an_encrypted_swap_file_shows_nothing_and_gives_back_all() {
    let folder = common::folder();
    let path = folder.path().join("swap");
    let found = |encrypts| {
        let (memory, region) = stamped(&path, encrypts);
        // All pages are read and written twice, so that slots of the swap file are used again for other pages.
        for _ in 0..2 {
            let mut found = vec![0; PAGE as usize];
            for number in 0..STAMPED {
                region.read_at(&mut found, number * PAGE).unwrap();
                assert!(found == stamped_page(number), "page {number} is wrong");
                region.write_at(&found, number * PAGE).unwrap();
            }
        }
        assert!(memory.vmstat().get("pswpin") > STAMPED);
        let blocks = blocks(&path);
        assert!(blocks.len() > 1000, "{} pages are swapped", blocks.len());
        let of_stamp = blocks.iter().filter(|block| block.windows(16).any(|bytes| bytes == STAMP)).count();
        let different: HashSet<_> = blocks.iter().collect();
        (of_stamp, blocks.len() - different.len())
    };
    let (stamps, equals) = found(false);
    assert!(stamps > 1000 && equals > 300, "{stamps}, {equals}: pages are swapped as they are");
    assert_eq!(found(true), (0, 0), "stamps, and blocks that are equal though their pages are");
}

#[test]
fn a_page_of_encrypted_swap_that_was_changed_is_an_error() {
    let folder = common::folder();
    let path = folder.path().join("swap");
    let (memory, region) = stamped(&path, true);
    let file = fs::File::options().read(true).write(true).open(&path).unwrap();
    // One bit is flipped in each of a hundred slots, and two hundred other slots exchange their contents in pairs.
    let mut block = vec![0; PAGE as usize];
    for slot in 100..200 {
        file.read_exact_at(&mut block, slot * PAGE).unwrap();
        block[(slot % PAGE) as usize * 7] ^= 1 << (slot % 8);
        file.write_all_at(&block, slot * PAGE).unwrap();
    }
    let mut other = vec![0; PAGE as usize];
    for slot in 200..300 {
        file.read_exact_at(&mut block, slot * PAGE).unwrap();
        file.read_exact_at(&mut other, (slot + 100) * PAGE).unwrap();
        file.write_all_at(&other, slot * PAGE).unwrap();
        file.write_all_at(&block, (slot + 100) * PAGE).unwrap();
    }
    let (mut wrong, mut found) = (0, vec![0; PAGE as usize]);
    for number in 0..STAMPED {
        match region.read_at(&mut found, number * PAGE) {
            Ok(()) => assert!(found == stamped_page(number), "page {number} is wrong"),
            Err(Error::SwapRead { source: IoError::Checksum, .. }) => wrong += 1,
            Err(error) => panic!("page {number}: {error}"),
        }
    }
    drop(memory);
    assert!((200..=300).contains(&wrong), "{wrong} errors for 300 changed pages, most of them in use");
}
