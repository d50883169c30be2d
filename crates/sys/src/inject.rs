//! Makes system calls in another process, as a debugger does. For what a process can only do to
//! itself, such as watching its own memory. The process need not cooperate and notices nothing.
#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_long, c_void},
    io, mem, ptr, thread,
    time::{Duration, Instant},
};

/// How long a thread may take to stop, or to reach a call that it stands in front of.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Pause between two looks at a thread that is about to stop.
const LOOK_PAUSE: Duration = Duration::from_micros(20);

/// Attempts to find the thread in a system call: a busy one is mostly outside of any.
const TRIES_MAX: usize = 50;

/// Pause between two such attempts.
const TRY_PAUSE: Duration = Duration::from_millis(1);

/// The `syscall` instruction. A thread that waits in a call stands behind one.
const SYSCALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// Marks a stop at a system call, with the option `TRACESYSGOOD`.
const CALL_STOP: c_int = libc::SIGTRAP | 0x80;

/// Answers of an interrupted call that only the kernel sees: it is made again.
const RESTARTED: std::ops::RangeInclusive<i64> = -514..=-512;
const RESTARTED_BY_NAME: i64 = -516;

/// The main thread of a process, stopped. Continues what it did when this is dropped.
pub(crate) struct StoppedThread {
    pid: i32,
    registers: libc::user_regs_struct,
    /// Signals that arrived while the thread was stopped. It gets them afterwards.
    signals: Vec<c_int>,
}

/// Why a thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// It enters or leaves a system call.
    Call,
    Signal(c_int),
    /// The tracer asked for it.
    Asked,
}

/// Stops the main thread of a process, lets `work` make calls in it, and lets it continue. The
/// filter of system calls does not apply to these calls, and to no other.
pub(crate) fn within<T: Send>(
    pid: u32,
    work: impl FnOnce(&mut StoppedThread) -> io::Result<T> + Send,
) -> io::Result<T> {
    // A tracer is a thread. When it ends, the kernel releases what it still holds.
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("inject".to_owned());
        let done = thread.spawn_scoped(scope, move || work(&mut StoppedThread::stop(pid)?))?;
        done.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl StoppedThread {
    fn stop(pid: u32) -> io::Result<Self> {
        let pid = pid as i32;
        for _ in 0..TRIES_MAX {
            // Without options: the thread still runs, and its filter must hold.
            trace(libc::PTRACE_SEIZE, pid, 0)?;
            trace(libc::PTRACE_INTERRUPT, pid, 0)?;
            let mut signals = Vec::new();
            if let Stop::Signal(signal) = wait_for_stop(pid, Some(STOP_MAX))? {
                signals.push(signal);
            }
            let stopped = Self { pid, registers: registers(pid)?, signals };
            if stopped.is_behind_call()? {
                // Tried while nothing has changed yet: some kernels and servers may not do this.
                trace(libc::PTRACE_SETOPTIONS, pid, libc::PTRACE_O_SUSPEND_SECCOMP as usize)?;
                trace(libc::PTRACE_SETOPTIONS, pid, 0)?;
                return Ok(stopped);
            }
            drop(stopped);
            thread::sleep(TRY_PAUSE);
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "the process was never in a system call"))
    }

    fn is_behind_call(&self) -> io::Result<bool> {
        let mut found = [0; SYSCALL_INSTRUCTION.len()];
        let from = self.registers.rip.wrapping_sub(found.len() as u64);
        let mut local = [io::IoSliceMut::new(&mut found)];
        let remote = [nix::sys::uio::RemoteIoVec { base: from as usize, len: SYSCALL_INSTRUCTION.len() }];
        nix::sys::uio::process_vm_readv(nix::unistd::Pid::from_raw(self.pid), &mut local, &remote)?;
        Ok(found == SYSCALL_INSTRUCTION)
    }

    /// Makes a call with one argument. It must be one that does not wait.
    pub(crate) fn call(&mut self, number: c_long, argument: u64) -> io::Result<u64> {
        let mut asked = self.registers;
        asked.rip -= SYSCALL_INSTRUCTION.len() as u64;
        asked.rax = number as u64;
        // Otherwise the kernel would take it for an interrupted call and adjust the registers.
        asked.orig_rax = u64::MAX;
        asked.rdi = argument;
        set_registers(self.pid, &asked)?;
        self.continue_to_call(libc::PTRACE_O_TRACESYSGOOD)?;
        // Another thread may have replaced the instruction meanwhile.
        let entered = registers(self.pid)?;
        if (entered.orig_rax, entered.rdi, entered.rip) != (number as u64, argument, self.registers.rip) {
            set_registers(self.pid, &libc::user_regs_struct { orig_rax: u64::MAX, ..entered })?;
            return Err(io::Error::other("the process changed its code while a call was made in it"));
        }
        // From the entry, where the filter would look, to the end of this call only.
        let ended = self.continue_to_call(libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_SUSPEND_SECCOMP);
        trace(libc::PTRACE_SETOPTIONS, self.pid, libc::PTRACE_O_TRACESYSGOOD as usize)?;
        ended?;
        let answer = registers(self.pid)?.rax.cast_signed();
        // The kernel's range of error numbers.
        if (-4095..0).contains(&answer) {
            return Err(io::Error::from_raw_os_error(-answer as i32));
        }
        Ok(answer.cast_unsigned())
    }

    /// Lets the thread run until it enters or leaves a call. If it does neither in time, it is
    /// stopped where it is.
    fn continue_to_call(&mut self, options: c_int) -> io::Result<()> {
        trace(libc::PTRACE_SETOPTIONS, self.pid, options as usize)?;
        let deadline = Instant::now() + STOP_MAX;
        loop {
            trace(libc::PTRACE_SYSCALL, self.pid, 0)?;
            let left = deadline.saturating_duration_since(Instant::now());
            match wait_for_stop(self.pid, Some(left)) {
                Ok(Stop::Call) => return Ok(()),
                Ok(Stop::Signal(signal)) => self.signals.push(signal),
                Ok(Stop::Asked) => {}
                Err(error) => {
                    if error.kind() == io::ErrorKind::TimedOut {
                        // Its registers are ours: it must not go on with them.
                        trace(libc::PTRACE_INTERRUPT, self.pid, 0)?;
                        if let Stop::Signal(signal) = wait_for_stop(self.pid, None)? {
                            self.signals.push(signal);
                        }
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Lets the thread continue where it was.
    fn release(&mut self) -> io::Result<()> {
        set_registers(self.pid, &as_it_continues(self.registers))?;
        trace(libc::PTRACE_DETACH, self.pid, 0)?;
        for signal in self.signals.drain(..) {
            // SAFETY: plain system call without pointers.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.pid, signal) };
        }
        Ok(())
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        // A process that was killed meanwhile has nothing to continue.
        let _ = self.release();
    }
}

/// The kernel makes an interrupted call again only while it delivers a signal. This does it in its
/// place, so that it does not matter at which stop the thread is released.
fn as_it_continues(mut registers: libc::user_regs_struct) -> libc::user_regs_struct {
    let (was_in_call, answer) = (registers.orig_rax.cast_signed() >= 0, registers.rax.cast_signed());
    if was_in_call && (RESTARTED.contains(&answer) || answer == RESTARTED_BY_NAME) {
        let by_name = answer == RESTARTED_BY_NAME;
        registers.rax = if by_name { libc::SYS_restart_syscall as u64 } else { registers.orig_rax };
        registers.rip -= SYSCALL_INSTRUCTION.len() as u64;
    }
    registers.orig_rax = u64::MAX;
    registers
}

/// Waits until a traced thread has stopped. Never takes the exit status of a process. `None` waits
/// without a limit: for a thread whose registers must be put back.
fn wait_for_stop(pid: i32, limit: Option<Duration>) -> io::Result<Stop> {
    let begun = Instant::now();
    while limit.is_none_or(|limit| begun.elapsed() <= limit) {
        // The end is left to be taken by the parent.
        if let Some((libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _)) =
            wait(pid, libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT)?
        {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
        }
        if let Some((_, status)) = wait(pid, libc::WSTOPPED)? {
            return Ok(match status {
                CALL_STOP => Stop::Call,
                // Also that of a process whose threads are all stopped.
                asked if asked >> 8 == libc::PTRACE_EVENT_STOP => Stop::Asked,
                signal => Stop::Signal(signal & 0x7f),
            });
        }
        thread::sleep(LOOK_PAUSE);
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// What has happened to a thread, and its status. `None` if nothing has.
fn wait(pid: i32, flags: c_int) -> io::Result<Option<(c_int, c_int)>> {
    // SAFETY: all zeroes is a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    let flags = flags | libc::WNOHANG | libc::__WALL;
    // SAFETY: `info` is a valid place for the kernel to write to.
    if unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: after a successful `waitid` these fields are filled in, or zero if nothing happened.
    let (found, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((found == pid).then_some((info.si_code, status)))
}

/// `data` is a number, or the address of a register set that the caller borrows.
fn trace(request: libc::c_uint, pid: i32, data: usize) -> io::Result<()> {
    // SAFETY: as the documentation of the parameter says.
    if unsafe { libc::ptrace(request, pid, ptr::null_mut::<c_void>(), data as *mut c_void) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn registers(pid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: plain data for which all zeroes is a valid value.
    let mut registers: libc::user_regs_struct = unsafe { mem::zeroed() };
    trace(libc::PTRACE_GETREGS, pid, (&raw mut registers).expose_provenance())?;
    Ok(registers)
}

fn set_registers(pid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    trace(libc::PTRACE_SETREGS, pid, ptr::from_ref(registers).expose_provenance())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// A process that answers each line with its number of open descriptors.
    fn echo() -> Child {
        let script = "
import os, sys
for line in sys.stdin:
    print(line.strip(), len(os.listdir('/proc/self/fd')), flush=True)
";
        let mut command = Command::new("python3");
        command.args(["-u", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    fn say(child: &mut Child, word: &str) -> String {
        writeln!(child.stdin.as_mut().unwrap(), "{word}").unwrap();
        let mut answer = String::new();
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_waiting_process_makes_calls_and_goes_on_as_if_nothing_had_been() {
        let mut child = echo();
        let before = say(&mut child, "a");
        let pid = child.id();
        let asked = within(pid, |thread| {
            let id = thread.call(libc::SYS_getpid, 0)?;
            Ok((id, thread.call(libc::SYS_close, 4000).unwrap_err().raw_os_error()))
        });
        assert_eq!(asked.unwrap(), (u64::from(pid), Some(libc::EBADF)));
        assert_eq!(say(&mut child, "a"), before);
        drop(child.stdin.take());
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(rest.is_empty() && child.wait().unwrap().success());
    }

    /// The process tries all the time what its filter refuses.
    #[test]
    fn the_filter_of_a_process_holds_for_its_own_calls() {
        use std::os::unix::process::CommandExt;
        let script = "
import ctypes, select, sys
passed = 0
call = ctypes.CDLL(None).syscall
print('ready', flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    passed += call(323, 0o2000001) >= 0
print(passed, flush=True)
";
        let filter = crate::filter::program(crate::filter::OpenCalls::Free);
        let mut command = Command::new("python3");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let install = move || {
            // SAFETY: between fork and exec; it makes plain system calls only.
            let installed = unsafe { crate::filter::install(&filter, None) };
            if installed { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: as above.
        let mut child = unsafe { command.pre_exec(install) }.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        for _ in 0..100 {
            let watched = within(child.id(), |thread| {
                let watch = thread.call(libc::SYS_userfaultfd, 0o200_0001)?;
                thread.call(libc::SYS_close, watch)
            });
            assert_eq!(watched.unwrap(), 0);
        }
        writeln!(child.stdin.as_mut().unwrap(), "end").unwrap();
        line.clear();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "0\n", "calls that the filter refuses");
        assert!(child.wait().unwrap().success());
    }

    /// It computes nearly all of the time, and gets signals meanwhile. It answers each.
    #[test]
    fn a_busy_process_is_met_in_a_call_and_loses_no_signal() {
        const MEETINGS: usize = 20;
        let script = "
import os, signal, time
signal.signal(signal.SIGUSR1, lambda number, frame: os.write(1, b'.'))
os.write(1, b'+')
while True:
    sum(range(200))
    time.sleep(0)
";
        let mut child = Command::new("python3").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0]).unwrap();
        let pid = child.id();
        let done = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            let signals = scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    // SAFETY: plain system call; the child is not reaped yet.
                    unsafe { libc::kill(pid as i32, libc::SIGUSR1) };
                    out.read_exact(&mut [0]).unwrap();
                }
            });
            let mut met = 0;
            while met < MEETINGS && !signals.is_finished() {
                met += usize::from(within(pid, |thread| thread.call(libc::SYS_getpid, 0)).is_ok());
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            signals.join().unwrap();
        });
        assert!(child.try_wait().unwrap().is_none(), "it goes on");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_ended_process_is_an_error_and_can_still_be_reaped() {
        let mut child = Command::new("true").spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            thread::yield_now();
        }
        assert!(within(child.id(), |thread| thread.call(libc::SYS_getpid, 0)).is_err());
        assert!(child.wait().unwrap().success());
    }
}
