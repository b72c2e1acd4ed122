//! Pictures of measured times and their bounds.
//!
//! There is one picture per test and statement. A row shows the bounds and all measurements of one subject,
//! which is the text `about` of its checks. The picture's accessible text contains the same values.

use core::time::Duration;
use std::collections::HashMap;
use std::fmt::Write as _;

use verbatim_record::{Check, Measured, Verdict, duration_words};
use verbatim_record_proto::v1::CheckResult;
use verbatim_text::shown_lines;

/// The most rows of a picture. If a statement has more rows, those with failed and inconclusive checks come first.
const ROWS: usize = 24;
/// The most bars of a row.
const BARS: usize = 60;
/// The left edges of the columns in SVG units: name, plot, value, right edge.
const COLUMNS: [f64; 4] = [0.0, 300.0, 620.0, 960.0];
/// The height of a row, in SVG units.
const ROW: f64 = 26.0;
/// The top of the first row, in SVG units.
const TOP: f64 = 30.0;
/// The most characters of a name.
const NAME: usize = 44;

/// The measurements of one subject.
#[derive(Debug)]
struct Row<'a> {
    about: &'a str,
    lower: Option<u64>,
    upper: Option<u64>,
    /// Each measurement's least and greatest value in nanoseconds, with the result of its check.
    bars: Vec<(u64, u64, CheckResult)>,
}

impl Row<'_> {
    fn worst(&self) -> CheckResult {
        let results = self.bars.iter().map(|(.., result)| *result);
        results.max().unwrap_or(CheckResult::Pass)
    }

    fn ends(&self) -> (u64, u64) {
        let least = self.bars.iter().map(|(least, ..)| *least).min();
        let most = self.bars.iter().map(|(_, most, _)| *most).max();
        (least.unwrap_or(0), most.unwrap_or(0))
    }

    fn demanded(&self) -> String {
        let of = |ns: u64| duration_words(Duration::from_nanos(ns));
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => format!("{} to {} allowed", of(lower), of(upper)),
            (Some(lower), None) => format!("at least {} required", of(lower)),
            (None, Some(upper)) => format!("at most {} allowed", of(upper)),
            (None, None) => "no bound".into(),
        }
    }

    fn seen(&self) -> String {
        let (least, most) = self.ends();
        let span = span_words(least, most);
        let mut out = match self.bars.len() {
            1 => span,
            count => format!("{count} measured, {span}"),
        };
        for (result, word) in [(CheckResult::Fail, "failed"), (CheckResult::Inconclusive, "open")] {
            let count = self.bars.iter().filter(|(.., of)| *of == result).count();
            match count {
                0 => {}
                1 if self.bars.len() == 1 => out.push_str(&format!(", {word}")),
                count => out.push_str(&format!(", {count} {word}")),
            }
        }
        out
    }
}

/// Formats a range of nanoseconds. The result is one number if both ends have the same text.
pub(crate) fn span_words(least: u64, most: u64) -> String {
    let [least, most] = [least, most].map(|ns| duration_words(Duration::from_nanos(ns)));
    if least == most {
        return least;
    }
    format!("{least}..{most}")
}

/// A picture with the same content as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Picture {
    pub(crate) caption: String,
    /// The SVG text, in which texts of the verdict are escaped.
    pub(crate) svg: String,
    /// Each row's subject, bounds and measured values.
    pub(crate) rows: Vec<[String; 3]>,
    /// The number of rows that the picture leaves out.
    pub(crate) left_out: usize,
}

/// Returns the pictures of a test, one per statement with a measured time.
pub(crate) fn pictures(verdict: &Verdict) -> Vec<Picture> {
    let checks = verdict.findings.iter().chain(&verdict.passed);
    let timed = checks.filter_map(|check| Some((check, check.measured?)));
    let mut by_statement: Vec<(&str, Vec<(&Check, Measured)>)> = Vec::new();
    let mut places = HashMap::new();
    for (check, measured) in timed {
        let next = by_statement.len();
        let place = *places.entry(check.statement.as_str()).or_insert(next);
        if place == next {
            by_statement.push((&check.statement, Vec::new()));
        }
        by_statement[place].1.push((check, measured));
    }
    by_statement
        .into_iter()
        .map(|(statement, timed)| picture(statement, &timed))
        .collect()
}

fn rows<'a>(timed: &[(&'a Check, Measured)]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut places = HashMap::new();
    for (check, measured) in timed {
        let key = (check.about.as_str(), measured.lower_ns, measured.upper_ns);
        let place = *places.entry(key).or_insert(rows.len());
        if place == rows.len() {
            rows.push(Row {
                about: &check.about,
                lower: measured.lower_ns,
                upper: measured.upper_ns,
                bars: Vec::new(),
            });
        }
        rows[place]
            .bars
            .push((measured.least_ns, measured.most_ns, check.result()));
    }
    rows
}

fn picture(statement: &str, timed: &[(&Check, Measured)]) -> Picture {
    let mut rows = rows(timed);
    let left_out = rows.len().saturating_sub(ROWS);
    if left_out > 0 {
        rows.sort_by_key(|row| core::cmp::Reverse(row.worst()));
        rows.truncate(ROWS);
    }
    let scale = Scale::of(rows.iter().flat_map(|row| {
        let (least, most) = row.ends();
        [Some(least), Some(most), row.lower, row.upper].into_iter().flatten()
    }));
    let caption = format!("{statement}: measured times and their bounds{}", scale.words());
    let words: Vec<[String; 3]> = rows
        .iter()
        .map(|row| [row.about.to_string(), row.demanded(), row.seen()])
        .collect();
    Picture {
        svg: svg(&caption, &rows, &words, &scale),
        caption,
        rows: words,
        left_out,
    }
}

/// A scale that maps times to 0..1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// Returns a scale that contains all these times in nanoseconds. The scale is logarithmic if the largest time is
    /// more than 30 times the smallest time.
    pub(crate) fn of(times: impl Iterator<Item = u64>) -> Self {
        #[allow(clippy::cast_precision_loss)] // a picture
        let times: Vec<f64> = times.map(|ns| ns as f64).collect();
        let high = times.iter().copied().fold(1.0, f64::max);
        let low = times.iter().copied().filter(|ns| *ns > 0.0).fold(high, f64::min);
        if high / low > 30.0 {
            return Self {
                low: 10_f64.powf(low.log10().floor()),
                high: 10_f64.powf((high * 1.05).log10().ceil()),
                logarithmic: true,
            };
        }
        Self {
            low: 0.0,
            high: high * 1.12,
            logarithmic: false,
        }
    }

    pub(crate) fn at(self, ns: u64) -> f64 {
        #[allow(clippy::cast_precision_loss)] // a picture
        let ns = ns as f64;
        let part = if self.logarithmic {
            (ns.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            ns / self.high
        };
        part.clamp(0.0, 1.0)
    }

    /// Returns the times of the axis marks, in nanoseconds.
    pub(crate) fn marks(self) -> Vec<u64> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the scale
        let whole = |ns: f64| ns.round() as u64;
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round();
            let step = (decades / 4.0).ceil().max(1.0);
            let mut at = self.low;
            let mut out = Vec::new();
            while at <= self.high * 1.001 {
                out.push(whole(at));
                at *= 10_f64.powf(step);
            }
            return out;
        }
        let raw = self.high / 4.0;
        let unit = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|of| of * unit);
        let step = step.into_iter().find(|step| *step >= raw).unwrap_or(raw);
        let mut out = vec![0];
        let mut at = step;
        while at <= self.high {
            out.push(whole(at));
            at += step;
        }
        out
    }

    fn words(self) -> &'static str {
        if self.logarithmic {
            " (each mark of the axis a power of ten)"
        } else {
            ""
        }
    }
}

/// Formats a time for an axis mark, without trailing zeros.
pub(crate) fn mark_words(ns: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // rounded for people
    let of = |unit: f64, name: &str| {
        let number = format!("{:.2}", ns as f64 / unit);
        format!("{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
    };
    match ns {
        0 => "0".into(),
        1..1_000 => of(1.0, "ns"),
        1_000..1_000_000 => of(1e3, "us"),
        1_000_000..1_000_000_000 => of(1e6, "ms"),
        _ => of(1e9, "s"),
    }
}

/// Returns the style sheet's class for a check's result.
pub(crate) const fn class(result: CheckResult) -> &'static str {
    match result {
        CheckResult::Fail => "m-FAIL",
        CheckResult::Pass => "m-PASS",
        CheckResult::Inconclusive | CheckResult::Unspecified => "m-INCONCLUSIVE",
    }
}

/// Escapes text for XML, and shows its hidden characters.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in shown_lines(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn svg(caption: &str, rows: &[Row<'_>], words: &[[String; 3]], scale: &Scale) -> String {
    let [_, from, to, end] = COLUMNS;
    let x = |ns: u64| from + scale.at(ns) * (to - from);
    #[allow(clippy::cast_precision_loss)] // few rows
    let bottom = TOP + ROW * rows.len() as f64;
    let mut out = String::new();
    let mut put = |text: String| out.push_str(&text);
    put(format!(
        "<svg class=\"times\" role=\"img\" viewBox=\"0 0 {end} {:.0}\" aria-label=\"{}\">",
        bottom + 8.0,
        escaped(&format!(
            "{caption}. {}",
            words.iter().map(|row| row.join(": ")).collect::<Vec<_>>().join(". ")
        ))
    ));
    for mark in scale.marks() {
        let at = x(mark);
        put(format!(
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/><text class=\"axis\" \
             x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            TOP - 4.0,
            TOP - 10.0,
            mark_words(mark)
        ));
    }
    for (number, (row, [about, _, seen])) in rows.iter().zip(words).enumerate() {
        #[allow(clippy::cast_precision_loss)] // few rows
        let y = TOP + ROW * number as f64;
        let (high, middle) = (ROW - 6.0, y + ROW / 2.0);
        put(format!(
            "<text x=\"0\" y=\"{:.1}\"><title>{}</title>{}</text>",
            middle + 4.0,
            escaped(about),
            escaped(&shortened(about, NAME))
        ));
        let mut forbidden = |left: f64, right: f64| {
            put(format!(
                "<rect class=\"forbidden\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\"/>",
                y + 3.0,
                (right - left).max(0.0)
            ));
        };
        if let Some(lower) = row.lower {
            forbidden(from, x(lower));
        }
        if let Some(upper) = row.upper {
            forbidden(x(upper), to);
        }
        for (bound, name) in [(row.lower, "lower bound"), (row.upper, "upper bound")] {
            if let Some(bound) = bound {
                let at = x(bound);
                put(format!(
                    "<line class=\"bound\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"><title>{name} {}</title></line>",
                    y + 1.0,
                    y + ROW - 1.0,
                    mark_words(bound)
                ));
            }
        }
        let mut bars: Vec<_> = row.bars.iter().collect();
        bars.sort_by_key(|(.., result)| *result);
        // Draw failed bars last, on top. If there are too many bars, leave out passed bars first.
        let shown = bars.len().saturating_sub(BARS);
        for (least, most, result) in &bars[shown..] {
            let (left, right) = (x(*least), x(*most));
            put(format!(
                "<rect class=\"{}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"8\"><title>{}</title></rect>",
                class(*result),
                middle - 4.0,
                (right - left).max(3.0),
                span_words(*least, *most)
            ));
        }
        put(format!(
            "<text class=\"{}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            class(row.worst()),
            to + 12.0,
            middle + 4.0,
            escaped(seen)
        ));
    }
    let _ = write!(out, "</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(about: &str, span: (u64, u64), bounds: (Option<u64>, Option<u64>), result: CheckResult) -> Check {
        Check {
            statement: "C9-130".into(),
            about: about.into(),
            result: result.into(),
            measured: Some(Measured {
                least_ns: span.0,
                most_ns: span.1,
                lower_ns: bounds.0,
                upper_ns: bounds.1,
            }),
            ..Check::default()
        }
    }

    #[test]
    fn measurements_of_a_subject_share_a_row() {
        let ms = 1_000_000;
        let verdict = Verdict {
            findings: vec![check(
                "<retry>",
                (2 * ms, 3 * ms),
                (Some(10 * ms), None),
                CheckResult::Fail,
            )],
            passed: vec![
                check("<retry>", (11 * ms, 12 * ms), (Some(10 * ms), None), CheckResult::Pass),
                check("answer", (ms, ms), (None, Some(20 * ms)), CheckResult::Pass),
            ],
            ..Verdict::default()
        };
        let pictures = pictures(&verdict);
        let [picture] = pictures.as_slice() else {
            panic!("{pictures:?}");
        };
        assert_eq!(
            picture.rows,
            [
                [
                    "<retry>",
                    "at least 10.00 ms required",
                    "2 measured, 2.00 ms..12.00 ms, 1 failed"
                ],
                ["answer", "at most 20.00 ms allowed", "1.00 ms"],
            ]
        );
        assert!(picture.svg.contains("&lt;retry&gt;") && !picture.svg.contains("<retry>"));
        assert_eq!(picture.svg.matches("class=\"bound\"").count(), 2);
        assert_eq!(picture.svg.matches("<rect class=\"m-FAIL\"").count(), 1);
    }

    #[test]
    fn scale_contains_all_times() {
        let near = Scale::of([10_u64, 20, 100].into_iter());
        assert!(!near.logarithmic && near.at(0) == 0.0 && near.at(100) < 1.0);
        assert!((near.at(50) * 2.0 - near.at(100)).abs() < 1e-9);
        let far = Scale::of([1_000_u64, 1_000_000_000].into_iter());
        assert!(far.logarithmic && far.at(1_000) == 0.0 && far.at(1_000_000_000) <= 1.0);
        assert!(far.marks().len() >= 2 && near.marks().len() >= 3, "{:?}", far.marks());
        assert_eq!(Scale::of([0_u64].into_iter()).at(0), 0.0);
        assert_eq!(
            [0, 500, 2_500, 491_520_000].map(mark_words),
            ["0", "500 ns", "2.5 us", "491.52 ms"]
        );
    }

    #[test]
    fn failed_rows_are_kept_first() {
        let mut passed: Vec<Check> = (0..100)
            .map(|number| check(&format!("row {number}"), (5, 6), (Some(4), None), CheckResult::Pass))
            .collect();
        passed.push(check("bad", (1, 2), (Some(4), None), CheckResult::Fail));
        let pictures = pictures(&Verdict {
            passed,
            ..Verdict::default()
        });
        assert_eq!(pictures[0].left_out, 101 - ROWS);
        assert_eq!(pictures[0].rows[0][0], "bad");
    }
}
