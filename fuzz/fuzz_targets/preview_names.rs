//! Reads host names and paths of previews from any text: nothing may panic, and nothing may reach
//! the agent. Run: `cargo xtask fuzz preview_names`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pandastack_model::{AGENT_PORT, PathRules, PreviewSuffix};

fuzz_target!(|text: &str| {
    let suffix: PreviewSuffix = "localhost".parse().expect("a domain");
    if let Some(Ok(name)) = suffix.preview(text) {
        assert_ne!(name.port.get(), AGENT_PORT);
        assert!(text.to_ascii_lowercase().starts_with(&format!("{name}.localhost")));
    }
    if let Some(label) = suffix.link(text) {
        assert!(text.to_ascii_lowercase().starts_with(&format!("{label}.localhost")));
    }
    if let Ok(rules) = PathRules::new(vec!["/docs".to_owned()]) {
        assert!(!rules.allows(text) || text.split('/').all(|part| part != ".."), "{text}");
    }
    let _ = PathRules::new(vec![text.to_owned()]);
});
