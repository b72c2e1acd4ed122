//! `c13-013-resp-time-value` (C13_013): RespTimeValue has a legal value, and a Get is answered within the default limit.
//!
//! Reading: the largest legal value is 20 (4.3 s). The default limit is 4.096 us * 2^20 and the way there and back.
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Passed, Trace, duration_words};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{PortInfo, RespTime, Status};

const PORT: Label<PortInfo> = Label::new("PortInfo");

/// RespTimeValue is legal, and the default limit holds.
pub(super) static TEST: Test = Test {
    id: "c13-013-resp-time-value",
    aliases: &["C13_013"],
    revision: 1,
    about: "RespTimeValue is at most 20, and Get(PortInfo) is answered within the default limit.",
    reading: "The limit on the answer is 4.096 us * 2^20 plus twice SubnetTimeOut, as the port tells it.",
    statements: &["C13-13"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure: |t: &mut Tester<'_>| -> Step {
        let key = t.rig_key();
        t.get(PORT, key)?;
        Ok(())
    },
    judge,
};

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let exchange = t.exchange(PORT)?;
    f.status("C13-13", exchange, &[Status::OK]);
    let port: PortInfo = t.answer(PORT)?;
    let value = port.resp_time_value();
    let legal = if value.0 <= 20 { Passed::Pass } else { Passed::Fail };
    f.check(
        "C13-13",
        &[exchange],
        "RespTimeValue",
        ("at most 20 = 4.29 s".into(), value.to_string()),
        legal,
    );
    within(t, f, "C13-13", PORT, RespTime(20).duration())
}

/// Judges that an exchange was answered within a limit, the way there and back not counted.
pub(super) fn within(
    t: &Trace,
    f: &mut Findings<'_>,
    statement: &str,
    label: Label<PortInfo>,
    limit: Duration,
) -> Result<(), Gap> {
    let way = 2 * t.answer(label)?.subnet_timeout().duration();
    for exchange in t.each(label) {
        took(f, statement, exchange, limit, way);
    }
    Ok(())
}

/// One answer against a limit: certain only when even the longest reading keeps it, or even the shortest breaks it.
pub(super) fn took(
    f: &mut Findings<'_>,
    statement: &str,
    exchange: &verbatim_record::Exchange,
    limit: Duration,
    way: Duration,
) {
    let Some(answer) = exchange.answer() else { return };
    let (least, most) = answer.at.since(exchange.sent);
    let result = if most <= limit {
        Passed::Pass
    } else if least > limit + way {
        Passed::Fail
    } else {
        Passed::Inconclusive
    };
    let words = (
        format!(
            "at most {}, and {} for the way",
            duration_words(limit),
            duration_words(way)
        ),
        format!("{}..{}", duration_words(least), duration_words(most)),
    );
    f.check(statement, &[exchange], "time to answer", words, result);
}
