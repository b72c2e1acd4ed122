//! Tests with a real agent on a fake device in memory, and a socket pair over which a test acts as the emulated
//! machine.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use verbatim_hw::ether::Frame;
use verbatim_record::{Cause, Outcome, Verdict};
use verbatim_tester::{Area, FileJournal, FramePort, Journal, Need, Part};
use verbatim_verbs_fake::Strings;
use verbatim_wire::Layout;
use verbatim_wire::ether::{Arp, EtherType, Ethernet, MacAddress};

use super::lab::{Lab, OWN_MAC};
use super::*;
use verbatim_rig::{OpenRig, RigConfig, RigFile, Session};
use verbatim_run::state::StateDirectory;

const DUT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

fn real(open: OpenRig) -> Box<dyn Rig + Send> {
    match open.session {
        Session::Real(rig) => rig,
        Session::Virtual(_) | Session::Closed => panic!("a virtual rig"),
    }
}

fn wait(rig: &mut dyn Rig) -> Arrival {
    let until = rig.now().after(LONG);
    rig.wait(until)
}

fn reply(rig: &mut dyn Rig, number: u32, command: &Command) -> Reply {
    rig.send(Stimulus::Verbs(Side::Dut, number, command)).unwrap();
    match wait(rig) {
        Arrival::Verbs(Side::Dut, of, _, host_at, reply) if of == number => {
            assert!(host_at.earliest > Time(0) && host_at.earliest <= host_at.latest);
            reply
        }
        other => panic!("{other:?}"),
    }
}

fn arp_reply(asked: &[u8]) -> Option<Vec<u8>> {
    let header = Ethernet::from_bytes(asked.get(..Ethernet::SIZE)?);
    let arp = Arp::from_bytes(asked.get(Ethernet::SIZE..Ethernet::SIZE + Arp::SIZE)?);
    (header.ethertype() == EtherType::ARP).then(|| {
        let to = Ethernet::default()
            .with_dst(header.src())
            .with_src(DUT_MAC)
            .with_ethertype(EtherType::ARP);
        [to.bytes(), arp.reply(DUT_MAC).bytes()].concat()
    })
}

#[test]
fn packet_rig_offers_packets_and_describes_itself() {
    let lab = Lab::new();
    let open = lab.open();
    assert_eq!(
        (open.info.kind.as_str(), &open.info.offers),
        ("packet", &vec![Need::Packets])
    );
    let frames = FramePort {
        mac: OWN_MAC,
        ip: "10.0.0.2".parse().unwrap(),
        dut_ip: None,
    };
    assert_eq!(open.info.frames, Some(frames));
    assert!(open.info.host_bound >= 10 * MS && !open.info.simulated);
    assert_eq!(open.fingerprint["mac"], "02:00:00:00:00:02");
    assert!(
        open.fingerprint["agent"]["address"]
            .as_str()
            .unwrap()
            .ends_with("agent.sock")
    );
    let info = open.info.clone();
    let device = verbatim_rig::device_fingerprint(&mut *real(open), &info).unwrap();
    assert_eq!((&device["name"], &device["firmware"]), (&"fake0".into(), &"7.5".into()));
    assert_eq!(device["gids"][0]["gid"], "::ffff:10.0.0.1");
}

#[test]
fn carries_frames_and_orders_reports_before_replies() {
    let lab = Lab::new();
    let mut rig = real(lab.open());
    let frame = [OWN_MAC.0.as_slice(), &DUT_MAC.0, &[8, 0], &[7; 46]].concat();
    rig.send(Stimulus::Frame(0, &frame)).unwrap();
    assert_eq!(lab.machine().receive(LONG).unwrap().unwrap().bytes, frame);
    let before = rig.now();
    lab.machine().send(&frame).unwrap();
    match wait(&mut *rig) {
        Arrival::Frame(0, at, bytes) => {
            assert_eq!(bytes, frame);
            assert!(at.latest >= before && at.latest <= rig.now());
        }
        other => panic!("{other:?}"),
    }
    lab.agent.strings.complete_at_once();
    let Reply::Qp(qp) = reply(
        &mut *rig,
        1,
        &Command::CreateQp(pb::CreateQp {
            service: pb::Service::Rc.into(),
            send_depth: 4,
            receive_depth: 4,
        }),
    ) else {
        panic!("no queue pair");
    };
    let post = Command::PostSend(pb::PostSend {
        qp: qp.qp,
        wr_id: 9,
        operation: pb::Operation::Send.into(),
        signaled: true,
        ..pb::PostSend::default()
    });
    rig.send(Stimulus::Verbs(Side::Dut, 2, &post)).unwrap();
    let first = wait(&mut *rig);
    assert!(
        matches!(&first, Arrival::Told(Side::Dut, _, _, Event::Completion(of)) if of.wr_id == 9),
        "{first:?}"
    );
    let second = wait(&mut *rig);
    assert!(matches!(second, Arrival::Verbs(Side::Dut, 2, ..)), "{second:?}");
    drop(rig);
    assert_eq!(
        lab.agent.strings.existing(),
        Vec::<String>::new(),
        "all is destroyed with the rig"
    );
}

#[test]
fn missing_parts_are_reported_with_remedy() {
    let mut lab = Lab::new();
    let why = lab.fails("dut_device = \"rxe7\"\n");
    assert!(why.contains("has fake0 open") && why.contains("--device rxe7"), "{why}");
    lab.agent.stop();
    let why = lab.fails("");
    assert!(
        why.contains("unavailable: agent at unix:") && why.contains("verbatim-agent"),
        "{why}"
    );
    lab.machine = None;
    let why = lab.fails("");
    assert!(
        why.contains("no process receives at the socket") && why.contains("m.sock") && why.contains("start it"),
        "{why}"
    );
    std::fs::remove_file(lab.path().join("t.sock")).ok();
    let config = lab.config("");
    let of_nowhere = match &config.kind {
        verbatim_rig::RigKind::Packet(of) => {
            let mut of = of.clone();
            of.wire = verbatim_rig::file::Wire::Socket {
                local: lab.path().join("absent/t.sock"),
                remote: lab.path().join("m.sock"),
            };
            verbatim_rig::RigKind::Packet(of)
        }
        _ => panic!("no packet rig"),
    };
    let config = RigConfig {
        kind: of_nowhere,
        ..config
    };
    let why = verbatim_rig::open(&config, Arc::default()).unwrap_err().to_string();
    assert!(why.contains("absent/t.sock"), "{why}");
}

#[test]
fn refuses_an_address_of_the_dut() {
    let lab = Lab::new();
    let mut config = lab.config("");
    let verbatim_rig::RigKind::Packet(of) = &mut config.kind else {
        panic!("no packet rig");
    };
    of.ip = "10.0.0.1".parse().unwrap();
    let why = verbatim_rig::open(&config, Arc::default()).unwrap_err().to_string();
    assert!(
        why.contains("ip 10.0.0.1 of the rig is also in the GID table of the DUT's fake0"),
        "{why}"
    );
}

#[test]
fn loss_of_agent_device_or_machine_is_reported() {
    let gone = |rig: &mut dyn Rig| match wait(rig) {
        Arrival::Stop(Stop::RigGone(why)) => why,
        other => panic!("{other:?}"),
    };
    let mut lab = Lab::new();
    let mut rig = real(lab.open());
    lab.agent.stop();
    let why = gone(&mut *rig);
    assert!(why.contains("agent at unix:"), "{why}");
    let lab = Lab::new();
    let mut rig = real(lab.open());
    lab.agent.strings.go("removed by the test");
    let why = gone(&mut *rig);
    assert!(why.contains("removed by the test"), "{why}");
    let mut lab = Lab::new();
    let mut rig = real(lab.open());
    lab.machine = None;
    let why = gone(&mut *rig);
    assert!(why.contains("the machine behind") && why.contains("is gone"), "{why}");
}

#[test]
fn test_that_needs_mads_is_not_applicable() {
    let verdict = Lab::new().run("c14-024-node-type").unwrap();
    assert_eq!(
        (verdict.outcome(), verdict.cause()),
        (Outcome::NotApplicable, Cause::Rig)
    );
}

#[test]
fn run_without_agent_is_a_rig_error() {
    let mut lab = Lab::new();
    lab.agent.stop();
    let error = lab.run("c09-130-rnr-interval").unwrap_err();
    assert_eq!(error.cause(), Cause::Rig);
    assert!(error.to_string().contains("agent at unix:"), "{error}");
}

#[test]
fn dut_without_arp_reply_is_a_rig_error() {
    let verdict = Lab::new().run("c09-130-rnr-interval").unwrap();
    assert_eq!((verdict.outcome(), verdict.cause()), (Outcome::Error, Cause::Rig));
    assert!(
        verdict.reason.contains("requests for the MAC address"),
        "{}",
        verdict.reason
    );
}

/// Responds to an ARP request for the DUT's MAC address.
pub(super) fn answer(asked: Option<Frame>, send: impl FnOnce(&[u8])) {
    if let Some(answer) = asked.and_then(|asked| arp_reply(&asked.bytes)) {
        send(&answer);
    }
}

/// Runs the test with a machine that responds to ARP only, and calls `then` once the DUT has a queue pair.
fn run_until_posted(lab: &Lab, then: impl FnOnce(&Strings) + Send) -> Verdict {
    let machine = lab.machine();
    let answer = || answer(machine.receive(MS).unwrap(), |frame| drop(machine.send(frame)));
    run_answered(lab, lab.config(""), answer, then)
}

/// Runs the test while `answer` is called in a loop, and calls `then` once the DUT has a queue pair.
pub(super) fn run_answered(
    lab: &Lab,
    rig: RigConfig,
    answer: impl Fn() + Sync,
    then: impl FnOnce(&Strings) + Send,
) -> Verdict {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut then = Some(then);
            while !done.load(Ordering::Acquire) {
                answer();
                let posted = lab.agent.strings.existing().iter().any(|made| made.starts_with("pair"));
                if let Some(then) = then.take_if(|_| posted) {
                    then(&lab.agent.strings);
                }
            }
        });
        let verdict = lab.run_on(rig, "c09-130-rnr-interval").unwrap();
        done.store(true, Ordering::Release);
        verdict
    })
}

#[test]
fn device_lost_during_a_test_is_a_rig_error() {
    let lab = Lab::new();
    let verdict = run_until_posted(&lab, |strings| strings.go("removed by the test"));
    assert_eq!(
        (verdict.outcome(), verdict.cause()),
        (Outcome::Error, Cause::Rig),
        "{verdict:?}"
    );
    assert!(verdict.reason.contains("removed by the test"), "{}", verdict.reason);
    let sources = lab.time_sources();
    assert!(sources.iter().any(|(received, _)| *received), "{sources:?}");
    assert!(
        sources.iter().all(|(_, source)| *source == TimeSource::OwnClock),
        "nobody stamps datagrams: {sources:?}"
    );
}

#[test]
fn journal_of_a_mad_rig_stays_and_blocks_runs() {
    let lab = Lab::new();
    let state = StateDirectory::at(lab.path().join("state"));
    let area = Area {
        attribute: 0x15,
        name: "PortInfo".into(),
        own: false,
    };
    let part = Part {
        modifier: 0,
        data: vec![0; 64],
    };
    let mut journal = FileJournal::open(&state.journals(), "p").unwrap();
    journal.save(&area, &[part], &[]).unwrap();
    drop(journal);
    let error = lab.run("c09-130-rnr-interval").unwrap_err();
    assert!(error.left_changed() && error.cause() == Cause::Rig);
    assert!(error.to_string().contains("give this one another name"), "{error}");
    let journal = FileJournal::open(&state.journals(), "p").unwrap();
    assert_eq!(journal.pending().len(), 1);
}

#[test]
fn verbs_rig_without_adapter_is_unavailable() {
    let text = "config_version = 1\n[[rig]]\nname = \"v\"\nkind = \"verbs\"\ndevice = \"no_such_device\"\nport = 1\nagent = \
                \"unix:/absent\"\n";
    let config = RigFile::parse(text.as_bytes(), Path::new("/f")).unwrap().rigs.remove(0);
    let why = verbatim_rig::open(&config, Arc::default()).unwrap_err().to_string();
    assert!(why.contains("rig \"v\" is unavailable: the tester's device: "), "{why}");
}
