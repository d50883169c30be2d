//! Sockets into real machines: the edge in this process over a host with real guests.

use std::{
    cell::RefCell,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    process::{Command, Output, Stdio},
    sync::Arc,
};

use async_trait::async_trait;
use futures_util::{SinkExt, StreamExt};
use nix::{
    sys::{
        signal::{Signal, kill},
        termios::tcgetattr,
    },
    unistd::Pid,
};
use pandastack_e2e::{PATIENCE, with_sandbox};
use pandastack_edge::{Edge, serve};
use pandastack_kit::Scope;
use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_sys::pty;
use pandastack_testbed::{Bed, built, wait_for};
use pandastack_wire_fleet::{Caller, ControlPort, Credential, DatabaseLogin, HostPort, PreviewGrant, WorkspaceId};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest},
};

/// The key owns everything.
struct OneTenant;

const KEY: &str = "pds_0123456789abcdef0123456789abcdef";

#[async_trait]
impl ControlPort for OneTenant {
    async fn authenticate(&self, credential: Credential<'_>) -> Result<Caller, Fault> {
        match credential.token {
            Some(KEY) => Ok(Caller::of(WorkspaceId("one".to_owned()))),
            _ => Err(Fault::new(FaultKind::Unauthorized, "unauthorized", "no key")),
        }
    }

    async fn admit(&self, _: &Caller, _: SandboxId) -> Result<(), Fault> {
        Ok(())
    }

    async fn admit_look(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        self.admit(caller, sandbox).await
    }

    async fn admit_anyone(&self, _: SandboxId) -> Result<(), Fault> {
        Err(Fault::no_sandbox())
    }

    async fn open_preview(&self, _: &str) -> Result<PreviewGrant, Fault> {
        Err(Fault::no_sandbox())
    }

    async fn admit_database(&self, _: SandboxId) -> Result<DatabaseLogin, Fault> {
        Err(Fault::no_sandbox())
    }

    async fn revive_database(&self, _: SandboxId) -> Result<(), Fault> {
        Ok(())
    }

    async fn open_broker(&self, _: SandboxId, _: &str) -> Result<DatabaseLogin, Fault> {
        Err(Fault::no_sandbox())
    }
}

/// An edge over the host of a bed.
struct Door {
    address: String,
    id: SandboxId,
    scope: Scope,
}

impl Door {
    async fn open(bed: &Bed, id: SandboxId) -> Self {
        let scope = Scope::new();
        let edge = Edge::new(Arc::new(OneTenant), bed.host.clone(), scope.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        scope.start("serve", serve(listener, edge.router(), scope.clone()));
        Self { address, id, scope }
    }

    async fn knock(&self, path: &str) -> Result<Peer, Error> {
        let url = format!("ws://{}/v1/sandboxes/{}{path}", self.address, self.id);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {KEY}").parse().unwrap());
        let stream = TcpStream::connect(&self.address).await.unwrap();
        Ok(Peer(client_async(request, stream).await?.0))
    }

    async fn socket(&self, path: &str) -> Peer {
        self.knock(path).await.unwrap()
    }

    /// `pandastack sandbox ssh`, with our configuration only.
    fn command_line(&self, id: SandboxId) -> Command {
        let mut command = Command::new(built("pandastack"));
        command.args(["sandbox", "ssh", &id.to_string()]);
        command.env("PANDASTACK_API_URL", format!("http://{}", self.address)).env("PANDASTACK_API_KEY", KEY);
        command
    }

    async fn close(self) {
        assert_eq!(self.scope.close(PATIENCE).await, 0, "tasks of the edge are left");
    }
}

/// The client's end of a socket.
struct Peer(WebSocketStream<TcpStream>);

impl Peer {
    async fn say(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn keys(&mut self, text: &str) {
        self.0.send(Message::binary(text.as_bytes().to_vec())).await.unwrap();
    }

    async fn message(&mut self) -> Option<Message> {
        loop {
            match tokio::time::timeout(PATIENCE, self.0.next()).await.expect("a message in time") {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(_)) | None => return None,
            }
        }
    }

    async fn frame(&mut self) -> Value {
        match self.message().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?} is no frame"),
        }
    }

    /// Reads the frames of one command, and ignores others, until it ends. Returns its output and
    /// its last frame.
    async fn until_end(&mut self, id: &str) -> (String, Value) {
        let mut output = String::new();
        loop {
            let frame = self.frame().await;
            if frame["id"] != id {
                continue;
            }
            match frame["data"].as_str() {
                Some(data) => output.push_str(data),
                None => return (output, frame),
            }
        }
    }

    /// Reads a terminal until it shows a text.
    async fn until_shown(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.message().await {
                Some(Message::Binary(bytes)) => seen.extend_from_slice(&bytes),
                other => panic!("{other:?} came before {text:?}; until then {:?}", String::from_utf8_lossy(&seen)),
            }
            let shown = String::from_utf8_lossy(&seen);
            if shown.contains(text) {
                return shown.into_owned();
            }
        }
    }

    /// Reads a terminal until the server closes it, and returns its last frame.
    async fn until_over(&mut self) -> Value {
        loop {
            match self.message().await {
                Some(Message::Binary(_)) => {}
                Some(Message::Text(text)) => {
                    assert!(matches!(self.message().await, Some(Message::Close(_))), "the end is the last frame");
                    return serde_json::from_str(&text).unwrap();
                }
                other => panic!("{other:?} came before the end"),
            }
        }
    }
}

/// Counts the commands in a guest that contain a text.
async fn running(bed: &Bed, id: SandboxId, text: &str) -> usize {
    // Brackets keep the search from finding itself.
    let (first, rest) = text.split_at(1);
    let count = format!("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '[{first}]{rest}' | wc -l");
    bed.sh(id, &count).await.unwrap().0.trim().parse().unwrap()
}

#[tokio::test]
async fn commands_share_a_socket() {
    with_sandbox(async |bed, id| {
        let door = Door::open(bed, id).await;
        let mut peer = door.socket("/exec/ws").await;
        peer.say(json!({"id": "1", "cmd": "echo é; echo oops >&2; exit 3"})).await;
        let (output, end) = peer.until_end("1").await;
        assert!(output.contains("é\n") && output.contains("oops\n"), "{output}");
        assert_eq!(end, json!({"id": "1", "exit": 3}));

        // Each waits for the other, so they can end only if they run in parallel.
        peer.say(json!({"id": "a", "cmd": "mkfifo /tmp/p /tmp/q 2>/dev/null; echo ping > /tmp/p; cat /tmp/q"})).await;
        peer.say(json!({"id": "b", "cmd": "while [ ! -p /tmp/q ]; do sleep 0.05; done; cat /tmp/p; echo pong > \
            /tmp/q"}))
            .await;
        let (mut said, mut ends) = (json!({"a": "", "b": ""}), 0);
        while ends < 2 {
            let frame = peer.frame().await;
            let id = frame["id"].as_str().unwrap().to_owned();
            match frame["data"].as_str() {
                Some(data) => said[&id] = json!(format!("{}{data}", said[&id].as_str().unwrap())),
                None => {
                    assert_eq!(frame["exit"], 0, "{frame}");
                    ends += 1;
                }
            }
        }
        assert_eq!(said, json!({"a": "pong\n", "b": "ping\n"}));

        peer.say(json!({"id": "1", "cmd": "cat; pwd; echo $A; id \
            -un", "stdin": true, "cwd": "/tmp", "env": {"A": "1"}, "user": "nobody"}))
            .await;
        peer.say(json!({"id": "1", "stdin": "in\n", "stdin_close": true})).await;
        assert_eq!(peer.until_end("1").await, ("in\n/tmp\n1\nnobody\n".to_owned(), json!({"id": "1", "exit": 0})));

        peer.say(json!({"id": "1", "cmd": "trap 'echo caught; exit 5' TERM; echo up; while :; do sleep 0.05; \
            done"}))
            .await;
        assert_eq!(peer.frame().await["data"], "up\n");
        peer.say(json!({"id": "1", "signal": "TERM"})).await;
        // The shell may also report the killed sleep.
        let (output, end) = peer.until_end("1").await;
        assert!(output.contains("caught\n"), "{output}");
        assert_eq!(end, json!({"id": "1", "exit": 5}));
        drop(peer);
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn commands_are_ended_by_cancel_limit_and_hangup() {
    with_sandbox(async |bed, id| {
        let door = Door::open(bed, id).await;
        let mut peer = door.socket("/exec/ws").await;
        peer.say(json!({"id": "long", "cmd": "echo up; sleep 4711"})).await;
        assert_eq!(peer.frame().await["data"], "up\n");
        assert!(running(bed, id, "sleep 4711").await > 0);
        peer.say(json!({"id": "long", "cancel": true})).await;
        assert_eq!(peer.frame().await, json!({"id": "long", "error": "cancelled"}));
        wait_for("the end of what was cancelled", PATIENCE, async || {
            (running(bed, id, "sleep 4711").await == 0).then_some(())
        })
        .await;

        peer.say(json!({"id": "late", "cmd": "echo part; sleep 4712", "timeout_seconds": 5})).await;
        assert_eq!(
            peer.until_end("late").await,
            ("part\n".to_owned(), json!({"id": "late", "error": "exec timeout after 5s"}))
        );

        for number in 0..5 {
            peer.say(json!({"id": number.to_string(), "cmd": "echo up; sleep 4713"})).await;
        }
        peer.say(json!({"id": "flood", "cmd": "yes 4714"})).await;
        for _ in 0..6 {
            peer.frame().await;
        }
        drop(peer);
        wait_for("the end of everything on the socket", PATIENCE, async || {
            (running(bed, id, "sleep 4713").await + running(bed, id, "yes 4714").await == 0).then_some(())
        })
        .await;
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn terminals_have_sizes_and_ends() {
    with_sandbox(async |bed, id| {
        let door = Door::open(bed, id).await;
        let mut pty = door.socket("/exec/pty?rows=30&cols=100").await;
        pty.keys("stty size; echo term=$TERM; echo $0 | tr a-z A-Z\n").await;
        let shown = pty.until_shown("SH").await;
        assert!(shown.contains("30 100") && shown.contains("term=xterm-256color"), "{shown}");
        pty.say(json!({"resize": {"rows": 31, "cols": 101}})).await;
        pty.keys("stty size\n").await;
        pty.until_shown("31 101").await;
        pty.say(json!({"type": "resize", "rows": 32, "cols": 102})).await;
        pty.say(json!({"stdin": "stty size\n"})).await;
        pty.until_shown("32 102").await;
        // A flood is stopped with Ctrl-C, as in any terminal.
        pty.keys("yes; echo stop$((1+1))ped\n").await;
        pty.until_shown("y\r\ny\r\n").await;
        pty.keys("\u{3}").await;
        pty.keys("echo still$((1+1))here\n").await;
        pty.until_shown("still2here").await;
        pty.keys("exit 7\n").await;
        assert_eq!(pty.until_over().await, json!({"type": "exit", "code": 7, "exit": 7}));

        let mut ssh = door.socket("/ssh").await;
        ssh.keys("stty size\n").await;
        ssh.until_shown("24 80").await;
        ssh.keys("exit 4\n").await;
        assert_eq!(ssh.until_over().await, json!({"exit": 4}));

        let mut program = door.socket("/exec/pty?cmd=echo%20one%3B%20exit%202").await;
        program.until_shown("one\r\n").await;
        assert_eq!(program.until_over().await, json!({"type": "exit", "code": 2, "exit": 2}));

        let mut left = door.socket("/ssh").await;
        left.keys("sleep 4715\n").await;
        wait_for("the program in the terminal", PATIENCE, async || {
            (running(bed, id, "sleep 4715").await > 0).then_some(())
        })
        .await;
        drop(left);
        wait_for("the end of an abandoned terminal", PATIENCE, async || {
            (running(bed, id, "sleep 4715").await == 0).then_some(())
        })
        .await;
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_machine_that_dies_is_an_error_on_every_socket() {
    with_sandbox(async |bed, id| {
        let door = Door::open(bed, id).await;
        let (mut peer, mut shell) = (door.socket("/exec/ws").await, door.socket("/ssh").await);
        peer.say(json!({"id": "a", "cmd": "echo up; sleep 1000"})).await;
        assert_eq!(peer.frame().await["data"], "up\n");
        let pid = bed.host.machine_pid(id).await.unwrap();
        kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
        let (_, end) = peer.until_end("a").await;
        assert!(end["error"].as_str().unwrap().contains("machine ended"), "{end}");
        let over = shell.until_over().await;
        assert!(over["error"].as_str().unwrap().contains("machine ended"), "{over}");
        wait_for("the failure to be known", PATIENCE, async || {
            (bed.host.observe(id).await?.state.as_str() == "failed").then_some(())
        })
        .await;
        // The open socket reports it for each new command, and a new socket is refused.
        peer.say(json!({"id": "b", "cmd": "true"})).await;
        assert!(peer.until_end("b").await.1["error"].as_str().unwrap().contains("machine ended"));
        for path in ["/exec/ws", "/exec/pty", "/ssh"] {
            let Err(Error::Http(refusal)) = door.knock(path).await.map(drop) else { panic!("{path} was opened") };
            assert_eq!(refusal.status(), 409, "{path}");
        }
        drop(peer);
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_sleeper_is_woken_by_a_socket_and_by_what_is_said_on_it() {
    with_sandbox(async |bed, id| {
        let door = Door::open(bed, id).await;
        bed.host.sleep(id).await.unwrap();
        let mut peer = door.socket("/exec/ws").await;
        assert_eq!(bed.host.observe(id).await.unwrap().state, SandboxState::Running);
        peer.say(json!({"id": "a", "cmd": "echo awake"})).await;
        assert_eq!(peer.until_end("a").await, ("awake\n".to_owned(), json!({"id": "a", "exit": 0})));
        // Put to sleep under an open socket, it is woken by the next command.
        bed.host.sleep(id).await.unwrap();
        peer.say(json!({"id": "a", "cmd": "echo again"})).await;
        assert_eq!(peer.until_end("a").await, ("again\n".to_owned(), json!({"id": "a", "exit": 0})));
        bed.host.sleep(id).await.unwrap();
        let mut shell = door.socket("/ssh").await;
        shell.keys("echo sh$((1+1))ll\n").await;
        shell.until_shown("sh2ll").await;
        drop((peer, shell));
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_command_line_lends_its_terminal_and_gets_it_back() {
    with_sandbox(async |bed, id| {
        let door = Door::open(bed, id).await;
        let pair = pty::open(pty::PtySize { rows: 33, cols: 91 }).unwrap();
        let before = tcgetattr(&pair.slave).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let mut command = door.command_line(id);
        let shell = RefCell::new(command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap());
        let window = Window { master: pair.master, shown: RefCell::default() };
        window.keys("stty size\n");
        window.until_shown("33 91").await;
        assert!(tcgetattr(&pair.slave).unwrap() != before, "keys go through as they are");
        pty::resize(window.master.as_fd(), pty::PtySize { rows: 34, cols: 92 }).unwrap();
        // It is not in the terminal's foreground group, so the terminal does not signal it.
        kill(Pid::from_raw(shell.borrow().id().try_into().unwrap()), Signal::SIGWINCH).unwrap();
        window.keys("until stty size | grep -q '34 92'; do sleep 0.1; done; echo got$((1+1))it\n");
        window.until_shown("got2it").await;
        window.keys("exit 6\n");
        let status = wait_for("the end of the shell", PATIENCE, async || {
            window.read();
            shell.borrow_mut().try_wait().unwrap()
        })
        .await;
        assert_eq!(status.code(), Some(6), "{}", window.text());
        assert!(tcgetattr(&pair.slave).unwrap() == before, "the terminal is not as it was");

        // Without a terminal it is a pipe.
        let mut piped = door.command_line(id).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        piped.stdin.take().unwrap().write_all(b"echo h$((1+1))llo; exit 3\n").unwrap();
        let output = in_time(move || piped.wait_with_output()).await;
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("h2llo"), "{output:?}");

        bed.host.pause(id).await.unwrap();
        let mut refused = door.command_line(id);
        let refused = in_time(move || refused.stdin(Stdio::null()).output()).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("the sandbox is paused"), "{refused:?}");
        bed.host.resume(id).await.unwrap();
        door.close().await;
    })
    .await;
}

async fn in_time(run: impl FnOnce() -> std::io::Result<Output> + Send + 'static) -> Output {
    let done = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(run));
    done.await.expect("the program ends").unwrap().unwrap()
}

/// A terminal window with a user.
struct Window {
    master: OwnedFd,
    shown: RefCell<Vec<u8>>,
}

impl Window {
    fn keys(&self, text: &str) {
        // A few keys always fit.
        nix::unistd::write(&self.master, text.as_bytes()).unwrap();
    }

    /// Reads the available output.
    fn read(&self) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = nix::unistd::read(&self.master, &mut buffer) {
            self.shown.borrow_mut().extend_from_slice(&buffer[..count]);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.borrow()).into_owned()
    }

    async fn until_shown(&self, text: &str) {
        wait_for("something in the window", PATIENCE, async || {
            self.read();
            self.text().contains(text).then_some(())
        })
        .await;
    }
}
