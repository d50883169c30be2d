//! Reads a Dockerfile and plans all of its stages, variables replaced. Run: `cargo xtask fuzz
//! dockerfile`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pandastack_dockerfile::{
    context::{self, ContextFile},
    ignore::IgnorePatterns,
    limits::STEP_TEXT_SHOWN_MAX,
    parse,
    plan::{self, Planner, StageStart, StepEffect},
};

fuzz_target!(|text: &str| {
    let _ = context::checked(text);
    let _ = IgnorePatterns::parse(text.as_bytes());
    let file = match parse(text) {
        Ok(file) => file,
        Err(error) => return assert!(error.to_string().len() < 64 * STEP_TEXT_SHOWN_MAX, "{error}"),
    };
    let context = ["a", "b/c", "b/d.txt"].map(|path| ContextFile {
        path: path.to_owned(),
        digest: String::new(),
        bytes: 1,
        program: false,
        part: 0,
    });
    let Ok(mut planning) = Planner::new(&file) else { return };
    let Ok(needed) = planning.needed() else { return };
    for stage in (0..needed.len()).filter(|stage| needed[*stage]) {
        let Ok(_) = planning.base(stage) else { return };
        let Ok(plan) = planning.stage(stage, StageStart::default(), &context) else { return };
        for step in plan.steps {
            if let StepEffect::Change(change) = step.act {
                plan::key("before", &change, &context, "");
            }
        }
    }
});
