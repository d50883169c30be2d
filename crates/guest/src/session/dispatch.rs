//! Passes each frame to its handler: requests open a channel, other frames go to the channel they
//! name. Maps requests to handlers, and uses no sockets: frames leave through the lanes. Every
//! channel ends with exactly one terminal frame, which only this file sends.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use pandastack_wire_guest::{
    AttachProcess, CodeClose, CodeOpen, CodeRun, CodeWarm, CreateDir, Credit, ErrorKind, ForgetProcess, Frame,
    FrameKind, ListProcesses, Message, PathMessage, ReadFile, Rebirth, RenamePath, Resize, SetMode, Signal,
    SignalProcess, SpawnProcess, StartProcess, VolumeDevices, WalkDir, WatchPath, WriteFile, WriteStdin,
};
use tokio::{sync::Notify, task::JoinSet};

use super::{
    channel::{AgentChannel, EarlyEnd},
    fault::GuestFault,
    held::HeldBytes,
    lanes::Lanes,
};
use crate::{Agent, code, exec, figures, files, limits, ports, processes, rebirth, volumes};

/// What happens to a channel's work when the connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkKind {
    /// A process or a cell, which a rebirth may save.
    Process,
    /// Any other request, which is cancelled.
    Request,
}

type Channels = Rc<RefCell<BTreeMap<u32, (WorkKind, Rc<AgentChannel>)>>>;

/// The handlers of one connection and the channels they work on.
pub(super) struct Dispatcher {
    agent: Rc<Agent>,
    lanes: Lanes,
    channels: Channels,
    tasks: JoinSet<()>,
    /// Number of the last rebirth that the peer knows of: the one it found, or the one it
    /// performed.
    birth: Cell<u64>,
}

impl Dispatcher {
    pub(super) fn new(agent: Rc<Agent>, lanes: Lanes) -> Self {
        let birth = Cell::new(agent.births.get());
        Self { agent, lanes, channels: Channels::default(), tasks: JoinSet::new(), birth }
    }

    /// Whether a rebirth happened that the peer does not know of.
    pub(super) fn is_outlived(&self) -> bool {
        self.birth.get() != self.agent.births.get()
    }

    /// Waits until a handler has ended; for ever if there is none.
    pub(super) async fn handler_ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending().await
        }
    }

    /// Aborts all handlers.
    pub(super) async fn abort(mut self) {
        self.tasks.shutdown().await;
    }

    /// Handles one frame. An error is a protocol violation by the host and ends the connection.
    pub(super) async fn accept(&mut self, frame: Frame) -> Result<(), GuestFault> {
        let id = frame.channel;
        match frame.kind {
            FrameKind::Ping => self.lanes.control(Frame::new(id, FrameKind::Pong, bytes::Bytes::new())).await,
            FrameKind::Rebirth => self.be_reborn(&frame).await,
            FrameKind::Stdin | FrameKind::Data => {
                self.with(id, |channel| channel.put_input(&frame.payload, frame.flags.is_end()))
            }
            FrameKind::Cancel => self.with(id, |channel| channel.end_early(EarlyEnd::Cancelled)),
            FrameKind::Credit => {
                let Credit { bytes } = parse(&frame)?;
                self.with(id, |channel| channel.grant(bytes));
            }
            FrameKind::Signal => {
                let Signal { number } = parse(&frame)?;
                self.with(id, |channel| channel.put_signal(number));
            }
            FrameKind::Resize => {
                let size: Resize = parse(&frame)?;
                self.with(id, |channel| channel.put_size(size));
            }
            _ => return self.open(frame),
        }
        Ok(())
    }

    /// Opens a channel for a request.
    fn open(&mut self, frame: Frame) -> Result<(), GuestFault> {
        let id = frame.channel;
        if self.channels.borrow().contains_key(&id) {
            return Err(GuestFault::new(ErrorKind::Invalid, format!("channel {id} is in use")));
        }
        if self.channels.borrow().len() >= limits::CHANNELS_MAX {
            let text = format!("{} channels are already open", limits::CHANNELS_MAX);
            self.lanes.try_control(GuestFault::new(ErrorKind::Full, text).frame(id));
            return Ok(());
        }
        if !self.lanes.held().has_room(frame.payload.len()) {
            self.lanes.try_control(HeldBytes::fault().frame(id));
            return Ok(());
        }
        match frame.kind {
            FrameKind::Start => self.begin(frame, WorkKind::Process, async |agent, channel, frame| {
                exec::run(agent, channel, parse::<StartProcess>(frame)?).await
            }),
            FrameKind::Read => self.begin(frame, WorkKind::Request, async |_, channel, frame| {
                files::read(channel, parse::<ReadFile>(frame)?).await
            }),
            FrameKind::Write => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                files::write(agent, channel, parse::<WriteFile>(frame)?).await
            }),
            FrameKind::List => {
                self.begin(frame, WorkKind::Request, async |_, channel, frame| files::list(channel, path(frame)?).await)
            }
            FrameKind::Stat => {
                self.begin(frame, WorkKind::Request, async |_, channel, frame| files::stat(channel, path(frame)?))
            }
            FrameKind::Delete => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                files::delete(agent, channel, path(frame)?).await
            }),
            FrameKind::CodeOpen => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                code::open(agent, channel, parse::<CodeOpen>(frame)?).await
            }),
            FrameKind::CodeSessions => {
                self.begin(frame, WorkKind::Request, async |agent, channel, _| Ok(code::list(agent, channel)))
            }
            FrameKind::CodeClose => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                code::close(agent, channel, &parse::<CodeClose>(frame)?)
            }),
            FrameKind::CodeRun => self.begin(frame, WorkKind::Process, async |agent, channel, frame| {
                code::run(agent, channel, parse::<CodeRun>(frame)?).await
            }),
            FrameKind::Ports => {
                self.begin(frame, WorkKind::Request, async |agent, channel, _| Ok(ports::list(agent).frame(channel.id)))
            }
            FrameKind::Measure => {
                self.begin(frame, WorkKind::Request, async |_, channel, _| Ok(figures::measure().frame(channel.id)))
            }
            FrameKind::Quiesce => {
                self.begin(frame, WorkKind::Request, async |agent, channel, _| rebirth::quiesce(agent, channel).await)
            }
            FrameKind::Thaw => {
                self.begin(frame, WorkKind::Request, async |agent, channel, _| rebirth::thaw(agent, channel))
            }
            FrameKind::Mount => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                volumes::mount(agent, channel, volumes_of(frame)?).await
            }),
            FrameKind::Grow => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                volumes::grow(agent, channel, volumes_of(frame)?).await
            }),
            FrameKind::PowerOff => {
                self.begin(frame, WorkKind::Request, async |agent, channel, _| rebirth::power_off(agent, channel).await)
            }
            other => return self.open_more(other, frame),
        }
        Ok(())
    }

    /// Opens a channel for a request of generation 3 or 4.
    fn open_more(&mut self, kind: FrameKind, frame: Frame) -> Result<(), GuestFault> {
        match kind {
            FrameKind::CodeWarm => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                code::keep_warm(agent, channel, parse::<CodeWarm>(frame)?).await
            }),
            FrameKind::CodeRehearse => self.begin(frame, WorkKind::Request, async |agent, channel, _| {
                code::rehearse(agent).await.map(|()| rebirth::done(channel))
            }),
            FrameKind::Spawn => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                processes::spawn(agent, channel, parse::<SpawnProcess>(frame)?).await
            }),
            FrameKind::Processes => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                processes::list(agent, channel, parse::<ListProcesses>(frame)?)
            }),
            FrameKind::Attach => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                processes::attach(agent, channel, parse::<AttachProcess>(frame)?).await
            }),
            FrameKind::WriteStdin => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                processes::feed(agent, channel, parse::<WriteStdin>(frame)?).await
            }),
            FrameKind::SignalProcess => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                processes::tell(agent, channel, parse::<SignalProcess>(frame)?)
            }),
            FrameKind::Forget => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                processes::forget(agent, channel, parse::<ForgetProcess>(frame)?)
            }),
            FrameKind::MakeDir => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                files::make_dir(agent, channel, parse::<CreateDir>(frame)?).await
            }),
            FrameKind::Move => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                files::move_path(agent, channel, parse::<RenamePath>(frame)?).await
            }),
            FrameKind::Chmod => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                files::chmod(agent, channel, parse::<SetMode>(frame)?).await
            }),
            FrameKind::Walk => self.begin(frame, WorkKind::Request, async |_, channel, frame| {
                files::walk(channel, parse::<WalkDir>(frame)?).await
            }),
            FrameKind::Watch => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                files::watch(agent, channel, parse::<WatchPath>(frame)?).await
            }),
            FrameKind::Pack => {
                self.begin(frame, WorkKind::Request, async |_, channel, frame| files::pack(channel, path(frame)?).await)
            }
            FrameKind::Unpack => self.begin(frame, WorkKind::Request, async |agent, channel, frame| {
                files::unpack(agent, channel, path(frame)?).await
            }),
            other => return Err(GuestFault::new(ErrorKind::Invalid, format!("unexpected {other:?} frame"))),
        }
        Ok(())
    }

    /// Runs a request's work on its new channel. `WorkKind::Request` is dropped when the host
    /// cancels; a process or a cell handles the cancel itself.
    fn begin<F>(&mut self, frame: Frame, work: WorkKind, answer: F)
    where
        F: AsyncFnOnce(&Rc<Agent>, &Rc<AgentChannel>, &Frame) -> Result<Frame, GuestFault> + 'static,
    {
        let channel = Rc::new(AgentChannel::new(frame.channel, self.lanes.clone()));
        self.channels.borrow_mut().insert(channel.id, (work, channel.clone()));
        let (agent, held, request_bytes) = (self.agent.clone(), self.lanes.held().clone(), frame.payload.len());
        held.add(request_bytes);
        // Made here and not in the task, which may be dropped before it runs.
        let ending = ChannelEnding { channels: self.channels.clone(), channel: channel.clone(), held, request_bytes };
        self.tasks.spawn_local(async move {
            let outcome = match work {
                WorkKind::Process => answer(&agent, &channel, &frame).await,
                WorkKind::Request => tokio::select! {
                    biased;
                    outcome = answer(&agent, &channel, &frame) => outcome,
                    fate = channel.early_end() => Err(fate.into()),
                },
            };
            ending.finish(outcome).await;
        });
    }

    fn with(&self, id: u32, act: impl FnOnce(&AgentChannel)) {
        // A frame for a channel that has just ended is not an error: the host could not know.
        if let Some((_, channel)) = self.channels.borrow().get(&id) {
            act(channel);
        }
    }

    async fn be_reborn(&self, frame: &Frame) {
        let outcome = match parse::<Rebirth>(frame) {
            Ok(rebirth) => rebirth::perform(&self.agent, rebirth),
            Err(fault) => Err(fault),
        };
        let is_new_life = self.is_outlived();
        self.birth.set(self.agent.births.get());
        let reply = match outcome {
            Ok(reborn) => reborn.frame(frame.channel),
            Err(fault) => fault.frame(frame.channel),
        };
        self.lanes.control(reply).await;
        if is_new_life {
            rebirth::close_old_connections(&self.agent);
        }
    }

    /// Ends the connection's work after its loss. Requests end at once. Processes wait a short time
    /// for a rebirth, which shows that this guest is a copy: then they continue without a reader.
    pub(super) async fn finish_after_loss(mut self) {
        for (work, channel) in self.channels.borrow().values() {
            match work {
                WorkKind::Process => channel.detach_reader(),
                WorkKind::Request => channel.end_early(EarlyEnd::Cancelled),
            }
        }
        let mut tasks = std::mem::take(&mut self.tasks);
        tokio::select! {
            () = wait_until(&self.agent.reborn, || self.is_outlived()) => {}
            () = all_done(&mut tasks) => return,
            () = tokio::time::sleep(limits::LOST_GRACE) => {}
        }
        if self.is_outlived() {
            all_done(&mut tasks).await;
        }
        // Dropping the tasks kills their remaining process groups.
    }
}

/// Waits until a condition holds. It is checked again after each notification.
async fn wait_until(told: &Notify, is_so: impl Fn() -> bool) {
    while !is_so() {
        told.notified().await;
    }
}

async fn all_done(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

fn parse<M: Message>(frame: &Frame) -> Result<M, GuestFault> {
    M::parse(&frame.payload).map_err(|error| GuestFault::invalid(&error))
}

fn path(frame: &Frame) -> Result<PathMessage, GuestFault> {
    PathMessage::parse(frame.kind, &frame.payload).map_err(|error| GuestFault::invalid(&error))
}

fn volumes_of(frame: &Frame) -> Result<VolumeDevices, GuestFault> {
    VolumeDevices::parse(frame.kind, &frame.payload).map_err(|error| GuestFault::invalid(&error))
}

/// Frees a channel's number and sends its terminal frame, however the work ends.
struct ChannelEnding {
    channels: Channels,
    channel: Rc<AgentChannel>,
    held: HeldBytes,
    /// Size of the request, which stays in memory during its work.
    request_bytes: usize,
}

impl ChannelEnding {
    async fn finish(self, outcome: Result<Frame, GuestFault>) {
        let place = self.channel.lanes().place().await;
        // Freed first: the host may reuse the number as soon as it has the frame.
        self.channels.borrow_mut().remove(&self.channel.id);
        if let Some(place) = place {
            place.send(outcome.unwrap_or_else(|fault| fault.frame(self.channel.id)));
        }
    }
}

impl Drop for ChannelEnding {
    fn drop(&mut self) {
        self.held.release(self.request_bytes);
        let unfinished = self.channels.borrow_mut().remove(&self.channel.id).is_some();
        if unfinished && std::thread::panicking() {
            let fault = GuestFault::new(ErrorKind::Failed, "internal error of the guest agent");
            self.channel.lanes().try_control(fault.frame(self.channel.id));
        }
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
