//! The rig's port to a device model in another process, over its socket.

use core::time::Duration;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use verbatim_wire::Mad;

use super::datagram::{self, Junk, Message};
use crate::error::RigError;
use crate::file::RigConfig;
use crate::place::Place;
use crate::port::{Incoming, Link, NotSent, PortRig};
use crate::{OpenRig, Session, fingerprint, info};

/// Time that the model's queue may stay full.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn open(config: &RigConfig, socket: &Path, cancel: Arc<AtomicBool>) -> Result<OpenRig, RigError> {
    let link = ModelLink::connect(&config.name, socket)?;
    let mut port = PortRig::new(link, config.slow.scale, cancel);
    let bound = port.measure_host_bound().map_err(|why| RigError::Lost {
        rig: config.name.clone(),
        why,
    })?;
    Ok(OpenRig {
        info: info(config, bound),
        session: Session::Real(Box::new(port)),
        fingerprint: fingerprint::of_model(socket),
    })
}

/// The tester's end of the cable.
struct ModelLink {
    socket: UnixDatagram,
    model: PathBuf,
    /// Directory of our own socket. Dropping this value removes the directory and the socket.
    _place: Place,
}

impl ModelLink {
    fn connect(rig: &str, model: &Path) -> Result<Self, RigError> {
        let place = Place::new(rig)?;
        let own = place.path().join("socket");
        let socket = UnixDatagram::bind(&own)
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|source| RigError::Place {
                rig: rig.into(),
                what: format!("making a socket at {}", own.display()),
                source,
            })?;
        let hello = datagram::encode(&Message::Nothing);
        let there = socket.connect(model).and_then(|()| match socket.send(&hello) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        });
        there.map_err(|source| RigError::NoModel {
            rig: rig.into(),
            path: model.into(),
            source,
        })?;
        Ok(Self {
            socket,
            model: model.into(),
            _place: place,
        })
    }

    fn gone(&self, error: &io::Error) -> String {
        format!(
            "the device model at {} went away ({error}): expected a running `verbatimd model`; start it again, then run \
             again",
            self.model.display()
        )
    }

    /// Waits until the socket is ready for `what`; false on timeout.
    fn wait_for(&self, what: PollFlags, timeout: Duration) -> Result<bool, String> {
        match ppoll(
            &mut [PollFd::new(self.socket.as_fd(), what)],
            Some(timeout.into()),
            None,
        ) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(self.gone(&error.into())),
        }
    }
}

impl Link for ModelLink {
    fn send(&mut self, mad: &Mad) -> Result<(), NotSent> {
        let datagram = datagram::encode(&Message::Mad(*mad));
        let start = crate::clock::Clock::start(1);
        loop {
            match self.socket.send(&datagram) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let spent = start.now().since(verbatim_record::Time(0));
                    if spent >= PATIENCE {
                        return Err(NotSent::Gone(format!(
                            "the device model at {} read no datagram for {PATIENCE:?}, and its queue is full: is it \
                             stopped?",
                            self.model.display()
                        )));
                    }
                    self.wait_for(PollFlags::POLLOUT, PATIENCE - spent)
                        .map_err(NotSent::Gone)?;
                }
                Err(error) => return Err(NotSent::Gone(self.gone(&error))),
            }
        }
    }

    fn recv(&mut self, timeout: Duration) -> Result<Option<Incoming>, String> {
        if !timeout.is_zero() && !self.wait_for(PollFlags::POLLIN, timeout)? {
            return Ok(None);
        }
        let mut buffer = [0; datagram::LONGEST];
        loop {
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(self.gone(&error)),
            };
            match datagram::decode(&buffer[..length]) {
                Ok(Message::Mad(mad)) => return Ok(Some(Incoming { mad, errno: 0 })),
                Ok(Message::InUse) => {
                    return Err(format!(
                        "another tester uses the device model at {}: wait for it, or stop it",
                        self.model.display()
                    ));
                }
                // Ignore kinds that a newer model may add.
                Ok(Message::Nothing | Message::Packet(_)) | Err(Junk::Kind(_)) => {}
                Err(junk) => {
                    return Err(format!(
                        "the process that answers at {} is not a device model: it sent {junk}",
                        self.model.display()
                    ));
                }
            }
        }
    }

    fn probe(&mut self) -> Result<(), String> {
        match self.socket.send(&datagram::encode(&Message::Nothing)) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Err(self.gone(&error))
            }
            _ => Ok(()),
        }
    }
}
