//! Markdown for merge requests and tickets.

use verbatim_record::Outcome;
use verbatim_text::Markdown;

use crate::input::{Reported, explanation, in_words};

/// Renders a run as Markdown: a summary, a table of the tests, and an explanation of each test that did not pass.
#[must_use]
pub fn markdown(of: &Reported<'_>) -> String {
    let run = of.run;
    let mut out = Markdown::new();
    out.own("# ").text(run.outcome()).own(" on ").text(&run.rig).own("\n\n");
    out.text(of.summary())
        .own(".\n\nRun ")
        .code(&run.id)
        .own(" on ")
        .text(&run.host);
    out.own(", began ")
        .text(of.started())
        .own(", catalogue ")
        .text(&run.catalogue);
    out.own(".\n\n| Test | Outcome | Cause | Reason |\n|---|---|---|---|\n");
    for verdict in of.verdicts {
        out.own("| ")
            .code(&verdict.test)
            .own(" | ")
            .text(verdict.outcome())
            .own(" | ");
        if verdict.outcome() != Outcome::Pass {
            out.text(verdict.cause());
        }
        out.own(" | ").text(&verdict.reason).own(" |\n");
    }
    if !of.not_judged_anew.is_empty() {
        out.own("\n## Not judged anew\n\n");
        for (test, why) in of.not_judged_anew {
            out.own("- ").code(test).own(": ").text(why).own("\n");
        }
    }
    if !of.known.is_empty() {
        out.own("\n## Known deviations of such devices, which change no verdict\n\n");
        for known in of.known {
            out.own("- ").text(in_words(known)).own("\n");
        }
    }
    let is_explained = |outcome| matches!(outcome, Outcome::Fail | Outcome::Inconclusive | Outcome::Error);
    for verdict in of.verdicts.iter().filter(|verdict| is_explained(verdict.outcome())) {
        out.own("\n## ")
            .text(verdict.outcome())
            .own(" ")
            .text(&verdict.test)
            .own("\n\n");
        out.block(&explanation(verdict));
        let again = of.again(&verdict.test);
        if !again.is_empty() {
            out.own("\nAgain: ").code(again).own("\n");
        }
    }
    let observed = || {
        of.verdicts
            .iter()
            .flat_map(|verdict| verdict.observations.iter().map(move |seen| (verdict, seen)))
    };
    if observed().next().is_some() {
        out.own("\n## Observations, which decide nothing\n\n");
    }
    for (verdict, seen) in observed() {
        out.own("- ").code(&verdict.test).own(": ").text(&seen.text).own("\n");
    }
    out.finish()
}
