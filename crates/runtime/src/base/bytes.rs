//! Bytes compared in words: the `memcmp` of a program without a C library looks at one at a time.

/// Returns whether both are the same.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let (words, rest) = a.as_chunks::<8>();
    let (others, tail) = b.as_chunks::<8>();
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    a.len() == b.len()
        && words.iter().zip(others).all(|(a, b)| word(a) == word(b))
        && rest.iter().zip(tail).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn each_byte_counts_and_so_does_the_length() {
        for len in 0..40 {
            let mut bytes: alloc::vec::Vec<u8> = (0..len).collect();
            let other = bytes.clone();
            assert!(same(&bytes, &other));
            for at in 0..bytes.len() {
                bytes[at] ^= 0x80;
                assert!(!same(&bytes, &other), "{at} of {len}");
                bytes[at] ^= 0x80;
                assert!(!same(&bytes, &other[..at]));
            }
        }
    }
}
