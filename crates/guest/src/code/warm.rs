//! Warm kernels: processes that have imported what most programs use. A template is sealed with
//! them. A warm Python makes a copy of itself for each session and for each program that runs once,
//! so it is never used up. A process of Node cannot be copied: it is handed out and replaced.

use std::{
    cell::{Cell, RefCell},
    ffi::CString,
    os::fd::BorrowedFd,
    rc::Rc,
    time::Duration,
};

use pandastack_wire_guest::{CODE_WARM_BYTES_MAX, CodeWarm, ErrorKind, Frame, KernelLanguage};
use tokio::sync::Mutex;

use super::{
    control::CellRequest,
    kernel::{Kernel, KernelError, command},
    session::KernelSession,
};
use crate::{
    Agent, boot,
    exec::{ExitReceiver, ProcessCommand, ProcessGroup},
    figures, limits,
    rebirth::done,
    session::{AgentChannel, GuestFault},
};

/// Variables that interpreters and libraries read when they start. If one of them has changed, a
/// warm kernel is not what a new process would be.
const READ_AT_START: [&[u8]; 14] = [
    b"PATH=",
    b"HOME=",
    b"TZ=",
    b"LANG=",
    b"LC_",
    b"LD_",
    b"PYTHON",
    b"VIRTUAL_ENV=",
    b"MPL",
    b"MATPLOTLIBRC=",
    b"OMP_",
    b"OPENBLAS_",
    b"MKL_",
    b"NODE_",
];

/// The warm kernels of the guest, at most one for each language.
#[derive(Default)]
pub(crate) struct WarmKernels {
    table: RefCell<Vec<Rc<WarmKernel>>>,
}

/// A language that is kept warm.
struct WarmKernel {
    language: KernelLanguage,
    code: String,
    /// What a rehearsal runs.
    rehearsal: String,
    deadline: Duration,
    ready: Mutex<Option<ReadyKernel>>,
    failures: Cell<u32>,
    replacing: Cell<bool>,
}

/// A kernel that has run the code.
struct ReadyKernel {
    kernel: Kernel,
    /// The environment it was started with.
    env: Vec<CString>,
    /// The guest's life and clock at its start.
    birth: u64,
    started_ns: u64,
    /// A copy that a rehearsal has made, for the next session.
    spare: Option<SpareCopy>,
}

/// A copy of a warm kernel that waits for its session.
struct SpareCopy {
    kernel: Kernel,
    birth: u64,
}

/// Starts a warm kernel and waits until it is ready.
pub(crate) async fn keep_warm(agent: &Rc<Agent>, channel: &AgentChannel, ask: CodeWarm) -> Result<Frame, GuestFault> {
    let CodeWarm { language, code, deadline_ms, rehearsal } = ask;
    let rehearsal = rehearsal.unwrap_or_default();
    if language == KernelLanguage::Bash || code.len().max(rehearsal.len()) > CODE_WARM_BYTES_MAX {
        return Err(GuestFault::new(
            ErrorKind::Invalid,
            "only Python and JavaScript are kept warm, by a short program",
        ));
    }
    keep(agent, language, [code, rehearsal], Duration::from_millis(deadline_ms)).await?;
    Ok(done(channel))
}

/// Does once what the first session of a user does, and keeps a copy of the kernel ready for it.
/// Then everything that the session needs is in memory, and translated by an emulated CPU.
pub(crate) async fn rehearse(agent: &Rc<Agent>) -> Result<(), GuestFault> {
    // Only Python has copies to throw away.
    let warm = agent.warm.find(KernelLanguage::Python).filter(|warm| !warm.rehearsal.is_empty());
    let Some(warm) = warm else { return Ok(()) };
    let session = KernelSession::open(agent, String::new(), KernelLanguage::Python).await?;
    let cell = CellRequest { code: warm.rehearsal.as_bytes(), trace: None };
    session.run(agent, &cell, warm.deadline).await?;
    drop(session);
    let command = command(agent, KernelLanguage::Python)?;
    let mut ready = warm.ready.lock().await;
    let Some(ready) = ready.as_mut() else { return Ok(()) };
    let mut kernel = ready.kernel.copy(agent, &request("spare", &command)).await?;
    kernel.prepare(warm.rehearsal.as_bytes(), warm.deadline).await?;
    kernel.take_output(agent);
    ready.spare = Some(SpareCopy { kernel, birth: agent.births.get() });
    Ok(())
}

/// Keeps a kernel of the language warm from now on.
pub(super) async fn keep(
    agent: &Rc<Agent>,
    language: KernelLanguage,
    [code, rehearsal]: [String; 2],
    deadline: Duration,
) -> Result<(), KernelError> {
    let ready = ReadyKernel::start(agent, language, &code, deadline).await?;
    let warm = WarmKernel {
        language,
        code,
        rehearsal,
        deadline,
        ready: Mutex::new(Some(ready)),
        failures: Cell::new(0),
        replacing: Cell::new(false),
    };
    let mut table = agent.warm.table.borrow_mut();
    table.retain(|other| other.language != language);
    table.push(Rc::new(warm));
    Ok(())
}

/// Whether a warm kernel waits.
#[cfg(test)]
pub(super) async fn is_ready(agent: &Rc<Agent>, language: KernelLanguage) -> bool {
    match agent.warm.find(language) {
        Some(warm) => warm.ready.lock().await.is_some(),
        None => false,
    }
}

/// Returns a warm kernel for a session. `None` if there is none that equals a new one.
pub(super) async fn take(agent: &Rc<Agent>, language: KernelLanguage) -> Option<Kernel> {
    let warm = agent.warm.find(language)?;
    let command = command(agent, language).ok()?;
    let mut ready = warm.ready.lock().await;
    if !ready.as_mut()?.is_fit(agent, language, &command) {
        warm.replace(agent, &mut ready);
        return None;
    }
    let request = request("cells", &command);
    let taken = match language {
        KernelLanguage::Python => {
            let ready = ready.as_mut()?;
            if let Some(spare) = ready.spare.take()
                && let Some(kernel) = spare.settle(agent, &request).await
            {
                return Some(kernel);
            }
            ready.kernel.copy(agent, &request).await
        }
        _ => {
            let mut kernel = ready.take()?.kernel;
            let prepared = kernel.prepare(&request, limits::KERNEL_COPY_WITHIN).await;
            warm.replace(agent, &mut ready);
            prepared.map(|()| {
                kernel.take_output(agent);
                kernel
            })
        }
    };
    match taken {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            warm.lose(agent, &mut ready, &error);
            None
        }
    }
}

/// Runs a program to its end in a copy of the warm kernel. `None` if a new process must do it.
pub(crate) async fn run_once(
    agent: &Rc<Agent>,
    language: KernelLanguage,
    command: &ProcessCommand,
    code: &str,
    outputs: [BorrowedFd<'_>; 2],
) -> Option<(ProcessGroup, ExitReceiver)> {
    let warm = agent.warm.find(language).filter(|_| language == KernelLanguage::Python)?;
    let mut ready = warm.ready.lock().await;
    if !ready.as_mut()?.is_fit(agent, language, command) {
        return None;
    }
    let copied = ready.as_mut()?.kernel.copy_with(agent, &request("once", command), outputs).await;
    let (process, mut control) = match copied {
        Ok(copied) => copied,
        Err(error) => {
            warm.lose(agent, &mut ready, &error);
            return None;
        }
    };
    drop(ready);
    control.put_cell(1, &CellRequest { code: code.as_bytes(), trace: None });
    // It refuses what it cannot compile. A new interpreter reports that in its own words.
    let begun = tokio::time::timeout(limits::KERNEL_COPY_WITHIN, control.reply()).await;
    matches!(begun, Ok(Ok(reply)) if reply.exit == 0).then_some(process)
}

impl WarmKernels {
    fn find(&self, language: KernelLanguage) -> Option<Rc<WarmKernel>> {
        self.table.borrow().iter().find(|warm| warm.language == language).cloned()
    }
}

impl WarmKernel {
    /// Gives the kernel up after an error. The caller starts a new process.
    fn lose(self: &Rc<Self>, agent: &Rc<Agent>, ready: &mut Option<ReadyKernel>, error: &KernelError) {
        boot::announce(&format!("pandastack guest agent: a warm kernel is lost: {error}"));
        self.failures.set(self.failures.get() + 1);
        self.replace(agent, ready);
    }

    /// Replaces the kernel a little later, if there is memory for it.
    fn replace(self: &Rc<Self>, agent: &Rc<Agent>, ready: &mut Option<ReadyKernel>) {
        *ready = None;
        if self.failures.get() >= limits::WARM_FAILURES_MAX || self.replacing.replace(true) {
            return;
        }
        let (warm, agent) = (self.clone(), agent.clone());
        tokio::task::spawn_local(async move {
            tokio::time::sleep(limits::WARM_AFTER).await;
            let usage = figures::measure();
            if usage.memory_available.saturating_mul(limits::WARM_MEMORY_PART) >= usage.memory_total {
                match ReadyKernel::start(&agent, warm.language, &warm.code, warm.deadline).await {
                    Ok(fresh) => {
                        *warm.ready.lock().await = Some(fresh);
                        warm.failures.set(0);
                    }
                    Err(error) => {
                        boot::announce(&format!("pandastack guest agent: a kernel is not warm: {error}"));
                        warm.failures.set(warm.failures.get() + 1);
                    }
                }
            }
            warm.replacing.set(false);
        });
    }
}

impl ReadyKernel {
    async fn start(
        agent: &Rc<Agent>,
        language: KernelLanguage,
        code: &str,
        deadline: Duration,
    ) -> Result<Self, KernelError> {
        let env = command(agent, language)?.env().to_vec();
        let (birth, started_ns) = (agent.births.get(), agent.system.clock());
        let mut kernel = Kernel::start(agent, language).await?;
        kernel.prepare(code.as_bytes(), deadline).await?;
        // Nobody wants to see what the code printed.
        kernel.take_output(agent);
        Ok(Self { kernel, env, birth, started_ns, spare: None })
    }

    /// Whether a session cannot tell it from a new process.
    fn is_fit(&mut self, agent: &Agent, language: KernelLanguage, command: &ProcessCommand) -> bool {
        let same_life = self.birth == agent.births.get();
        let age = Duration::from_nanos(agent.system.clock().saturating_sub(self.started_ns));
        // OpenSSL's generator is in the process's memory. A copy of the process seeds it anew
        // because of its new id. The process itself does so only after a time, and until then draws
        // the same numbers in every copy of this guest.
        let is_seeded = language == KernelLanguage::Python || same_life || age >= limits::OPENSSL_RESEEDS_AFTER;
        is_seeded && !self.kernel.has_ended() && read_at_start(&self.env).eq(read_at_start(command.env()))
    }
}

impl SpareCopy {
    /// Gives it to a session. `None` if it is of no use.
    async fn settle(mut self, agent: &Agent, request: &[u8]) -> Option<Kernel> {
        // Its random numbers are its own only in the life it was made in, and in the one that
        // follows, when a standby machine gets its owner. After that, other guests may be copies.
        if agent.births.get() > self.birth + 1 || self.kernel.has_ended() {
            return None;
        }
        self.kernel.prepare(request, limits::KERNEL_COPY_WITHIN).await.ok()?;
        Some(self.kernel)
    }
}

fn read_at_start(env: &[CString]) -> impl Iterator<Item = &CString> {
    env.iter().filter(|variable| READ_AT_START.iter().any(|start| variable.as_bytes().starts_with(start)))
}

/// Mode, folder and variables, each with a NUL after it.
fn request(mode: &str, command: &ProcessCommand) -> Vec<u8> {
    let mut request = Vec::from(mode.as_bytes());
    request.push(0);
    for text in [command.cwd()].into_iter().chain(command.env()) {
        request.extend_from_slice(text.as_bytes_with_nul());
    }
    request
}
