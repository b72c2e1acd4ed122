//! `c09-142-long-timeout`: a local ACK timeout lasts as long as its code says, for a long code and for short codes.
//!
//! The DUT posts a SEND, and the peer does not answer it. The DUT retransmits the SEND once after T to 4 T, where T is
//! the local ACK timeout; then the request fails. In simulation the test also tries short codes.
//!
//! Reading: a retry conforms from T to 4 T after the previous transmission.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Gap, Label, Side, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, Requester};

const TIMEOUT: &str = "C9-142";
const COUNT: &str = "C9-143";

const AFTER: Label<Wait> = Label::new("after the error completion");

/// Short codes: 4.2 ms and 0.5 ms.
const SHORT: [u8; 2] = [10, 7];
/// Number of round trips that the test measures before and after its steps.
const ROUND_TRIPS: u32 = 110;

pub(super) static TEST: Test = Test {
    id: "c09-142-long-timeout",
    aliases: &[],
    revision: 2,
    about: "An unanswered request is retried after T to 4 T, for a long and for a short local ACK timeout.",
    reading: "One unanswered SEND with retry_cnt 1: two transmissions, the second T to 4 T after the first, then an \
        error. Codes 10 and 7 only in simulation, because real hosts and paths are slower.",
    statements: &[TIMEOUT, COUNT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[Parameter {
        name: "timeout_code",
        about: "code of the local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of the code",
        range: (1, 31),
        simulated: 27,
        default: 18,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let long = AckTimeout(t.parameter("timeout_code") as u8);
    unanswered(t, long)?;
    // Real hosts and paths are slower than the short timeouts.
    if t.is_simulated() {
        for code in SHORT {
            unanswered(t, AckTimeout(code))?;
        }
    }
    Ok(())
}

/// Has the DUT post one SEND with this timeout, and leaves it unanswered.
fn unanswered(t: &mut Tester<'_>, timeout: AckTimeout) -> Step {
    let timeout = t.nearest_timeout(timeout);
    let options = ChannelOptions {
        timeout,
        retry_cnt: 1,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    t.measure_path(ROUND_TRIPS)?;
    dut.post(t, Ask::send(64))?;
    let silence = t.rc_silence(Duration::ZERO, options.timeout, options.retry_cnt);
    t.next_completion(Side::Dut, dut.channel.qp, t.now().after(silence))?;
    t.wait_for(AFTER, Duration::from_secs(2))?;
    dut.close(t)?;
    t.measure_path(ROUND_TRIPS)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::AckTimeout, Rule::RetryCount, Rule::TimeoutRetried]);
    t.waits(AFTER).next().map(drop).ok_or(Gap::Missing(AFTER.name))
}
