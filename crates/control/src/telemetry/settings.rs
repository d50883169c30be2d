//! The target of spans, read once from the operator's options and the standard OpenTelemetry
//! variables.

use hyper::header::{HeaderName, HeaderValue};

use crate::{
    dial::{AddressPolicy, TrustRoots},
    hooks::HttpTarget,
};

/// Path of the collector for spans, below its address.
const TRACES: &str = "/v1/traces";
/// Default service name.
const SERVICE: &str = "pandastack";

/// The target of spans, and the service name they carry.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    pub(super) target: HttpTarget,
    /// Sent with every batch. Usually a credential, so the values print as `Sensitive`.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) service: String,
    /// Certificate authorities that are trusted for an https collector.
    pub roots: TrustRoots,
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the OTLP endpoint {endpoint:?} cannot be used: {why}")]
    Endpoint { endpoint: String, why: String },
    /// Without the text, which may hold a credential.
    #[error("OTEL_EXPORTER_OTLP_HEADERS cannot be used: entry {number} is not NAME=VALUE")]
    Header { number: usize },
}

impl TelemetrySettings {
    /// Reads an endpoint such as `http://localhost:4318`, a list of headers as `NAME=VALUE,…` and
    /// the name of the service.
    pub fn new(endpoint: &str, headers: Option<&str>, service: Option<&str>) -> Result<Self, TelemetryError> {
        let refuse = |why: &str| TelemetryError::Endpoint { endpoint: endpoint.to_owned(), why: why.to_owned() };
        if endpoint.contains(['?', '#']) {
            return Err(refuse("it must not have a query or a fragment"));
        }
        if endpoint.contains('@') {
            // Not repeated: the text before the `@` is a credential.
            let why = "put credentials into OTEL_EXPORTER_OTLP_HEADERS".to_owned();
            return Err(TelemetryError::Endpoint { endpoint: "…@…".to_owned(), why });
        }
        // The operator names the target, so any address is allowed. Usually it is this host.
        let parse = |text: &str| HttpTarget::parse(text, AddressPolicy::Private).map_err(|fault| refuse(&fault.text));
        // Checked alone first: if the host is missing, the path must not be taken for it.
        parse(endpoint)?;
        Ok(Self {
            target: parse(&format!("{}{TRACES}", endpoint.trim_end_matches('/')))?,
            headers: read_headers(headers.unwrap_or_default())?,
            service: service.filter(|name| !name.is_empty()).unwrap_or(SERVICE).to_owned(),
            roots: TrustRoots::Host,
        })
    }

    /// The address that batches are sent to.
    pub fn address(&self) -> &str {
        self.target.as_str()
    }
}

/// Reads `a=1,b=2`. Values are percent-encoded, as the specification says.
fn read_headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, TelemetryError> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let read = |(at, entry): (usize, &str)| {
        let (name, value) = entry.split_once('=')?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
        let mut value = HeaderValue::from_bytes(&decode(value.trim())?).ok()?;
        value.set_sensitive(true);
        Some((at, (name, value)))
    };
    let mut headers = Vec::new();
    for (at, entry) in entries.enumerate() {
        let (_, header) = read((at, entry)).ok_or(TelemetryError::Header { number: at + 1 })?;
        headers.push(header);
    }
    Ok(headers)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut decoded = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        decoded.push(u8::from_str_radix(hex, 16).ok()?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_the_beginning_of_an_address() {
        for (endpoint, address) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://collector.example/", "https://collector.example/v1/traces"),
            ("http://[::1]:9/otlp", "http://[::1]:9/otlp/v1/traces"),
        ] {
            assert_eq!(TelemetrySettings::new(endpoint, None, None).unwrap().address(), address);
        }
        for bad in ["", "localhost:4318", "grpc://c:4317", "http://", "http://c:0", "http://c?x=1", "http://c\n", "/x"]
        {
            let error = TelemetrySettings::new(bad, None, None).unwrap_err().to_string();
            assert!(error.contains("OTLP endpoint") && error.contains("cannot be used"), "{bad:?}: {error}");
        }
        let error = TelemetrySettings::new("http://me:secret@c", None, None).unwrap_err().to_string();
        assert!(!error.contains("secret") && error.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{error}");
    }

    #[test]
    fn headers_are_read_as_the_specification_writes_them_and_never_shown() {
        let settings = TelemetrySettings::new("http://c", Some(" api-key=a%20b=, x=1 ,"), Some("ours")).unwrap();
        let read: Vec<_> =
            settings.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!((read, settings.service.as_str()), (vec![("api-key", "a b="), ("x", "1")], "ours"));
        assert!(!format!("{settings:?}").contains("a b="));
        for (bad, number) in [("secret", 1), ("a=1,b c=2", 2), ("a=%zz", 1), ("a=%0a", 1), ("a=%", 1), ("=v", 1)] {
            let error = TelemetrySettings::new("http://c", Some(bad), None).unwrap_err().to_string();
            assert!(error.contains(&format!("entry {number} ")) && !error.contains("secret"), "{bad}: {error}");
        }
        let unsaid = TelemetrySettings::new("http://c", Some(""), Some("")).unwrap();
        assert_eq!((unsaid.headers.len(), unsaid.service.as_str()), (0, SERVICE));
    }
}
