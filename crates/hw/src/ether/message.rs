//! What comes out of a packet socket: a frame or, from its error queue, the stamp of one that was sent.

use std::{
    io::IoSliceMut,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use nix::sys::{
    socket::{ControlMessageOwned, LinkAddr, MsgFlags, RecvMsg, SockaddrLike, Timestamps, UnknownCmsg, recvmsg},
    time::TimeSpec,
};

use super::sys::{
    ETH_P_8021Q, PACKET_AUXDATA, PACKET_TX_TIMESTAMP, SO_EE_ORIGIN_TIMESTAMPING, SOL_PACKET, TP_STATUS_VLAN_TPID_VALID,
    TP_STATUS_VLAN_VALID,
};

/// What came with a message besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    /// Length on the wire, which may be more than what fitted.
    pub(super) length: usize,
    /// `PACKET_*` type of the sender's address; 0 where it has none.
    pub(super) kind: u8,
    /// The kernel's stamp, on CLOCK_REALTIME.
    pub(super) software: Option<Duration>,
    /// The adapter's stamp, on its own clock.
    pub(super) hardware: Option<Duration>,
    /// Tag protocol and control word that the kernel took out of the frame.
    pub(super) vlan: Option<(u16, u16)>,
    /// From the error queue: which sent frame the stamp belongs to.
    pub(super) key: Option<u32>,
}

/// The next frame, without waiting.
pub(super) fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> nix::Result<Message> {
    let mut control = control_buffer();
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    let seen = recvmsg::<LinkAddr>(fd.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let kind = seen.address.map_or(0, |sender| sender.pkttype());
    Ok(Message { kind, ..message(&seen) })
}

/// The next message of the error queue, without waiting.
pub(super) fn receive_error(fd: &OwnedFd) -> nix::Result<Message> {
    let mut control = control_buffer();
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC | MsgFlags::MSG_ERRQUEUE;
    let seen = recvmsg::<()>(fd.as_raw_fd(), &mut [], Some(&mut control), flags)?;
    Ok(message(&seen))
}

/// Room for all that the kernel puts beside a message.
fn control_buffer() -> [u8; 512] {
    [0; 512]
}

fn message<S: SockaddrLike>(seen: &RecvMsg<'_, '_, S>) -> Message {
    let mut message = Message {
        length: seen.bytes,
        ..Message::default()
    };
    // An error says that not all of them fitted, which 512 bytes rule out.
    for entry in seen.cmsgs().into_iter().flatten() {
        match entry {
            ControlMessageOwned::ScmTimestampsns(Timestamps { system, hw_raw, .. }) => {
                message.software = stamp(system);
                message.hardware = stamp(hw_raw);
            }
            ControlMessageOwned::Unknown(UnknownCmsg {
                cmsg_header,
                data_bytes,
            }) if cmsg_header.cmsg_level == SOL_PACKET => match cmsg_header.cmsg_type {
                PACKET_AUXDATA => message.vlan = vlan(&data_bytes),
                PACKET_TX_TIMESTAMP => message.key = key(&data_bytes),
                _ => {}
            },
            _ => {}
        }
    }
    message
}

/// A time since zero; zero says that there is none.
fn stamp(time: TimeSpec) -> Option<Duration> {
    duration(time).filter(|time| !time.is_zero())
}

/// A time since zero, if it is one.
pub(super) fn duration(time: TimeSpec) -> Option<Duration> {
    let nanoseconds = u32::try_from(time.tv_nsec())
        .ok()
        .filter(|value| *value < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec()).ok()?, nanoseconds))
}

/// Tag protocol and control word of a `struct tpacket_auxdata`, if it has them.
fn vlan(data: &[u8]) -> Option<(u16, u16)> {
    let status = number(data, 0)?;
    let word = |at| data.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
    let (control, protocol) = (word(16)?, word(18)?);
    let known = status & TP_STATUS_VLAN_TPID_VALID != 0;
    let protocol = if known { protocol } else { ETH_P_8021Q as u16 };
    (status & TP_STATUS_VLAN_VALID != 0).then_some((protocol, control))
}

/// Number of the sent frame in a `struct sock_extended_err` about its stamp.
fn key(data: &[u8]) -> Option<u32> {
    let origin = *data.get(4)?;
    number(data, 12).filter(|_| origin == SO_EE_ORIGIN_TIMESTAMPING)
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel lays it out: status, lengths, places, control word, tag protocol.
    fn auxdata(status: u32) -> Vec<u8> {
        let mut data = vec![0; 16];
        data[..4].copy_from_slice(&status.to_ne_bytes());
        data.extend(0x2005_u16.to_ne_bytes());
        data.extend(0x88a8_u16.to_ne_bytes());
        data
    }

    #[test]
    fn a_tag_is_read_where_the_kernel_says_that_there_is_one() {
        assert_eq!(vlan(&auxdata(0)), None);
        assert_eq!(vlan(&auxdata(TP_STATUS_VLAN_VALID)), Some((0x8100, 0x2005)));
        let both = TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
        assert_eq!(vlan(&auxdata(both)), Some((0x88a8, 0x2005)));
    }

    #[test]
    fn the_number_of_a_sent_frame_is_read_from_errors_about_stamps_alone() {
        let mut error = [0; 16];
        error[12..].copy_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(key(&error), None);
        error[4] = SO_EE_ORIGIN_TIMESTAMPING;
        assert_eq!(key(&error), Some(7));
    }

    #[test]
    fn control_messages_that_are_cut_short_say_nothing() {
        for length in 0..20 {
            assert_eq!(vlan(&auxdata(u32::MAX)[..length]), None);
        }
        let error = [SO_EE_ORIGIN_TIMESTAMPING; 16];
        for length in 0..16 {
            assert_eq!(key(&error[..length]), None);
        }
    }

    #[test]
    fn a_time_before_zero_or_without_sense_is_none() {
        assert_eq!(duration(TimeSpec::new(-1, 0)), None);
        assert_eq!(duration(TimeSpec::new(1, 1_000_000_000)), None);
        assert_eq!(duration(TimeSpec::new(1, 2)), Some(Duration::new(1, 2)));
        assert_eq!(stamp(TimeSpec::new(0, 0)), None);
    }
}
