//! Random bytes from the kernel.

/// Gives bytes nobody can guess.
///
/// # Panics
/// If the kernel has no randomness to give; nothing secret can be made then.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    bytes
}

/// Gives `N` random bytes as lowercase hex.
pub fn random_hex<const N: usize>() -> String {
    random_bytes::<N>().iter().map(|byte| format!("{byte:02x}")).collect()
}
