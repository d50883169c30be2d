//! Serving https: certificates from files that are reloaded when they change, certificates from an
//! ACME server, the choice of a certificate by name, and the plain listener that redirects. Accepts
//! no connections: the door does.

pub mod acme;
mod certificate;
mod challenge;
mod files;
pub mod limits;
mod local;
mod redirect;
mod set;
mod validity;

pub use certificate::{CertificateError, ServedCertificate};
pub use challenge::HttpChallenges;
pub use files::{CertificateFiles, FileContents, watch};
pub use local::{LocalAuthority, LocalAuthorityError};
pub use redirect::redirect_app;
pub use set::{CertificateSet, CertificateSlot};
pub use validity::Validity;
