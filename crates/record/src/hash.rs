//! Hides names: replaces each part of a path by a keyed hash. Equal names get equal hashes, and folders stay folders.
//! Without the key, nobody can check whether a hash belongs to a guessed name.

use sha2::{Digest as _, Sha256};
use std::io;

/// A hasher that replaces names by hashes under a secret key.
#[derive(Clone)]
pub struct Hasher {
    key: Vec<u8>,
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    /// Creates a hasher with a random key. Only this hasher has the key, so nobody can find out names by hashing
    /// guesses later.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut key = vec![0; 32];
        rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())?;
        Ok(Self { key })
    }

    /// Creates a hasher with the key `key`. Equal names have equal hashes in all records whose hashers have equal keys.
    #[must_use]
    pub fn with_key(key: &[u8]) -> Self {
        Self { key: key.to_vec() }
    }

    /// Returns the hash of a word, such as one part of a path, as 16 hexadecimal digits.
    #[must_use]
    pub fn word(&self, word: &[u8]) -> String {
        // The key goes in twice, as in HMAC: a hash cannot be continued.
        let inner = Sha256::new().chain_update(Sha256::digest(&self.key)).chain_update(word).finalize();
        let outer = Sha256::new().chain_update(inner).chain_update(Sha256::digest(&self.key)).finalize();
        outer[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns a path with each part hashed.
    #[must_use]
    pub fn path(&self, path: &[u8]) -> Vec<u8> {
        let parts = path.split(|byte| *byte == b'/');
        let hashed = parts.map(|part| if part.is_empty() { String::new() } else { self.word(part) });
        hashed.collect::<Vec<_>>().join("/").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_stay_equal_and_folders_stay_folders() {
        let hasher = Hasher::random().unwrap();
        let (one, two) = (hasher.path(b"/home/a/x.db"), hasher.path(b"/home/a/y.db"));
        let folder = |path: &[u8]| path[..path.len() - 17].to_vec();
        assert_eq!(folder(&one), folder(&two));
        assert_ne!(one, two);
        assert_eq!(one.iter().filter(|byte| **byte == b'/').count(), 3);
        assert_eq!(hasher.path(b"/home/a/x.db"), one);
        assert_ne!(Hasher::random().unwrap().path(b"/home/a/x.db"), one);
        assert_eq!(Hasher::with_key(b"k").word(b"x"), Hasher::with_key(b"k").word(b"x"));
    }
}
