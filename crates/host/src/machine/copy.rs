//! Copying of pages by a loop of loads and stores, which is faster than `memcpy` for most targets.
//!
//! `memcpy` of the C library copies a page by one string instruction. If the address of the target is not a multiple of
//! 32, this instruction may take up to twice as long, and a buffer from an allocator may lie anywhere. A loop of plain
//! loads and stores takes the same time for every address, and lets the processor begin with later instructions.
//! docs/studies/library-limits.md has figures.

#![allow(unsafe_code)]

/// Bytes that one iteration of the loop copies: a cache line.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 64;

/// Least number of bytes that the loops of this module copy. A shorter copy is left to `memcpy`, which copies so few
/// bytes by a loop of its own and not by the string instruction.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 1024;

/// Copies `len` bytes from `from` to `to`.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline]
pub(super) unsafe fn copy_nonoverlapping(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= SHORT {
        let looped = len - len % BLOCK;
        // SAFETY: both ranges are parts of the caller's ranges, which are valid and do not overlap.
        unsafe {
            copy_blocks(from, to, looped);
            from.add(looped).copy_to_nonoverlapping(to.add(looped), len - looped);
        }
        return;
    }
    // SAFETY: the caller ensures the conditions of `copy_to_nonoverlapping`.
    unsafe { from.copy_to_nonoverlapping(to, len) }
}

/// Copies `len` bytes, a multiple of [`BLOCK`], in AVX registers if the processor has them, otherwise in SSE2
/// registers.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_blocks(from: *const u8, to: *mut u8, len: usize) {
    if is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX; the caller ensures the other conditions.
        unsafe { copy_blocks_avx(from, to, len) }
    } else {
        // SAFETY: the caller ensures all conditions of `copy_blocks_sse2`.
        unsafe { copy_blocks_sse2(from, to, len) }
    }
}

/// Copies `len` bytes, a multiple of [`BLOCK`], in SSE2 registers, which every x86-64 processor has.
///
/// # Safety
/// As for [`copy_blocks`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_blocks_sse2(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
    for block in (0..len).step_by(BLOCK) {
        // SAFETY: both blocks lie within the caller's `len` bytes. Neither needs to be aligned.
        unsafe {
            let (from, to) = (from.add(block).cast::<__m128i>(), to.add(block).cast::<__m128i>());
            let words: [__m128i; BLOCK / 16] = std::array::from_fn(|at| _mm_loadu_si128(from.add(at)));
            for (at, word) in words.into_iter().enumerate() {
                _mm_storeu_si128(to.add(at), word);
            }
        }
    }
}

/// Copies `len` bytes, a multiple of [`BLOCK`], in AVX registers. This takes half as many instructions as a copy in
/// SSE2 registers, so a processor that looks ahead some hundred instructions reaches the code after the copy while much
/// of the copy still waits for memory.
///
/// # Safety
/// As for [`copy_blocks`]; the processor must also have AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_blocks_avx(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_storeu_si256};
    for block in (0..len).step_by(BLOCK) {
        // SAFETY: both blocks lie within the caller's `len` bytes. Neither needs to be aligned.
        unsafe {
            let (from, to) = (from.add(block), to.add(block));
            let words = [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(BLOCK / 2).cast())];
            _mm256_storeu_si256(to.cast(), words[0]);
            _mm256_storeu_si256(to.add(BLOCK / 2).cast(), words[1]);
        }
    }
}

/// Copies all bytes of `from` to `to`.
///
/// # Panics
/// When the slices differ in length.
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "bytes copied to fewer or more");
    // SAFETY: both slices have the same length, and they do not overlap because `to` is an exclusive reference.
    unsafe { copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn blocks_are_copied_without_avx() {
        let from: Vec<u8> = (0..4200_u32).map(|at| (at * 31 % 251) as u8).collect();
        let mut to = vec![0; 4200];
        // SAFETY: both arrays have at least 4096 bytes after the skipped 7 or 9 bytes.
        unsafe { copy_blocks_sse2(from.as_ptr().add(7), to.as_mut_ptr().add(9), 4096) };
        assert_eq!(to[9..9 + 4096], from[7..7 + 4096]);
        assert!(to[..9].iter().chain(&to[9 + 4096..]).all(|byte| *byte == 0));
    }

    #[test]
    fn every_length_is_copied_from_and_to_any_place() {
        let from: Vec<u8> = (0..5000_u32).map(|at| (at * 31 % 251) as u8).collect();
        for len in [0, 1, 63, 1023, 1024, 1025, 1087, 1088, 2049, 4095, 4096, 4900] {
            for (at, to) in [(0, 0), (1, 0), (0, 1), (16, 16), (33, 99)] {
                let mut bytes = vec![0xee; 5000];
                copy(&from[at..at + len], &mut bytes[to..to + len]);
                assert!(bytes[..to].iter().chain(&bytes[to + len..]).all(|byte| *byte == 0xee), "{len} to {to}");
                assert_eq!(bytes[to..to + len], from[at..at + len], "{len} from {at} to {to}");
            }
        }
    }
}
