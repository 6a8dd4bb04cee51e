//! Stamps: the first eight bytes of each page, in frames and on devices.

use machine::{FrameNumber, Operation, PAGE_BYTES, Request};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

const STAMP_BYTES: usize = 8;

/// The stamp (first eight bytes) of each frame; `None` if the machine keeps no stamps.
pub(crate) struct Stamps(Option<RefCell<Vec<[u8; STAMP_BYTES]>>>);

impl Stamps {
    pub(crate) fn new(keep: bool, frames: usize) -> Self {
        Self(keep.then(|| RefCell::new(vec![[0; STAMP_BYTES]; frames])))
    }

    pub(crate) fn zero(&self, frame: FrameNumber) {
        if let Some(stamps) = &self.0 {
            stamps.borrow_mut()[frame.index()] = [0; STAMP_BYTES];
        }
    }

    pub(crate) fn copy(&self, from: FrameNumber, to: FrameNumber) {
        if let Some(stamps) = &self.0 {
            let mut stamps = stamps.borrow_mut();
            stamps[to.index()] = stamps[from.index()];
        }
    }

    pub(crate) fn write(&self, frame: FrameNumber, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= PAGE_BYTES, "{frame}: {} bytes at {offset} leave the page", bytes.len());
        if let Some(stamps) = &self.0 {
            let stamp = &mut stamps.borrow_mut()[frame.index()];
            for (held, new) in stamp.iter_mut().skip(offset).zip(bytes) {
                *held = *new;
            }
        }
    }

    pub(crate) fn read(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= PAGE_BYTES, "{frame}: {} bytes at {offset} leave the page", bytes.len());
        bytes.fill(0);
        if let Some(stamps) = &self.0 {
            let stamp = stamps.borrow()[frame.index()];
            for (new, held) in bytes.iter_mut().zip(stamp.iter().skip(offset)) {
                *new = *held;
            }
        }
    }
}

/// The stamp (first eight bytes) of each block of one device. A block that was never written has zeroes.
#[derive(Default)]
pub(crate) struct BlockStamps {
    written: BTreeMap<u64, [u8; STAMP_BYTES]>,
    /// The stamps of writes in flight, which reach the device when the write ends. The key is the first block of the
    /// write. Writes with the same first block are in order of submission.
    under_way: BTreeMap<u64, VecDeque<Vec<[u8; STAMP_BYTES]>>>,
}

impl BlockStamps {
    /// Records that a request was submitted. For a write, keeps the present stamps of the request's frames until the
    /// write has ended.
    pub(crate) fn submit(&mut self, frames: &Stamps, request: &Request) {
        let (Some(stamps), Operation::Write) = (&frames.0, request.operation) else { return };
        let stamps = stamps.borrow();
        let carried = request.frames.iter().map(|frame| stamps[frame.index()]).collect();
        self.under_way.entry(request.block).or_default().push_back(carried);
    }

    /// Returns whether a block has the stamp `stamp`, or a write in flight carries the stamp to it.
    pub(crate) fn has(&self, block: u64, stamp: [u8; STAMP_BYTES]) -> bool {
        let is_carried = |(first, writes): (&u64, &VecDeque<Vec<_>>)| {
            let at = (block - first) as usize;
            writes.iter().any(|carried: &Vec<[u8; STAMP_BYTES]>| carried.get(at) == Some(&stamp))
        };
        self.written.get(&block) == Some(&stamp) || self.under_way.range(..=block).any(is_carried)
    }

    /// Records that a request has ended. If it succeeded, stores the stamps of a write on the device, or copies the
    /// device's stamps into the frames of a read.
    pub(crate) fn complete(&mut self, frames: &Stamps, request: &Request, is_ok: bool) {
        let Some(stamps) = &frames.0 else { return };
        match request.operation {
            Operation::Write => {
                let queue = self.under_way.get_mut(&request.block).expect("a finished write was submitted");
                let same_len = queue.iter().position(|carried| carried.len() == request.frames.len());
                let carried = queue.remove(same_len.expect("a finished write was submitted")).expect("just found");
                if queue.is_empty() {
                    self.under_way.remove(&request.block);
                }
                if is_ok {
                    self.written.extend((request.block..).zip(carried));
                }
            }
            Operation::Read if is_ok => {
                let mut stamps = stamps.borrow_mut();
                for (block, frame) in (request.block..).zip(&request.frames) {
                    stamps[frame.index()] = self.written.get(&block).copied().unwrap_or_default();
                }
            }
            Operation::Read => {}
        }
    }
}
