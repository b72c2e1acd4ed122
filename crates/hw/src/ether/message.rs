//! Messages of a packet socket: a received frame or, from the error queue, the stamp of a sent frame.

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

/// Metadata of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    /// Length on the wire, which may exceed the buffer.
    pub(super) length: usize,
    /// `PACKET_*` type of the sender's address; 0 without an address.
    pub(super) kind: u8,
    /// The kernel's stamp, on CLOCK_REALTIME.
    pub(super) software: Option<Duration>,
    /// The adapter's stamp, on its own clock.
    pub(super) hardware: Option<Duration>,
    /// Protocol and control word of the VLAN tag that the kernel removed from the frame.
    pub(super) vlan: Option<(u16, u16)>,
    /// From the error queue: key of the sent frame that the stamp belongs to.
    pub(super) key: Option<u32>,
}

/// Returns the next frame, without waiting.
pub(super) fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> nix::Result<Message> {
    let mut control = control_buffer();
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    let seen = recvmsg::<LinkAddr>(fd.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let kind = seen.address.map_or(0, |sender| sender.pkttype());
    Ok(Message { kind, ..message(&seen) })
}

/// Returns the next message of the error queue, without waiting.
pub(super) fn receive_error(fd: &OwnedFd) -> nix::Result<Message> {
    let mut control = control_buffer();
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC | MsgFlags::MSG_ERRQUEUE;
    let seen = recvmsg::<()>(fd.as_raw_fd(), &mut [], Some(&mut control), flags)?;
    Ok(message(&seen))
}

/// Returns a buffer for all control messages that the kernel adds to a message.
fn control_buffer() -> [u8; 512] {
    [0; 512]
}

fn message<S: SockaddrLike>(seen: &RecvMsg<'_, '_, S>) -> Message {
    let mut message = Message {
        length: seen.bytes,
        ..Message::default()
    };
    // The iterator fails only if the buffer was too short, and 512 bytes are enough.
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

/// Converts a stamp; a time of zero means that there is none.
fn stamp(time: TimeSpec) -> Option<Duration> {
    duration(time).filter(|time| !time.is_zero())
}

/// Converts a time since zero; `None` if it is negative or malformed.
pub(super) fn duration(time: TimeSpec) -> Option<Duration> {
    let nanoseconds = u32::try_from(time.tv_nsec())
        .ok()
        .filter(|value| *value < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec()).ok()?, nanoseconds))
}

/// Returns the tag protocol and the control word from a `struct tpacket_auxdata`, if the frame had a VLAN tag.
fn vlan(data: &[u8]) -> Option<(u16, u16)> {
    let status = number(data, 0)?;
    let word = |at| data.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
    let (control, protocol) = (word(16)?, word(18)?);
    let known = status & TP_STATUS_VLAN_TPID_VALID != 0;
    let protocol = if known { protocol } else { ETH_P_8021Q as u16 };
    (status & TP_STATUS_VLAN_VALID != 0).then_some((protocol, control))
}

/// Returns the key of the sent frame from a `struct sock_extended_err` about its stamp.
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

    /// Builds the kernel's layout: status, lengths, offsets, control word, tag protocol.
    fn auxdata(status: u32) -> Vec<u8> {
        let mut data = vec![0; 16];
        data[..4].copy_from_slice(&status.to_ne_bytes());
        data.extend(0x2005_u16.to_ne_bytes());
        data.extend(0x88a8_u16.to_ne_bytes());
        data
    }

    #[test]
    fn vlan_tag_needs_the_valid_flag() {
        assert_eq!(vlan(&auxdata(0)), None);
        assert_eq!(vlan(&auxdata(TP_STATUS_VLAN_VALID)), Some((0x8100, 0x2005)));
        let both = TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
        assert_eq!(vlan(&auxdata(both)), Some((0x88a8, 0x2005)));
    }

    #[test]
    fn key_is_read_from_stamp_errors_only() {
        let mut error = [0; 16];
        error[12..].copy_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(key(&error), None);
        error[4] = SO_EE_ORIGIN_TIMESTAMPING;
        assert_eq!(key(&error), Some(7));
    }

    #[test]
    fn truncated_control_messages_are_ignored() {
        for length in 0..20 {
            assert_eq!(vlan(&auxdata(u32::MAX)[..length]), None);
        }
        let error = [SO_EE_ORIGIN_TIMESTAMPING; 16];
        for length in 0..16 {
            assert_eq!(key(&error[..length]), None);
        }
    }

    #[test]
    fn malformed_time_is_none() {
        assert_eq!(duration(TimeSpec::new(-1, 0)), None);
        assert_eq!(duration(TimeSpec::new(1, 1_000_000_000)), None);
        assert_eq!(duration(TimeSpec::new(1, 2)), Some(Duration::new(1, 2)));
        assert_eq!(stamp(TimeSpec::new(0, 0)), None);
    }
}
