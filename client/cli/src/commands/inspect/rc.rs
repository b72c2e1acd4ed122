//! `verbatim inspect --rc FILE`: judges the reliable connections of a capture by the rules for both ends.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use verbatim_capture::read::{CaptureError, CaptureTime, Captured, Content, Reader};
use verbatim_oracle::{Connections, Count, Ended, Event, Finding, Loss, Managed, Unclaimed};
use verbatim_record::Time;
use verbatim_wire::packet::{Medium, Packet, Qpn, Service};

use super::{Arguments, Out, cut, infiniband, input};
use crate::print::{counted, plural};

/// Judges the connections of a capture. Returns the exit code, and the error that ended the capture early, if any.
pub(super) fn judge<W: Write>(
    arguments: &Arguments,
    out: &Out<W>,
    input: Box<dyn io::Read>,
) -> anyhow::Result<(u8, Option<CaptureError>)> {
    let mut reader =
        Reader::new(input::Patient { input, out }).map_err(|error| input::refused(arguments.place(), error))?;
    let mut connections = Connections::new(if arguments.lossless {
        Loss::Excluded
    } else {
        Loss::Possible
    });
    let mut report = Report {
        json: arguments.json,
        ..Report::default()
    };
    let mut begin = None;
    let mut written = Ok(());
    let mut whole = Vec::new();
    let ended = loop {
        let captured = match reader.next_packet() {
            Ok(Some(captured)) => captured,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        report.packets += 1;
        match packet(&captured, arguments.ignore_vcrc, &mut whole) {
            Ok(packet) if packet.opcode().service() != Service::Rc => {
                *report.not_judged.entry(MANAGER).or_default() += 1;
                let lines = &out.lines;
                connections.manage(&packet, |ended| {
                    if written.is_ok() {
                        written = report.connection(&mut *lines.borrow_mut(), &ended);
                    }
                });
            }
            Ok(packet) => {
                report.judged += 1;
                report.cut += u64::from(!captured.is_whole);
                let event = Event {
                    number: captured.number,
                    at: time(captured.time, &mut begin),
                    packet,
                    is_cut: !captured.is_whole,
                };
                let lines = &out.lines;
                connections.take(&event, |ended| {
                    if written.is_ok() {
                        written = report.connection(&mut *lines.borrow_mut(), &ended);
                    }
                });
            }
            Err(why) => *report.not_judged.entry(why).or_default() += 1,
        }
        if written.is_err() {
            break None;
        }
    };
    let mut lines = out.lines.borrow_mut();
    report.strays = connections.strays;
    report.lost = out.lost.get();
    let unclaimed = connections.finish(|ended| {
        if written.is_ok() {
            written = report.connection(&mut *lines, &ended);
        }
    });
    report.leave_out(unclaimed);
    let written = written
        .and_then(|()| report.end(&mut *lines))
        .and_then(|()| lines.flush());
    written.map_err(|error| anyhow::Error::from(error).context("cannot write to stdout"))?;
    Ok((report.exit_code(), ended))
}

/// Returns the packet if it belongs to a reliable connection or goes to QP1, else the reason why it is not judged.
/// If the packet is truncated, stores the completed packet in `whole`.
fn packet<'a>(captured: &Captured<'a>, ignores_vcrc: bool, whole: &'a mut Vec<u8>) -> Result<Packet<'a>, &'static str> {
    let (medium, bytes) = match captured.content {
        Content::Ethernet if !captured.is_whole && cut::complete(captured.bytes, whole) => {
            (Medium::Ethernet, whole.as_slice())
        }
        _ if !captured.is_whole => return Err("the capture holds only part of the packet"),
        Content::Unread(_) => return Err("neither Ethernet nor InfiniBand"),
        Content::Ethernet => (Medium::Ethernet, captured.bytes),
        Content::InfiniBand => infiniband(captured.bytes, ignores_vcrc),
    };
    let packet = Packet::parse(medium, bytes).map_err(|_| "no packet with a base transport header")?;
    match packet.opcode().service() {
        Service::Rc => Ok(packet),
        Service::Ud if packet.bth().dest_qp() == Qpn(1) => Ok(packet),
        _ => Err("of another transport service"),
    }
}

/// Returns the nanoseconds since the first packet that has a timestamp; 0 if this packet's timestamp is earlier, and
/// `None` if it has none.
fn time(at: Option<CaptureTime>, begin: &mut Option<CaptureTime>) -> Option<Time> {
    let at = at?;
    let since = at.since(*begin.get_or_insert(at));
    Some(Time(u64::try_from(since.max(0)).unwrap_or(u64::MAX)))
}

/// Reason why a packet with a wrong ICRC belongs to no connection.
const UNCLAIMED: &str = "its ICRC is wrong, and no other packet shows its connection";

/// Reason why a packet to QP1 is not judged.
const MANAGER: &str = "of general services, such as the communication manager; used only for the setup of connections";

#[derive(Default)]
struct Report {
    json: bool,
    packets: u64,
    judged: u64,
    /// Number of judged packets whose payload was truncated.
    cut: u64,
    not_judged: BTreeMap<&'static str, u64>,
    /// Numbers of packets with a wrong ICRC that belong to no connection. If there are many, the list has only some
    /// of them.
    unclaimed: Vec<u64>,
    strays: u64,
    /// Number of packets that a live capture lost.
    lost: u64,
    connections: u64,
    violations: u64,
    excused: u64,
    /// Number of packets with a wrong ICRC. An end or the network may have damaged them.
    wrong_icrcs: u64,
}

/// A finding in JSON.
#[derive(Serialize)]
struct Found<'a> {
    rule: &'a str,
    statement: &'a str,
    by: String,
    packets: &'a [u64],
    expected: &'a str,
    seen: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unless: Option<String>,
}

impl Report {
    /// Counts packets that belong to no connection as not judged.
    fn leave_out(&mut self, unclaimed: Unclaimed) {
        if unclaimed.packets > 0 {
            self.judged = self.judged.saturating_sub(unclaimed.packets);
            self.wrong_icrcs += unclaimed.packets;
            self.not_judged.insert(UNCLAIMED, unclaimed.packets);
            self.unclaimed = unclaimed.numbers;
        }
    }

    /// Reports a connection that has ended.
    fn connection(&mut self, out: &mut impl Write, ended: &Ended) -> io::Result<()> {
        let connection = &ended.connection;
        // Skip a connection without packets: the capture has only its setup by the communication manager.
        if connection.packets == [0, 0] {
            return Ok(());
        }
        let (violations, excused) = connection.totals();
        self.violations += violations;
        self.excused += excused;
        self.connections += 1;
        let icrc = connection.counts().find(|(rule, _)| rule.name() == "icrc");
        self.wrong_icrcs += icrc.map_or(0, |(_, count)| count.excused);
        if self.json {
            return self.document(out, ended);
        }
        if self.connections == 1 {
            let (rule, lost) = ("VIOLATIONS", "OR LOST");
            writeln!(
                out,
                "{:>6} {:<54} {:>9} {:>8} {rule:>10} {lost:>8}",
                "NUMBER", "CONNECTION", "PACKETS", "PATH MTU"
            )?;
        }
        let path_mtu = connection.path_mtu().map_or("-".into(), |mtu| mtu.to_string());
        let ends = ended.ends.map(|end| {
            let qpn = end.qpn.map_or("?".into(), |qpn| format!("{qpn}"));
            format!("{} QP {qpn}", end.address)
        });
        let ends = ends.join(" - ");
        let packets: u64 = connection.packets.iter().sum();
        writeln!(
            out,
            "{:>6} {ends:<54} {packets:>9} {path_mtu:>8} {violations:>10} {excused:>8}",
            ended.number
        )?;
        if let Some(managed) = &connection.managed {
            writeln!(out, "       {}", begun(managed))?;
        }
        for finding in &connection.findings {
            let (numbers, by) = (numbers(finding), ended.ends[finding.by].address);
            writeln!(
                out,
                "       {numbers} {by} breaks {finding} [{}]",
                finding.rule.statement()
            )?;
        }
        let kept = connection.findings.len() as u64;
        if violations + excused > kept {
            writeln!(out, "       and {} more", violations + excused - kept)?;
        }
        for what in missing(ended) {
            writeln!(out, "       not in this capture: {what}")?;
        }
        Ok(())
    }

    fn document(&self, out: &mut impl Write, ended: &Ended) -> io::Result<()> {
        let connection = &ended.connection;
        let (violations, excused) = connection.totals();
        let found = |with_excuse: bool| -> Vec<Found<'_>> {
            let findings = connection.findings.iter();
            let findings = findings.filter(|finding| finding.unless.is_some() == with_excuse);
            findings.map(|finding| found(ended, finding)).collect()
        };
        let asked: BTreeMap<&str, [u64; 3]> = connection
            .counts()
            .filter(|(_, count)| *count != Count::default())
            .map(|(rule, count)| (rule.name(), [count.asked, count.broken, count.excused]))
            .collect();
        let document = json!({
            "connection": ended.number,
            "peers": ended.ends.map(|end| end.address.to_string()),
            "qps": ended.ends.map(|end| end.qpn.map(|qpn| qpn.0)),
            "packets": connection.packets.iter().sum::<u64>(),
            "path_mtu": connection.path_mtu(),
            "violations": found(false),
            "or_lost": found(true),
            "violations_in_all": violations,
            "or_lost_in_all": excused,
            "rules_asked_broken_or_lost": asked,
            "not_in_capture": missing(ended),
            "begun": connection.managed.map(|managed| json!({
                "service": managed.service.to_string(),
                "first_psns": managed.first_psns.map(|psn| psn.0),
                "path_mtu": managed.path_mtu,
                "retry_count": managed.retry_count,
                "rnr_retry_counts": managed.rnr_retry_counts,
            })),
        });
        writeln!(out, "{document}")
    }

    /// Prints the summary.
    fn end(&self, out: &mut impl Write) -> io::Result<()> {
        let not_judged: u64 = self.not_judged.values().sum();
        if self.json {
            let summary = json!({ "summary": {
                "packets": self.packets,
                "of_reliable_connections": self.judged,
                "by_headers_alone": self.cut,
                "connections": self.connections,
                "violations": self.violations,
                "or_lost": self.excused,
                "responses_without_requests": self.strays,
                "not_judged_by_reason": self.not_judged,
                "lost_by_the_capture": self.lost,
                "wrong_icrcs_by_end_or_way": self.wrong_icrcs,
                "wrong_icrc_of_no_connection": self.unclaimed,
            }});
            return writeln!(out, "{summary}");
        }
        if self.connections > 0 {
            writeln!(out)?;
        }
        writeln!(
            out,
            "{}: {} of {}, {not_judged} not judged; {}, {} more unless packets were lost",
            counted(self.packets, "packet", "packets"),
            self.judged,
            counted(self.connections, "reliable connection", "reliable connections"),
            counted(self.violations, "violation", "violations"),
            self.excused
        )?;
        if self.strays > 0 {
            writeln!(
                out,
                "{:>9} {} to requests that are not in this capture",
                self.strays,
                plural(self.strays, "response", "responses")
            )?;
        }
        if self.wrong_icrcs > 0 {
            writeln!(
                out,
                "{:>9} with a wrong ICRC: either an end sent it, or the network damaged the packet",
                self.wrong_icrcs
            )?;
        }
        if self.cut > 0 {
            writeln!(
                out,
                "{:>9} judged by their headers alone: the capture cut off payload and ICRC",
                self.cut
            )?;
        }
        for (why, count) in &self.not_judged {
            write!(out, "{count:>9} not judged: {why}")?;
            if *why == UNCLAIMED {
                let numbers: Vec<String> = self.unclaimed.iter().map(|number| format!("#{number}")).collect();
                let more = if self.unclaimed.len() as u64 == *count {
                    ""
                } else {
                    " and more"
                };
                write!(out, " ({}{more})", numbers.join(", "))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn exit_code(&self) -> u8 {
        match (self.violations, self.wrong_icrcs, self.connections) {
            (1.., ..) => 1,
            (0, 0, 1..) => 0,
            (0, 1.., _) | (0, 0, 0) => 4,
        }
    }
}

fn found<'a>(ended: &Ended, finding: &'a Finding) -> Found<'a> {
    Found {
        rule: finding.rule.name(),
        statement: finding.rule.statement(),
        by: ended.ends[finding.by].address.to_string(),
        packets: &finding.packets,
        expected: &finding.expected,
        seen: &finding.seen,
        unless: finding.unless.map(|excuse| excuse.to_string()),
    }
}

/// Describes the connection's setup by the communication manager.
fn begun(managed: &Managed) -> String {
    let Managed {
        first_psns: [first, second],
        rnr_retry_counts: [asking, asked],
        retry_count,
        service,
        ..
    } = managed;
    format!(
        "set up for service {service}: first PSNs {first} and {second}, retry count {retry_count}, RNR retry counts \
         {asking} and {asked}"
    )
}

/// Formats the packet numbers of a finding: `#17 (with #3)`.
fn numbers(finding: &Finding) -> String {
    match finding.packets.as_slice() {
        [with, packet] => format!("#{packet} (with #{with})"),
        [packet] => format!("#{packet}"),
        _ => String::new(),
    }
}

/// Lists the parts of a connection that the capture lacks.
fn missing(ended: &Ended) -> Vec<String> {
    let connection = &ended.connection;
    let mut missing: Vec<String> = (0..2)
        .filter(|end| connection.packets[*end] == 0)
        .map(|end| format!("packets from {}", ended.ends[end].address))
        .collect();
    if (0..2).all(|end| !connection.has_requests(end)) {
        missing.push("requests".into());
    }
    if connection.path_mtu().is_none() {
        missing.push("a packet that shows the path MTU".into());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_singular_and_plural() {
        let told = |count: u64| {
            let report = Report {
                packets: count,
                judged: count,
                strays: count,
                connections: count,
                violations: count,
                ..Report::default()
            };
            let mut out = Vec::new();
            report.end(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let one = told(1);
        assert!(
            one.contains("1 packet: 1 of 1 reliable connection, 0 not judged; 1 violation, 0 more"),
            "{one}"
        );
        assert!(one.contains("        1 response to"), "{one}");
        let two = told(2);
        assert!(
            two.contains("2 packets: 2 of 2 reliable connections, 0 not judged; 2 violations, 0 more"),
            "{two}"
        );
    }
}
