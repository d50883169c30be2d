//! Passes open files to another process over a local socket. The receiver needs no path to them and
//! no right to open them.

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

/// Sends bytes over a local stream socket, and a file with the first byte. Returns how many bytes
/// were sent. The caller sends the rest without the file.
pub fn send_with_file(socket: impl AsFd, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
    let (bytes, files) = ([IoSlice::new(bytes)], [file.as_raw_fd()]);
    let attached = [ControlMessage::ScmRights(&files)];
    let socket = socket.as_fd().as_raw_fd();
    Ok(sendmsg::<()>(socket, &bytes, &attached, MsgFlags::MSG_NOSIGNAL, None)?)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{IoSliceMut, Read, Write},
        os::{
            fd::{FromRawFd, OwnedFd},
            unix::net::UnixStream,
        },
    };

    use nix::sys::socket::{ControlMessageOwned, recvmsg};

    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn the_receiver_can_read_the_file() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!(send_with_file(&ours, b"take this", reader.as_fd()).unwrap(), 9);
        drop(reader);
        let mut buffer = [0; 16];
        let mut space = nix::cmsg_space!(i32);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let message = recvmsg::<()>(theirs.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::empty()).unwrap();
        assert_eq!(message.bytes, 9);
        let Some(ControlMessageOwned::ScmRights(files)) = message.cmsgs().unwrap().next() else {
            panic!("no file came")
        };
        // SAFETY: the descriptor was just received and no other code owns it.
        let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(files[0]) });
        writer.write_all(b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
