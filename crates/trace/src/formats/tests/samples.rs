//! A sample of each format of records and tables.

use super::{files, read, read_as, short};
use crate::formats::{self, ALL};
use crate::operation::Operation::{Close, Delete, Load, Open, Punch, Read, Store, Sync, Write};
use crate::read::{Options, stream_all};
use crate::request::{Flags, Kind};

fn vscsi_1(len: u32, command: u16, block: u64, time: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(7_u32.to_le_bytes());
    record.extend(len.to_le_bytes());
    record.extend(1_u32.to_le_bytes());
    record.extend(command.to_le_bytes());
    record.extend(0x0104_u16.to_le_bytes());
    record.extend(block.to_le_bytes());
    record.extend(time.to_le_bytes());
    record
}

fn vscsi_2(len: u32, command: u16, block: u64, time: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(command.to_le_bytes());
    record.extend(0x0201_u16.to_le_bytes());
    record.extend(7_u32.to_le_bytes());
    record.extend(len.to_le_bytes());
    record.extend(1_u32.to_le_bytes());
    record.extend(block.to_le_bytes());
    record.extend(time.to_le_bytes());
    record.extend(99_u64.to_le_bytes());
    record
}

pub(super) fn oracle(seconds: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
    let mut record = seconds.to_le_bytes().to_vec();
    record.extend(object.to_le_bytes());
    record.extend(size.to_le_bytes());
    record.extend(next.to_le_bytes());
    record
}

pub(super) fn lcs_head(version: u64) -> Vec<u8> {
    let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
    let mut head = vec![0; 8192];
    head[..8].copy_from_slice(&magic);
    head[8..16].copy_from_slice(&version.to_le_bytes());
    head[8184..].copy_from_slice(&magic);
    head
}

/// Returns a sample of each format, with the format's name.
pub(super) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let joined = |parts: &[Vec<u8>]| parts.concat();
    let mut lcs = lcs_head(3);
    for (object, operation) in [(5_u64, 1_u32), (6, 3), (5, 9)] {
        lcs.extend(10_u32.to_le_bytes());
        lcs.extend(object.to_le_bytes());
        lcs.extend(100_i64.to_le_bytes());
        lcs.extend((operation | 4 << 8).to_le_bytes());
        lcs.extend(60_u32.to_le_bytes());
        lcs.extend((-1_i64).to_le_bytes());
    }
    vec![
        ("lcs", lcs),
        ("vscsi-2", joined(&[vscsi_2(512, 0x28, 9, 1_000_000), vscsi_2(4096, 0x8a, 16, 1_000_500)])),
        ("vscsi-1", joined(&[vscsi_1(512, 0x2a, 9, 1_000_000), vscsi_1(4096, 0x28, 16, 1_000_500)])),
        ("oracleGeneral", joined(&[oracle(5, 77, 10, 2), oracle(5, 78, 20, -1), oracle(6, 77, 10, i64::MAX)])),
        ("fio-2", b"fio version 2 iolog\n/d/a add\n/d/a open\n/d/a write 0 4096\n/d/a wait 250 0\n/d/a read 4096 512\n/d/a sync 0 0\n/d/a close\n".to_vec()),
        ("fio-3", b"fio version 3 iolog\n10 /d/a add\n20 /d/a open\n30 /d/a read 8192 4096\n40 /d/a trim 0 4096\n50 /d/a datasync 0 0\n60 /d/a close\n".to_vec()),
        ("damo", b"base_time_absolute: 8 m 59.809 s\n\nmonitoring_start:                0 ns\nmonitoring_end:            104.599 ms\nmonitoring_duration:       104.599 ms\ntarget_id: 18446623438842320000\nnr_regions: 3\n563ebaa00000-563ebc99e000(  31.617 MiB):        1\n7f938d7e1000-7f938ddfc000(   6.105 MiB):        0\n\nmonitoring_start:          104.599 ms\nmonitoring_end:            1 m 208.590 ms\nmonitoring_duration:       103.991 ms\ntarget_id: 18446623438842320000\nnr_regions: 1\n# start_addr     end_addr        length  nr_accesses   age\n7fff66b0a000-7fff66bb2000 ( 672.000 KiB)           5    -1\n".to_vec()),
        ("blkparse", b"  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n  8,0    3        2     0.000001829   697  Q  WS 223490 + 8 [kjournald]\n  8,0    3        4     0.000500000   697  D   W 223490 + 8 [kjournald]\n  8,0    1        5     0.001000000   700  Q   R 16 + 256 [a program]\n  8,0    1        5     0.002000000   700  Q FWS [a program]\n  8,16   1        6     0.003000000   700  Q  DS 64 + 8 [a program]\n  8,0    1        7     0.003000000   700  m   N cfq700S\nCPU0 (8,0):\n Reads Queued:           1,        4KiB\n".to_vec()),
        ("iotracer", b"2024-01-15 10:30:45.000100,READ,1234,cat,/etc/a,4096,77,,8192,1235\n2024-01-15 10:30:45.000200,OPEN,1234,cat,\"/etc/b,c\",0,78,O_RDONLY,,\n2024-01-15 10:30:45.000300,WRITE,1234,cat,b,100,78,,,1234\n2024-01-15 10:30:45.000400,GETATTR,1234,cat,b,0,78,,,1234\n".to_vec()),
        ("msr", b"128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,0,Write,2822144000,4096,116\n".to_vec()),
        ("twitter", b"0,nz:u:a,10,200,1,get,0\n1,nz:u:b,c,10,0,2,set,3600\n2,nz:u:a,10,200,1,delete,0\n".to_vec()),
        ("csv", b"version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633898.5,28,4096,42932746\n".to_vec()),
        ("keys", b"17\nalpha\n17\n018446744073709551616\n".to_vec()),
    ]
}

#[test]
fn samples_are_recognised_and_read() {
    for (name, bytes) in all() {
        let (requests, stream) = read(&bytes);
        assert_eq!((stream.format().name, stream.counts().unparsed), (name, 0), "{:?}", stream.counts());
        assert!(!requests.is_empty());
        assert_eq!(stream.counts().requests, requests.len() as u64);
        let (again, _) = read_as(&bytes, name);
        assert_eq!(again, requests);
    }
    let with_sample: Vec<_> = all().iter().map(|(name, _)| *name).chain(["strace", "ftrace"]).collect();
    assert!(ALL.iter().all(|format| with_sample.contains(&format.name)), "a format has no sample");
    assert!(formats::by_name("nothing").unwrap_err().contains("oracleGeneral"));
}

fn sample(name: &str) -> Vec<u8> {
    all().into_iter().find(|(one, _)| *one == name).unwrap().1
}

#[test]
fn records_of_disks() {
    let (requests, stream) = read(&sample("vscsi-1"));
    assert_eq!(short(&requests), [(0, Write, 0, 9 * 512, 512), (500, Read, 0, 16 * 512, 4096)]);
    assert_eq!((stream.metadata()["start_us"].as_u64(), files(&stream)), (Some(1_000_000), vec!["disk".to_owned()]));
    let (requests, _) = read(&sample("vscsi-2"));
    assert_eq!(short(&requests), [(0, Read, 0, 9 * 512, 512), (500, Write, 0, 16 * 512, 4096)]);
    let (requests, stream) = read(&sample("msr"));
    assert_eq!(short(&requests), [(0, Read, 0, 383_496_192, 32768), (1_332_053, Write, 1, 2_822_144_000, 4096)]);
    assert_eq!(files(&stream), ["hm.1", "hm.0"]);
}

#[test]
fn objects_have_keys_and_sizes() {
    let (requests, stream) = read(&sample("oracleGeneral"));
    assert_eq!(stream.kind(), Kind::Objects);
    assert_eq!(short(&requests), [(0, Read, 0, 77, 10), (0, Read, 0, 78, 20), (1_000_000, Read, 0, 77, 10)]);
    let (requests, _) = read(&sample("lcs"));
    assert_eq!(short(&requests), [(0, Read, 0, 5, 100), (0, Write, 0, 6, 100), (0, Delete, 0, 5, 100)]);
    assert_eq!(requests[0].task, 4);
    for (version, width) in [(1, 24), (2, 28), (4, 40), (5, 44), (6, 52), (7, 68), (8, 100)] {
        let mut bytes = lcs_head(version);
        bytes.extend(vec![0; 2 * width]);
        let (requests, stream) = read(&bytes);
        assert_eq!((requests.len(), stream.counts().unparsed), (2, 0), "version {version}");
    }
    let (requests, _) = read(&sample("twitter"));
    assert_eq!(
        requests.iter().map(|one| (one.operation, one.len)).collect::<Vec<_>>(),
        [(Read, 210), (Write, 10), (Delete, 210)]
    );
    assert!(requests[0].key() == requests[2].key() && requests[0].key() != requests[1].key());
    let (requests, _) = read(&sample("keys"));
    assert_eq!((requests[0].key(), requests[2].key(), requests[0].len), (17, 17, 1));
    assert!(requests[1].key() != 17 && requests[3].key() != requests[1].key());
}

#[test]
fn logs_of_fio() {
    let (requests, stream) = read(&sample("fio-2"));
    let expected = [
        (0, Open, 0, 0, 0),
        (0, Write, 0, 0, 4096),
        (250, Read, 0, 4096, 512),
        (250, Sync, 0, 0, 0),
        (250, Close, 0, 0, 0),
    ];
    assert_eq!((short(&requests), files(&stream)), (expected.to_vec(), vec!["/d/a".to_owned()]));
    let (requests, _) = read(&sample("fio-3"));
    let expected = [
        (0, Open, 0, 0, 0),
        (10, Read, 0, 8192, 4096),
        (20, Punch, 0, 0, 4096),
        (30, Sync, 0, 0, 0),
        (40, Close, 0, 0, 0),
    ];
    assert_eq!(short(&requests), expected);
}

#[test]
fn regions_of_damon() {
    let (requests, stream) = read(&sample("damo"));
    let expected = [
        (0, Load, 0, 0x563e_baa0_0000, 0x1f9_e000),
        // 1 min 208.590 ms less 104.599 ms.
        (60_103_991, Load, 0, 0x7fff_66b0_a000, 0xa_8000),
    ];
    assert_eq!((short(&requests), files(&stream)), (expected.to_vec(), vec!["target 18446623438842320000".to_owned()]));
}

#[test]
fn events_of_block_layers() {
    let (requests, stream) = read(&sample("blkparse"));
    let expected = [
        (0, Write, 0, 223_490 * 512, 4096),
        (999, Read, 0, 16 * 512, 131_072),
        (1999, Sync, 0, 0, 0),
        (2999, Punch, 1, 64 * 512, 4096),
    ];
    assert_eq!((short(&requests), files(&stream)), (expected.to_vec(), vec!["8,0".to_owned(), "8,16".to_owned()]));
    assert_eq!(requests[0].flags, Flags::SYNC);
    // Without queued requests, the issued ones are taken.
    let issued = b"8,0 0 1 0.5 1 D R 8 + 8 [x]\n8,0 0 2 0.6 0 C R 8 + 8 [0]\n";
    assert_eq!(short(&read(issued).0), [(0, Read, 0, 4096, 4096)]);
}

#[test]
fn files_of_io_tracer() {
    let (requests, stream) = read(&sample("iotracer"));
    let expected = [(0, Read, 0, 8192, 4096), (100, Open, 1, 0, 0), (200, Write, 1, 0, 100)];
    assert_eq!(
        (short(&requests), files(&stream)),
        (expected.to_vec(), vec!["/etc/a".to_owned(), "/etc/b,c".to_owned()])
    );
    let disk = b"2024-01-15 10:30:45.000100,1,x,2048,read|sync|ahead,8192,0.5,1,0,1,8:0,,,\n2024-01-15 10:30:45.000200,1,x,8,write,4096,0.5,1,0,1,8:1,,,\n";
    let (requests, stream) = read(disk);
    assert_eq!(short(&requests), [(0, Read, 0, 1_048_576, 8192), (100, Write, 1, 4096, 4096)]);
    assert_eq!(
        (requests[0].flags, files(&stream)),
        (Flags::SYNC | Flags::READAHEAD, vec!["8:0".to_owned(), "8:1".to_owned()])
    );
    let cache = b"2024-01-15 10:30:45,1,x,MISS,9,3,100,0,5,2\n2024-01-15 10:30:46,1,x,EVICT,9,3,100,0,5,1\n2024-01-15 10:30:46,1,x,DIRTY,9,,100,0,5,1\n";
    assert_eq!(short(&read(cache).0), [(0, Read, 0, 12288, 8192), (1_000_000, Write, 0, 0, 4096)]);
    let faults =
        b"2024-01-15 10:30:45,1,2,x,READ,MAJOR,9,3,0x7f00,5\n2024-01-15 10:30:45,1,2,x,WRITE,MINOR,9,4,0x7f00,5\n";
    assert_eq!(short(&read(faults).0), [(0, Load, 0, 12288, 4096), (0, Store, 0, 16384, 4096)]);
    // An old version has a latency before the offset.
    let old =
        b"2024-01-15 10:30:45,READ,1,cat,/a,512,7,,900,4096,1\n2024-01-15 10:30:45,READ,1,cat,/a,512,7,,900,8192,1\n";
    assert_eq!(short(&read(old).0), [(0, Read, 0, 4096, 512), (0, Read, 0, 8192, 512)]);
}

#[test]
fn columns_of_csv() {
    let (requests, _) = read(&sample("csv"));
    assert_eq!(short(&requests), [(0, Write, 0, 42_932_745 * 512, 512), (500_000, Read, 0, 42_932_746 * 512, 4096)]);
    let by_user = |columns: &str, bytes: &[u8]| {
        let options = Options { columns: columns.parse().unwrap(), ..Options::default() };
        stream_all(bytes, &options)
            .map(|(requests, stream)| (short(&requests), files(&stream), stream.counts().unparsed))
    };
    let named = by_user(
        "time=when:ms,offset=where:4096,size=much:1024,file=what,op=do",
        b"what;when;do;where;much\nx;10;w;2;4\n\"y;z\";20;READ;3;4\n",
    );
    assert_eq!(
        named.unwrap(),
        (vec![(0, Write, 0, 8192, 4096), (10_000, Read, 1, 12288, 4096)], vec!["x".to_owned(), "y;z".to_owned()], 0)
    );
    // Numbers of columns, with and without a heading.
    for heading in ["", "a\tb\tc\n"] {
        let text = format!("{heading}1.5\t3\t512\n2.5\t4\t512\n");
        let found = by_user("time=1,offset=2:512,size=3", text.as_bytes()).unwrap();
        assert_eq!(found.0, [(0, Read, 0, 1536, 512), (1_000_000, Read, 0, 2048, 512)]);
    }
    let objects = by_user("key=1,size=2", b"a,5\n7,6\n").unwrap();
    assert_eq!((objects.0.len(), objects.0[1]), (2, (0, Read, 0, 7, 6)));
    assert!(by_user("offset=none", b"a,b\n1,2\n").unwrap_err().what.contains("the first line has a, b"));
    assert!(by_user("time=1", b"a,b\n1,2\n").unwrap_err().what.contains("no column has offsets or keys"));
    assert!(by_user("time=1:years,offset=2", b"a,b\n1,2\n").unwrap_err().what.contains("no unit of time"));
    for bad in ["", "x", "foo=1", "time=", "time=1,time=2"] {
        assert!(bad.parse::<crate::read::Columns>().is_err(), "{bad}");
    }
}

#[test]
fn what_is_not_understood_is_counted_and_shown() {
    let text = b"0,a,1,1,1,get,0\n0,b,1,1,1,get,0\nnonsense\n1,c,1,1,1,frob,0\n1,d,1,1,1,get,0\n";
    let (requests, stream) = read(text);
    let counts = stream.counts();
    assert_eq!((requests.len(), counts.pieces, counts.unparsed, counts.is_doubtful()), (3, 5, 2, true));
    let shown: Vec<_> = counts.first.iter().map(|one| (one.number, one.offset, one.text.as_str())).collect();
    assert_eq!(shown, [(3, 32, "nonsense"), (4, 41, "1,c,1,1,1,frob,0")]);
    assert!(counts.first[1].why.contains("`frob`: expected an operation"), "{:?}", counts.first);
    let long: String = (0..300).map(|n| format!("0,k{n},1,1,1,get,0\n")).collect();
    let (_, stream) = read((long + "?\n").as_bytes());
    assert!(!stream.counts().is_doubtful() && stream.counts().unparsed == 1);
}

#[test]
fn cut_inputs_give_what_they_have() {
    for (name, bytes) in all() {
        let (whole, _) = read(&bytes);
        for end in 1..bytes.len() {
            let options = Options { from: Some(name.to_owned()), ..Options::default() };
            // A head that is cut is refused.
            let Ok((requests, stream)) = stream_all(&bytes[..end], &options) else {
                assert!(name == "lcs" && end < 8192 || name == "csv" && end < 25, "{name}: {end}");
                continue;
            };
            assert!(requests.len() <= whole.len(), "{name}: {end}");
            assert!(stream.counts().unparsed <= 1 || name == "damo", "{name}: {end}: {:?}", stream.counts());
        }
    }
    let (requests, stream) = read_as(&sample("vscsi-1")[..40], "vscsi-1");
    assert_eq!(
        (requests.len(), stream.counts().first[0].why.as_str()),
        (1, "the input ends after 8 bytes of this record")
    );
}

#[test]
fn empty_and_foreign_inputs_are_refused() {
    let refused = |bytes: &[u8]| stream_all(bytes, &Options::default()).unwrap_err().to_string();
    assert_eq!(refused(b""), "test: it is empty: expected a trace");
    assert!(refused(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0").contains("not recognised"));
    assert!(refused(b"Dear reader, this is a letter.\nIt has lines.\n").contains("--from"));
    assert!(refused(b"a,b\n1,2\n").contains("not recognised"));
    let mut bad_end = lcs_head(1);
    bad_end[8190] = 0;
    assert!(refused(&bad_end).contains("byte 8184"));
    assert!(refused(&lcs_head(9)).contains("version 9"));
    let options = Options { from: Some("vcsi".to_owned()), ..Options::default() };
    assert!(stream_all(b"x", &options).unwrap_err().what.contains("expected one of"));
}

#[test]
fn packed_inputs_are_unpacked() {
    use std::io::Write as _;
    let plain = sample("twitter");
    let (expected, _) = read(&plain);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(read(&gzip).0, expected);
    // The parts of a multi-part file are read one after the other.
    assert_eq!(read(&[gzip.clone(), gzip.clone()].concat()).0.len(), 2 * expected.len());
    // Packed by zstd 1.5.4 and xz 5.4.1.
    assert_eq!(read(ZSTD).0, expected);
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
    assert_eq!(read(&[skipped, ZSTD, ZSTD].concat()).0.len(), 2 * expected.len());
    assert_eq!(read(XZ).0, expected);
    for packed in [&gzip[..], ZSTD, XZ] {
        for end in 12..packed.len() {
            let _ = stream_all(&packed[..end], &Options::default())
                .map(|(requests, _)| assert!(requests.len() <= expected.len()));
        }
    }
    assert!(stream_all(&gzip[..gzip.len() - 12], &Options::default()).is_err());
}

pub(super) const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x24\x4e\xfd\x01\x00\x34\x03\x30\x2c\x6e\x7a\x3a\x75\x3a\x61\x2c\x31\x30\x2c\x32\x30\x30\x2c\x31\x2c\x67\x65\x74\x2c\x30\x0a\x31\x62\x2c\x63\x30\x2c\x32\x2c\x73\x65\x74\x2c\x33\x36\x30\x30\x0a\x32\x64\x65\x6c\x65\x74\x65\x2c\x30\x0a\x03\x00\x56\x8d\xea\xc9\x46\x8b\xcd\x31\x73\x19\x80\x34";
pub(super) const XZ: &[u8] = b"\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5\xa3\xe0\x00\x4d\x00\x39\x5d\x00\x18\x0b\x0a\x48\x2f\xf7\x9c\x1c\x35\xcd\xed\x86\x69\x4a\x85\x3a\xf7\xc3\xd8\xe0\x6c\x62\x58\x26\xc9\x06\x11\xda\xa9\x92\xc0\xca\x32\x67\xb0\x2f\xf6\x72\x0c\x5a\x6d\x81\xb6\xd6\x49\x8c\xe8\x6d\x44\x8b\x32\xa1\xa6\xac\x78\x89\x00\x00\x00\x00\x00\x3f\x35\xcd\x01\x98\x6b\x78\x1b\x00\x01\x55\x4e\xad\x70\x2e\x76\x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a";
