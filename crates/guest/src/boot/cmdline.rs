//! Parses our parameters on the kernel command line. Other parameters are skipped.

use super::network::{AddressError, GuestAddresses};

/// Parameters of the kernel command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KernelParameters {
    /// Secret of the link until the first rebirth.
    pub secret: Vec<u8>,
    /// Device with the root file system. Without one, the initial file system stays the root.
    pub root: Option<String>,
    pub addresses: Option<GuestAddresses>,
}

/// A parameter that is not valid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CmdlineError {
    #[error("pandastack.secret is missing or is not an even number of hex digits")]
    Secret,
    #[error("pandastack.net")]
    Network(#[from] AddressError),
}

impl KernelParameters {
    /// Parses the whole line.
    pub fn parse(line: &str) -> Result<Self, CmdlineError> {
        let mut orders = Self::default();
        for (name, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "pandastack.secret" => orders.secret = bytes_of_hex(value).ok_or(CmdlineError::Secret)?,
                "pandastack.root" => orders.root = Some(value.to_owned()),
                "pandastack.net" => orders.addresses = Some(value.parse()?),
                _ => {}
            }
        }
        if orders.secret.is_empty() { Err(CmdlineError::Secret) } else { Ok(orders) }
    }
}

/// Decodes pairs of hex digits.
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn reads_ours_and_skips_the_rest() {
        let line = "console=ttyS0 quiet pandastack.secret=00fFa0 pandastack.net=172.16.0.2/30,172.16.0.1 \
            pandastack.root=/dev/vda x";
        let gateway = Ipv4Addr::new(172, 16, 0, 1);
        let addresses =
            GuestAddresses { address: Ipv4Addr::new(172, 16, 0, 2), prefix: 30, gateway, nameserver: gateway };
        let expected =
            KernelParameters { secret: vec![0, 255, 160], root: Some("/dev/vda".into()), addresses: Some(addresses) };
        assert_eq!(KernelParameters::parse(line), Ok(expected));
    }

    #[test]
    fn refuses_what_cannot_be_meant() {
        for line in ["", "pandastack.secret=", "pandastack.secret=abc", "pandastack.secret=zz", "pandastack.secret=é1"]
        {
            assert_eq!(KernelParameters::parse(line), Err(CmdlineError::Secret), "{line}");
        }
        for net in ["", "1.2.3.4", "1.2.3.4/33,1.1.1.1", "1.2.3/8,1.1.1.1", "1.2.3.4/8", "1.2.3.4/8,x"] {
            let line = format!("pandastack.secret=aa pandastack.net={net}");
            assert!(matches!(KernelParameters::parse(&line), Err(CmdlineError::Network(_))), "{net}");
        }
    }
}
