//! Encryption of blocks, with a key that is lost when the process ends.
//!
//! The cipher is AES-256-GCM-SIV, applied page by page. The nonce of each write is unique for the key. The nonce and
//! the tag stay in memory, so that decryption fails for a changed block and for a block of an earlier write. The tag
//! replaces a checksum.
//!
//! The thread that carries out a write encrypts the page into separate memory, so that readers can continue to use the
//! frame. After a read the page is decrypted in its frame, before the engine gets the completion.

use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Key, Nonce, Tag};
use engine::page_cache::Segments;
use machine::{BLOCK_BYTES, Request};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of 64-bit words that the cipher keeps for a block: one for the number of the block's last write, two for the
/// tag of its encryption.
const WORDS: usize = 3;

/// An encrypted block, in memory aligned for O_DIRECT.
#[repr(C, align(4096))]
pub(super) struct Sealed(pub(super) [u8; BLOCK_BYTES]);

/// The cipher of one encrypted device: its key, and the nonce and tag of each block's last write.
pub(super) struct Cipher {
    cipher: Aes256GcmSiv,
    /// Number of blocks encrypted so far. Each block gets the next number as its nonce. At a million blocks a second,
    /// 2^64 numbers last for half a million years.
    writes: AtomicU64,
    /// [`WORDS`] words for each block: the number of the block's last write (the nonce), and the authentication tag of
    /// that write. The number is 0 if the block was never written.
    blocks: Segments<AtomicU64>,
}

impl Cipher {
    /// Creates a cipher with a new random key.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn new() -> io::Result<Self> {
        let mut key = Key::<Aes256GcmSiv>::default();
        getrandom::fill(&mut key)?;
        let cipher = Aes256GcmSiv::new(&key);
        // The cipher keeps the only copy of the key, and clears it when the cipher is dropped.
        key.fill(0);
        std::hint::black_box(&key);
        Ok(Self { cipher, writes: AtomicU64::new(0), blocks: Segments::default() })
    }

    /// Encrypts `bytes` in place for a block, and remembers nonce and tag. Returns `None` if the system grants no
    /// memory for nonce and tag.
    pub(super) fn seal(&self, block: u64, bytes: &mut [u8; BLOCK_BYTES]) -> Option<()> {
        let first = block as usize * WORDS;
        let words = [0, 1, 2].map(|word| self.blocks.try_get_or_make(first + word));
        let [Some(write), Some(low), Some(high)] = words else { return None };
        let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let tag = self.cipher.encrypt_inout_detached(&nonce(number), &[], bytes.as_mut_slice().into());
        let tag = u128::from_le_bytes(tag.expect("a page is not too long").into());
        // Relaxed stores are enough: the engine orders a read of the block after the end of this write.
        low.store(tag as u64, Ordering::Relaxed);
        high.store((tag >> 64) as u64, Ordering::Relaxed);
        write.store(number, Ordering::Relaxed);
        Some(())
    }

    /// Decrypts `bytes`, which were read from a block, in place. Returns `false` if the bytes that were read differ
    /// from those that were last written to the block. The contents of `bytes` are then useless.
    #[must_use]
    pub(super) fn open(&self, block: u64, bytes: &mut [u8; BLOCK_BYTES]) -> bool {
        let first = block as usize * WORDS;
        let [number, low, high] =
            [0, 1, 2].map(|word| self.blocks.get(first + word).map_or(0, |word| word.load(Ordering::Relaxed)));
        let tag = Tag::from((u128::from(high) << 64 | u128::from(low)).to_le_bytes());
        number > 0 && self.cipher.decrypt_inout_detached(&nonce(number), &[], bytes.as_mut_slice().into(), &tag).is_ok()
    }

    /// Forgets nonces and tags of the blocks of a request whose write failed.
    pub(super) fn forget(&self, request: &Request) {
        for block in request.block..request.block + request.frames.len() as u64 {
            if let Some(write) = self.blocks.get(block as usize * WORDS) {
                write.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_write_of_a_block_opens_it() {
        let cipher = Cipher::new().expect("there are random numbers");
        let plain = [7; BLOCK_BYTES];
        let seal = |block| {
            let mut bytes = plain;
            cipher.seal(block, &mut bytes).expect("there is memory");
            bytes
        };
        let opens = |block, sealed: &[u8; BLOCK_BYTES]| {
            let mut bytes = *sealed;
            cipher.open(block, &mut bytes) && bytes == plain
        };
        let (first, second, other) = (seal(5), seal(5), seal(70_000));
        assert!(first != second && second != other && second != plain);
        assert!(opens(5, &second) && opens(70_000, &other));
        assert!(!opens(5, &first) && !opens(5, &other) && !opens(6, &second), "an earlier write, or another's");
        let mut changed = second;
        changed[4095] ^= 1;
        assert!(!opens(5, &changed));
        let request = Request {
            device: machine::DeviceId(0),
            operation: machine::Operation::Write,
            block: 5,
            frames: vec![machine::FrameNumber(0)],
            is_sync: true,
        };
        cipher.forget(&request);
        assert!(!opens(5, &second) && opens(70_000, &other));
    }

    #[test]
    fn no_two_ciphers_have_one_key() {
        let seal = || {
            let mut bytes = [7; BLOCK_BYTES];
            Cipher::new().expect("there are random numbers").seal(1, &mut bytes).expect("there is memory");
            bytes
        };
        assert_ne!(seal(), seal());
    }
}
