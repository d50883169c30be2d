//! Random bytes from the kernel.

/// Returns unpredictable bytes.
///
/// # Panics
/// If the kernel cannot provide randomness: no secret can be made then.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    bytes
}

/// Returns `N` random bytes as lowercase hex.
pub fn random_hex<const N: usize>() -> String {
    random_bytes::<N>().iter().map(|byte| format!("{byte:02x}")).collect()
}
