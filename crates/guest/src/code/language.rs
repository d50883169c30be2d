//! Start settings of each language's kernel: the interpreter and the program it runs.

use pandastack_wire_guest::KernelLanguage;

/// How a kernel is started.
pub(super) struct KernelRecipe {
    /// Looked up in the sandbox's PATH.
    pub(super) interpreter: &'static str,
    /// Flag and text of the first program. If there is a second, the first only reads it: command
    /// lines show in process lists, and should fit a screen.
    pub(super) boot: [&'static str; 2],
    /// Sent over the control socket before anything else.
    pub(super) program: Option<&'static str>,
}

/// Returns the settings of a language's kernel.
pub(super) fn recipe(language: KernelLanguage) -> KernelRecipe {
    match language {
        KernelLanguage::Python => KernelRecipe {
            interpreter: "python3",
            boot: ["-c", include_str!("kernels/boot.py")],
            program: Some(concat!(include_str!("kernels/python.py"), include_str!("kernels/warm.py"))),
        },
        KernelLanguage::JavaScript => KernelRecipe {
            interpreter: "node",
            boot: ["-e", include_str!("kernels/boot.js")],
            program: Some(include_str!("kernels/node.js")),
        },
        KernelLanguage::Bash => {
            KernelRecipe { interpreter: "bash", boot: ["-c", include_str!("kernels/bash.sh")], program: None }
        }
    }
}
