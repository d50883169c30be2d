//! Warnings and errors in a server's log. A test that expects none allows those that only tell of a
//! slow machine: it may be slow, and must not fail for that.

/// Warnings that a slow machine causes, each with a part of its cause. An empty cause fits all.
const SLOWNESS: &[(&str, &str)] = &[
    ("could not set the guest's clock in time", ""),
    ("could not reach the guest; trying again", "did not respond"),
    ("could not prepare a standby machine; trying again later", "did not respond"),
    ("could not prime a standby machine; trying again later", "did not respond"),
    ("missed events of the host; comparing all sandboxes", ""),
];

/// Returns the lines with a warning or an error that slowness does not explain.
pub fn complaints(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains(" ERROR ") || (line.contains(" WARN ") && !is_of_slowness(line))).collect()
}

fn is_of_slowness(line: &str) -> bool {
    SLOWNESS.iter().any(|(text, cause)| line.contains(text) && line.contains(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_warnings_of_a_slow_machine_are_allowed() {
        let log = "\
            2026-01-01T00:00:00Z  INFO pandastack_host: the guest is silent on its sealed link; dialing\n\
            2026-01-01T00:00:00Z  WARN pandastack_host: could not set the guest's clock in time sandbox=1\n\
            2026-01-01T00:00:00Z  WARN pandastack_host: could not prime a standby machine; trying again later error=the \
            guest did not respond within 20 s\n\
            2026-01-01T00:00:00Z  WARN pandastack_host: could not prime a standby machine; trying again later \
            error=no space\n\
            2026-01-01T00:00:00Z ERROR pandastack_host: could not set the guest's clock in time\n\
            2026-01-01T00:00:00Z  WARN pandastack_host: something odd\n";
        let [space, error, odd] = complaints(log)[..] else { panic!("{:?}", complaints(log)) };
        assert!(space.ends_with("error=no space") && error.contains(" ERROR ") && odd.ends_with("something odd"));
    }
}
