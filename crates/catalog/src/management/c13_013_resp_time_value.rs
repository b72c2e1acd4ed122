//! `c13-013-resp-time-value` (C13_013): RespTimeValue has a legal value, and a port responds to a Get within the
//! default limit.
//!
//! Reading: the largest legal value is 20 (4.3 s). The default limit is 4.096 us * 2^20 plus the travel time in both
//! directions. False alarm: none known.

use core::time::Duration;

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, TRIES, Trace, duration_words};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{PortInfo, RespTime, Status};

const PORT: Label<PortInfo> = Label::new("PortInfo");

pub(super) static TEST: Test = Test {
    id: "c13-013-resp-time-value",
    aliases: &["C13_013"],
    revision: 1,
    about: "RespTimeValue is at most 20, and Get(PortInfo) is answered within the default limit.",
    reading: "The limit on the answer is 4.096 us * 2^20 plus twice the SubnetTimeOut that the port shows.",
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
    f.claim("C13-13", "RespTimeValue")
        .by(exchange)
        .saw(value)
        .must("at most 20 = 4.29 s", value.0 <= 20);
    within(t, f, "C13-13", PORT, RespTime(20).duration())
}

/// Checks that the port responded to each exchange within `limit`, plus the travel time in both directions.
pub(super) fn within(
    t: &Trace,
    f: &mut Findings<'_>,
    statement: &str,
    label: Label<PortInfo>,
    limit: Duration,
) -> Result<(), Gap> {
    let way = 2 * t.way(&t.answer(label)?);
    slowest(t, f, statement, t.each(label), limit, way + t.begin.host_bound);
    Ok(())
}

/// Checks the slowest of several responses against `limit`. The check passes only if the longest possible response
/// time is within `limit`. It fails only if the shortest possible time exceeds `limit` plus `way`. On hardware the
/// path may delay a few responses. The check then fails only if at least three responses and a tenth of all are
/// that late.
pub(super) fn slowest<'t>(
    t: &Trace,
    f: &mut Findings<'_>,
    statement: &str,
    exchanges: impl Iterator<Item = &'t Exchange>,
    limit: Duration,
    way: Duration,
) {
    let (answered, silent): (Vec<_>, Vec<_>) = exchanges.partition(|exchange| exchange.answer().is_some());
    if let Some(first) = silent.first() {
        // Each request was sent once, so a lost packet looks like a missing response.
        f.claim(statement, "answer")
            .by(*first)
            .saw(format!(
                "{} of {} unanswered",
                silent.len(),
                silent.len() + answered.len()
            ))
            .comes_to("an answer", Passed::Inconclusive);
    }
    let times = answered
        .into_iter()
        .filter_map(|exchange| Some((exchange.answer()?.at.since(exchange.sent), exchange)));
    // Choose the slowest of the responses with the worst result.
    let judged = times.map(|((least, most), exchange)| {
        let result = if most <= limit {
            Passed::Pass
        } else if least > limit + way {
            Passed::Fail
        } else {
            Passed::Inconclusive
        };
        (result, most, least, exchange)
    });
    let judged: Vec<_> = judged.collect();
    let (count, late) = (
        judged.len(),
        judged.iter().filter(|(result, ..)| *result == Passed::Fail),
    );
    let late = late.count();
    let is_shown = t.begin.simulated || (late >= TRIES as usize && late * 10 >= count);
    let worst = judged.into_iter().max_by_key(|(result, most, ..)| (*result, *most));
    let Some((result, most, least, exchange)) = worst else {
        return;
    };
    let expected = format!(
        "at most {}, plus {} for the route",
        duration_words(limit),
        duration_words(way)
    );
    f.claim(statement, format!("time to answer, slowest of {count}"))
        .by(exchange)
        .measured((least, most), None, limit + way)
        .saw(format!("{}..{}", duration_words(least), duration_words(most)))
        .comes_to(
            expected,
            if is_shown {
                result
            } else {
                result.min(Passed::Inconclusive)
            },
        );
}
