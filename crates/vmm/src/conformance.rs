//! Conformance suite: filled in beside the first driver.
