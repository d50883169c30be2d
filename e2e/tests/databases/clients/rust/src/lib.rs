//! What the programs share: where the database is.

/// Connections that are open at once.
pub const CONNECTIONS: u32 = 20;

/// The URL as the API gives it.
pub fn url() -> String {
    std::env::var("DATABASE_URL").expect("DATABASE_URL is set")
}

/// The file with the authority that signed the server's certificate.
pub fn authority() -> String {
    std::env::var("DATABASE_CA").expect("DATABASE_CA is set")
}
