//! A real agent in its own process and a plain client for it. The agent is killed when the value is
//! dropped; every wait has a deadline.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use pandastack_wire_guest::{
    CommandLine, Credit, Decoder, Error, ErrorKind, Frame, FrameKind, GENERATION, Hello, Message, ProcessExit,
    ProcessStarted, StartProcess, Welcome,
};

pub const SECRET: &[u8] = &[0xab, 0xcd, 0x01];
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Agent {
    process: Child,
    pub address: SocketAddr,
}

impl Agent {
    pub fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_guestd"))
            .args(["--listen", "127.0.0.1:0", "--secret", "abcd01"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Self { process, address }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Resident memory, in bytes.
    pub fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }

    /// Returns the children, zombies included.
    pub fn children(&self) -> Vec<u32> {
        let text = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    pub fn connect(&self) -> Client {
        let mut client = self.connect_silently();
        client.hello(SECRET);
        let welcome = Welcome::parse(&client.expect(0, FrameKind::Welcome).payload).unwrap();
        assert_eq!(welcome.generation, GENERATION);
        client
    }

    /// Connects without sending `Hello`.
    pub fn connect_silently(&self) -> Client {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { socket, decoder: Decoder::default(), waiting: VecDeque::new() }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub struct Client {
    pub socket: TcpStream,
    decoder: Decoder,
    waiting: VecDeque<Frame>,
}

/// Output and exit of a process.
#[derive(Debug)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: ProcessExit,
}

impl Client {
    pub fn hello(&mut self, secret: &[u8]) {
        self.send(Hello { generation: GENERATION, secret: secret.to_vec() }.frame(0));
    }

    pub fn send(&mut self, frame: Frame) {
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes);
        self.socket.write_all(&bytes).unwrap();
    }

    pub fn send_empty(&mut self, channel: u32, kind: FrameKind) {
        self.send(Frame::new(channel, kind, Bytes::new()));
    }

    /// Returns the next frame in order of arrival; `None` once the agent has hung up.
    pub fn arrive(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            let mut chunk = vec![0; 256 * 1024];
            match self.socket.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.decoder.buffer().extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no frame: {error}"),
            }
        }
    }

    /// Returns the next frame of one channel and queues those of others.
    pub fn next(&mut self, channel: u32) -> Frame {
        if let Some(index) = self.waiting.iter().position(|frame| frame.channel == channel) {
            return self.waiting.remove(index).unwrap();
        }
        loop {
            let frame = self.arrive().expect("the agent hung up");
            if frame.channel == channel {
                return frame;
            }
            self.waiting.push_back(frame);
        }
    }

    pub fn expect(&mut self, channel: u32, kind: FrameKind) -> Frame {
        let frame = self.next(channel);
        if frame.kind == FrameKind::Error && kind != FrameKind::Error {
            panic!("{kind:?} wanted, got {:?}", Error::parse(&frame.payload));
        }
        assert_eq!(frame.kind, kind, "channel {channel}");
        frame
    }

    pub fn expect_error(&mut self, channel: u32, kind: ErrorKind) -> String {
        let frame = loop {
            match self.next(channel) {
                frame if matches!(frame.kind, FrameKind::Credit | FrameKind::Stdout | FrameKind::Stderr) => {}
                frame => break frame,
            }
        };
        assert_eq!(frame.kind, FrameKind::Error, "channel {channel}");
        let error = Error::parse(&frame.payload).unwrap();
        assert_eq!(error.kind, kind, "{}", error.text);
        error.text
    }

    pub fn start(&mut self, channel: u32, start: StartProcess) -> u32 {
        self.send(start.frame(channel));
        ProcessStarted::parse(&self.expect(channel, FrameKind::Started).payload).unwrap().pid
    }

    pub fn credit(&mut self, channel: u32, bytes: usize) {
        self.send(Credit { bytes: bytes as u32 }.frame(channel));
    }

    /// Reads a process's output until it ends, and credits all of it.
    pub fn finish(&mut self, channel: u32) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            let frame = self.next(channel);
            match frame.kind {
                FrameKind::Stdout => stdout.extend_from_slice(&frame.payload),
                FrameKind::Stderr => stderr.extend_from_slice(&frame.payload),
                FrameKind::Credit => continue,
                FrameKind::Exit => return Output { stdout, stderr, exit: ProcessExit::parse(&frame.payload).unwrap() },
                FrameKind::Error => panic!("{:?}", Error::parse(&frame.payload)),
                other => panic!("unexpected {other:?}"),
            }
            if !frame.payload.is_empty() {
                self.credit(channel, frame.payload.len());
            }
        }
    }

    /// Runs a process to its end.
    pub fn run(&mut self, channel: u32, start: StartProcess) -> Output {
        self.start(channel, start);
        self.finish(channel)
    }

    /// Runs a shell command that must succeed, and returns its output.
    pub fn shell(&mut self, channel: u32, text: &str) -> String {
        let output = self.run(channel, shell(text));
        assert_eq!(
            output.exit,
            ProcessExit { code: 0, timed_out: false, signal: None },
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn ping(&mut self, channel: u32) {
        self.send_empty(channel, FrameKind::Ping);
        self.expect(channel, FrameKind::Pong);
    }
}

pub fn start(program: CommandLine) -> StartProcess {
    StartProcess {
        program,
        cwd: None,
        env: Vec::new(),
        user: None,
        stdin: false,
        deadline_ms: None,
        terminal: None,
        warm: None,
    }
}

pub fn shell(text: &str) -> StartProcess {
    start(CommandLine::Shell(text.to_owned()))
}

pub fn argv(words: &[&str]) -> StartProcess {
    start(CommandLine::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

/// Waits until a condition holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what} never came true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs. A zombie does not.
pub fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
