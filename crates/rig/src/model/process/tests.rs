use super::*;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use verbatim_device::Defect;
use verbatim_tester::{Arrival, Rig, Stimulus, Stop};
use verbatim_wire::{
    AttributeId, Layout, Lid, MadHeaders, Method, MgmtClass, PhysState, PortInfo, PortState, mad_packet,
};

use crate::{RigConfig, RigFile, RigKind, Session};

/// A model on a thread of the test process.
struct Running {
    directory: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ModelError>>>,
}

impl Running {
    fn start(profile: Profile, defects: &[Defect]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut running = Self {
            directory,
            stop: Arc::default(),
            thread: None,
        };
        running.serve(profile, defects);
        running
    }

    fn serve(&mut self, profile: Profile, defects: &[Defect]) {
        let model = Model {
            listen: self.socket(),
            profile,
            defects: defects.to_vec(),
        };
        let (ready, is_ready) = std::sync::mpsc::channel();
        let stop = Arc::clone(&self.stop);
        stop.store(false, Ordering::Release);
        self.thread = Some(thread::spawn(move || model.serve(&stop, |_| ready.send(()).unwrap())));
        is_ready.recv().unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("model")
    }

    fn end(&mut self) -> Result<(), ModelError> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }

    fn config(&self) -> RigConfig {
        let mut config = RigFile::built_in().rigs.remove(0);
        config.kind = RigKind::Model { socket: self.socket() };
        config
    }

    fn open(&self, cancel: Arc<AtomicBool>) -> Box<dyn Rig + Send> {
        match crate::open(&self.config(), cancel).unwrap().session {
            Session::Real(rig) => rig,
            Session::Virtual(_) | Session::Closed => panic!("not a real rig"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn get(id: u64) -> Mad {
    Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]).with_transaction_id(id)
}

const SECOND: Duration = Duration::from_secs(1);

fn answer(rig: &mut dyn Rig, request: &Mad) -> Option<Mad> {
    let sent = rig.send(Stimulus::Mad(0, request)).unwrap();
    match rig.wait(sent.latest.after(5 * SECOND)) {
        Arrival::Mad(0, at, mad) => {
            assert!(at.latest >= sent.earliest);
            Some(mad)
        }
        Arrival::Deadline => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rig_reaches_model_by_all_mad_classes() {
    let running = Running::start(Profile::full(), &[]);
    let mut rig = running.open(Arc::default());
    let mad = answer(&mut *rig, &get(1)).unwrap();
    assert_eq!((mad.method(), mad.transaction_id()), (Method::GET_RESP, 1));
    assert_eq!((mad.bytes()[6], mad.bytes()[7]), (0, 1), "the last hop was done");
    assert_eq!(mad.attribute::<PortInfo>().lid(), Profile::full().lid);
    let by_lid = Mad::lid_routed(Method::GET, AttributeId::PORT_INFO, 0).with_transaction_id(2);
    assert_eq!(answer(&mut *rig, &by_lid).unwrap().class(), MgmtClass::SUBN_LID);
    let counters = Mad::performance(Method::GET, AttributeId::PORT_COUNTERS, 0).with_transaction_id(3);
    assert_eq!(answer(&mut *rig, &counters).unwrap().class(), MgmtClass::PERF);
}

#[test]
fn response_takes_the_devices_latency() {
    let mut profile = Profile::minimal();
    profile.latency = Duration::from_millis(80);
    let running = Running::start(profile, &[]);
    let mut rig = running.open(Arc::default());
    // Measure the best of several tries, because the machine may be busy.
    let mut best = Duration::ZERO;
    for id in 1..=10 {
        let sent = rig.send(Stimulus::Mad(0, &get(id))).unwrap();
        let Arrival::Mad(0, at, _) = rig.wait(sent.latest.after(10 * SECOND)) else {
            panic!("no answer");
        };
        let (least, most) = at.since(sent);
        assert!(most >= Duration::from_millis(80), "{least:?}..{most:?}");
        best = best.max(least);
    }
    assert!(
        best > Duration::from_millis(40),
        "the span is not longer than a slice: {best:?}"
    );
}

#[test]
fn device_keeps_state_after_tester_dies() {
    let running = Running::start(Profile::minimal(), &[]);
    let mut first = running.open(Arc::default());
    let found: PortInfo = answer(&mut *first, &get(1)).unwrap().attribute();
    let changed = found.with_local_phy_errors(found.local_phy_errors() ^ 1);
    let set = get(2).with_method(Method::SET).with_data(changed.bytes());
    assert!(answer(&mut *first, &set).is_some());
    // The tester dies while a response is outstanding.
    first.send(Stimulus::Mad(0, &get(3))).unwrap();
    drop(first);
    let mut second = running.open(Arc::default());
    let now: PortInfo = answer(&mut *second, &get(4)).unwrap().attribute();
    assert_eq!(now.local_phy_errors(), changed.local_phy_errors());
}

#[test]
fn second_tester_is_refused_through_a_hard_link() {
    let running = Running::start(Profile::minimal(), &[]);
    let mut first = running.open(Arc::default());
    assert!(answer(&mut *first, &get(1)).is_some());
    let link = running.directory.path().join("link");
    std::fs::hard_link(running.socket(), &link).unwrap();
    let mut config = running.config();
    config.kind = RigKind::Model { socket: link };
    let second = || match crate::open(&config, Arc::default())?.session {
        Session::Real(rig) => Ok::<_, crate::RigError>(rig),
        Session::Virtual(_) | Session::Closed => panic!("not a real rig"),
    };
    // The refusal arrives while the rig is opened, or later on a busy host.
    let why = match second() {
        Err(error) => error.to_string(),
        Ok(mut rig) => match rig.wait(rig.now().after(10 * SECOND)) {
            Arrival::Stop(Stop::RigGone(why)) => why,
            other => panic!("the model answers two testers: {other:?}"),
        },
    };
    assert!(why.contains("another tester uses the device model"), "{why}");
    assert!(answer(&mut *first, &get(3)).is_some());
    drop(first);
    assert!(answer(&mut *second().unwrap(), &get(4)).is_some());
}

#[test]
fn native_packet_gets_a_packet_and_resets_link() {
    let running = Running::start(Profile::full(), &[]);
    let place = tempfile::tempdir().unwrap();
    let cable = UnixDatagram::bind(place.path().join("cable")).unwrap();
    cable.set_read_timeout(Some(10 * SECOND)).unwrap();
    let headers = MadHeaders::subnet_management(Lid(7), Lid(5));
    let send = |mad: &Mad| {
        let packet = Message::Packet(mad_packet(&headers, mad));
        cable.send_to(&datagram::encode(&packet), running.socket()).unwrap();
    };
    let answer = || {
        let mut bytes = [0; datagram::LONGEST];
        let length = cable.recv(&mut bytes).unwrap();
        let Ok(Message::Packet(packet)) = datagram::decode(&bytes[..length]) else {
            panic!("no packet: {:?}", &bytes[..length])
        };
        packet
    };
    let ask = Mad::lid_routed(Method::GET, AttributeId::PORT_INFO, 0).with_transaction_id(9);
    // The port drops an invalid packet; the next packet gets a response.
    let mut bad = mad_packet(&headers, &ask.with_transaction_id(8));
    bad[60] ^= 1;
    let bad = datagram::encode(&Message::Packet(bad));
    cable.send_to(&bad, running.socket()).unwrap();
    send(&ask);
    let packet = answer();
    let seen = Mad::try_from(&packet[28..284]).unwrap();
    assert_eq!(
        packet,
        mad_packet(&MadHeaders::subnet_management(Lid(5), Lid(7)), &seen)
    );
    assert_eq!((seen.transaction_id(), seen.method()), (9, Method::GET_RESP));
    assert_eq!(
        seen.attribute::<PortInfo>().port_state(),
        PortState::INITIALIZE,
        "found ACTIVE"
    );
    // The sender is the same, so the port keeps the state that the request set.
    let armed = seen.attribute::<PortInfo>().with_port_state(PortState::ARMED);
    let armed = armed.with_port_physical_state(PhysState::NO_CHANGE);
    let set = Mad::lid_routed(Method::SET, AttributeId::PORT_INFO, 0).with_transaction_id(10);
    send(&set.with_data(armed.bytes()));
    answer();
    send(&ask.with_transaction_id(11));
    let seen = Mad::try_from(&answer()[28..284]).unwrap();
    assert_eq!(seen.attribute::<PortInfo>().port_state(), PortState::ARMED);
}

#[test]
fn full_window_of_responses_arrives() {
    let running = Running::start(Profile::full(), &[]);
    let mut rig = running.open(Arc::default());
    for round in 0..20 {
        for id in 0..64 {
            rig.send(Stimulus::Mad(0, &get(round * 64 + id))).unwrap();
        }
        for id in 0..64 {
            let until = rig.now().after(5 * SECOND);
            let Arrival::Mad(_, _, mad) = rig.wait(until) else {
                panic!("answer {id} of round {round} is lost");
            };
            assert_eq!(mad.transaction_id(), round * 64 + id);
        }
    }
}

#[test]
fn drops_malformed_datagrams() {
    let running = Running::start(Profile::minimal(), &[]);
    let unnamed = UnixDatagram::unbound().unwrap();
    let mut cut = datagram::encode(&Message::Mad(get(1)));
    cut.pop();
    let no_hop = datagram::encode(&Message::Mad(Mad::directed(
        Method::GET,
        AttributeId::PORT_INFO,
        0,
        &[],
    )));
    let whole = datagram::encode(&Message::Mad(get(1)));
    for junk in [&[][..], &[0], &[0, 1, 77], &cut, &no_hop, &whole, &[0xFF; 8000]] {
        for _ in 0..3 {
            unnamed.send_to(junk, running.socket()).unwrap();
        }
    }
    // The model passes a malformed MAD to the device, which discards it.
    let mut odd = [0xA5; 256];
    odd[..4].copy_from_slice(&[9, 0x81, 9, 0x7F]);
    let mut rig = running.open(Arc::default());
    rig.send(Stimulus::Mad(0, &Mad::from(odd))).unwrap();
    assert!(answer(&mut *rig, &get(2)).is_some());
}

#[test]
fn death_of_model_ends_the_run() {
    let mut running = Running::start(Profile::minimal(), &[Defect::AnswersLate]);
    let mut rig = running.open(Arc::default());
    rig.send(Stimulus::Mad(0, &get(1))).unwrap();
    running.end().unwrap();
    let start = Instant::now();
    let until = rig.now().after(600 * SECOND);
    let Arrival::Stop(Stop::RigGone(why)) = rig.wait(until) else {
        panic!("not told");
    };
    assert!(why.contains("went away") && start.elapsed() < 60 * SECOND, "{why}");
    assert!(matches!(rig.send(Stimulus::Mad(0, &get(2))), Err(Stop::RigGone(_))));
    // The open rig does not use a new model at the same path. A rig that is opened afterwards does.
    running.serve(Profile::minimal(), &[]);
    assert!(matches!(rig.send(Stimulus::Mad(0, &get(3))), Err(Stop::RigGone(_))));
    assert!(answer(&mut *running.open(Arc::default()), &get(4)).is_some());
}

#[test]
fn replaces_only_a_stale_socket() {
    let mut running = Running::start(Profile::minimal(), &[]);
    let model = |listen: PathBuf| Model {
        listen,
        profile: Profile::minimal(),
        defects: Vec::new(),
    };
    let stop = AtomicBool::new(true);
    let error = model(running.socket()).serve(&stop, |_| ()).unwrap_err();
    assert!(matches!(error, ModelError::InUse { .. }), "{error}");
    running.end().unwrap();
    assert!(!running.socket().exists(), "a model that ends removes its socket");

    drop(UnixDatagram::bind(running.socket()).unwrap());
    assert!(running.socket().exists(), "as after SIGKILL");
    model(running.socket()).serve(&stop, |_| ()).unwrap();
    assert!(!running.socket().exists());

    let file = running.directory.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let error = model(file.clone()).serve(&stop, |_| ()).unwrap_err();
    assert!(matches!(error, ModelError::NotASocket { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "text");

    let error = model("/nonexistent/place".into()).serve(&stop, |_| ()).unwrap_err();
    assert!(matches!(error, ModelError::Bind { .. }), "{error}");
}

#[test]
fn missing_model_is_reported_with_remedy() {
    let running = Running::start(Profile::minimal(), &[]);
    let mut config = running.config();
    config.kind = RigKind::Model {
        socket: running.directory.path().join("absent"),
    };
    let error = crate::open(&config, Arc::default()).unwrap_err().to_string();
    assert!(
        error.contains("unavailable") && error.contains("verbatimd model --listen"),
        "{error}"
    );
}

#[test]
fn cancel_interrupts_a_wait() {
    let running = Running::start(Profile::minimal(), &[]);
    let cancel: Arc<AtomicBool> = Arc::default();
    let mut rig = running.open(Arc::clone(&cancel));
    let other = Arc::clone(&cancel);
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        other.store(true, Ordering::Release);
    });
    let until = rig.now().after(600 * SECOND);
    assert_eq!(rig.wait(until), Arrival::Stop(Stop::Cancelled));
    canceller.join().unwrap();
    assert!(answer(&mut *rig, &get(1)).is_some(), "the rig restores after a cancel");
}

#[test]
fn fingerprint_describes_device() {
    let running = Running::start(Profile::minimal(), &[]);
    let open = crate::open(&running.config(), Arc::default()).unwrap();
    let Session::Real(mut rig) = open.session else {
        panic!("not a real rig");
    };
    let device = crate::device_fingerprint(&mut *rig, &open.info).unwrap();
    assert_eq!(device["node_info"]["NumPorts"], "1");
    assert!(
        device["node_description"]
            .to_string()
            .contains("Verbatim reference device")
    );
    assert!(open.fingerprint["kernel"].is_string());
}
