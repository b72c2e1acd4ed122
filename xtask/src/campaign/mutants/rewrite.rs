//! The changed source: every site becomes a choice at run time, so that one build serves all mutants.

use std::ops::Range;

use super::sites::{Form, Site};

/// Statement that deactivates mutants in the tester's adapter, which has this MAC address in the virtual rig.
const WHOSE: &str = "let _whose = crate::mutant::Other::new(self.profile.mac.0 == [2, 0, 0, 0, 0, 3]);";

/// A change of the device's code.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// Path below `crates/device/src`.
    pub(super) file: String,
    pub(super) line: usize,
    /// File, function and change. The name stays the same until the function is rewritten.
    pub(super) name: String,
}

/// A file with the choices inserted, and the position of each mutant's text.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    pub(super) text: String,
    /// Each mutant with the byte range of its text. The ranges do not overlap.
    pub(super) places: Vec<(usize, Range<usize>)>,
    /// Each site's first mutant, number of mutants, and byte range.
    pub(super) wholes: Vec<(usize, usize, Range<usize>)>,
}

/// Returns the mutants of a file's sites with their names, in the order in which [`rewrite`] numbers them.
pub(super) fn mutants(file: &str, source: &str, sites: &[Site]) -> Vec<Mutant> {
    let mut found: Vec<Mutant> = Vec::new();
    for site in sites {
        let was = one_line(&source[site.range.clone()]);
        let changes: Vec<String> = match &site.form {
            Form::Instead(texts) => texts
                .iter()
                .map(|text| format!("{was} -> {}", one_line(text)))
                .collect(),
            Form::Statement => vec![format!("without {was}")],
            Form::Arm { pattern, guarded: true } => vec![format!("without arm {} if {was}", one_line(pattern))],
            Form::Arm {
                pattern,
                guarded: false,
            } => vec![format!("without arm {}", one_line(pattern))],
            Form::Body(values) => values
                .iter()
                .map(|value| format!("at once return {value}").trim_end().to_owned())
                .collect(),
            Form::Adapter => Vec::new(),
        };
        for change in changes {
            let name = format!("{file} {}: {change}", site.function);
            let same = found
                .iter()
                .filter(|other| other.name == name || other.name.starts_with(&format!("{name} #")))
                .count();
            found.push(Mutant {
                file: file.to_owned(),
                line: site.line,
                name: if same == 0 {
                    name
                } else {
                    format!("{name} #{}", same + 1)
                },
            });
        }
    }
    found
}

/// Returns the number of mutants of a site.
pub(super) fn count(site: &Site) -> usize {
    match &site.form {
        Form::Instead(texts) | Form::Body(texts) => texts.len(),
        Form::Statement | Form::Arm { .. } => 1,
        Form::Adapter => 0,
    }
}

/// Inserts choices into a file. The file's mutants are numbered from `first`. Mutants for which `dead` returns true do
/// not build and are left out.
///
/// The sites must be in the order of [`ordered`].
pub(super) fn rewrite(source: &str, sites: &[Site], first: usize, dead: &dyn Fn(usize) -> bool) -> Rewritten {
    let mut numbered = Vec::new();
    let mut next = first;
    for site in sites {
        numbered.push((next, site));
        next += count(site);
    }
    let mut writer = Writer {
        source,
        dead,
        out: Rewritten::default(),
    };
    writer.write(0..source.len(), &numbered);
    writer.out
}

/// Sorts sites from front to back, each outer site before the sites within it.
pub(super) fn ordered(mut sites: Vec<Site>) -> Vec<Site> {
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end)));
    sites
}

struct Writer<'s> {
    source: &'s str,
    dead: &'s dyn Fn(usize) -> bool,
    out: Rewritten,
}

impl Writer<'_> {
    fn write(&mut self, range: Range<usize>, sites: &[(usize, &Site)]) {
        let (mut at, mut rest) = (range.start, sites);
        while let Some(((first, site), behind)) = rest.split_first() {
            let inner = behind
                .iter()
                .take_while(|(_, other)| other.range.start < site.range.end)
                .count();
            let (inner, behind) = behind.split_at(inner);
            self.out.text.push_str(&self.source[at..site.range.start]);
            self.site(*first, site, inner);
            at = site.range.end;
            rest = behind;
        }
        self.out.text.push_str(&self.source[at..range.end]);
    }

    fn site(&mut self, first: usize, site: &Site, inner: &[(usize, &Site)]) {
        let begin = self.out.text.len();
        let alive: Vec<usize> = (first..first + count(site)).filter(|id| !(self.dead)(*id)).collect();
        let from = (!alive.is_empty()).then_some(first);
        match (&site.form, from) {
            (Form::Adapter, _) => self.out.text.push_str(WHOSE),
            (_, None) => self.write(site.range.clone(), inner),
            (Form::Instead(texts), Some(id)) => {
                self.choose(id, texts, &alive, |text| format!("{{ {text} }}"));
                self.out.text.push_str("_ => ");
                self.write(site.range.clone(), inner);
                self.out.text.push_str(" })");
            }
            (Form::Body(values), Some(id)) => {
                self.choose(id, values, &alive, |value| format!("return {value},"));
                self.out.text.push_str("_ => {} });");
            }
            (Form::Statement, Some(id)) => {
                self.marked(id, &format!("if !crate::mutant::is({id}) {{ "));
                self.write(site.range.clone(), inner);
                self.out.text.push_str(" }");
            }
            (Form::Arm { guarded: false, .. }, Some(id)) => {
                self.marked(id, &format!(" if !crate::mutant::is({id})"));
            }
            (Form::Arm { guarded: true, .. }, Some(id)) => {
                self.out.text.push('(');
                self.write(site.range.clone(), inner);
                self.marked(id, &format!(") && !crate::mutant::is({id})"));
            }
        }
        self.out.wholes.push((first, count(site), begin..self.out.text.len()));
    }

    fn choose(&mut self, first: usize, texts: &[String], alive: &[usize], arm: impl Fn(&str) -> String) {
        let head = format!("(match crate::mutant::pick({first}, {}) {{ ", texts.len());
        self.out.text.push_str(&head);
        for (place, text) in texts.iter().enumerate() {
            if alive.contains(&(first + place)) {
                self.out.text.push_str(&format!("{} => ", place + 1));
                self.marked(first + place, &arm(text));
                self.out.text.push(' ');
            }
        }
    }

    fn marked(&mut self, id: usize, text: &str) {
        let begin = self.out.text.len();
        self.out.text.push_str(text);
        self.out.places.push((id, begin..self.out.text.len()));
    }
}

/// Returns code on one line, without comments, with at most 120 characters.
fn one_line(code: &str) -> String {
    let mut words = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(str::split_whitespace);
    let mut line = String::new();
    if let Some(first) = words.next() {
        line.push_str(first);
    }
    for word in words {
        line.push(' ');
        line.push_str(word);
    }
    if line.chars().count() > 120 {
        line = line.chars().take(117).chain("...".chars()).collect();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::known::Known;
    use super::super::sites;
    use super::*;

    const SOURCE: &str = "
        const LIMIT: u8 = 3;
        impl Qp {
            fn take(&mut self, n: u8) -> bool {
                if self.faults.has(Defect::Deaf) { return self.odd(n + 9); }
                if n < LIMIT && !self.faults.has(Defect::Late) { self.count(n); }
                let odd = n + 11;
                let even = odd + 1;
                if even > 3 && self.faults.has(Defect::Odd) || self.is_slow() && n == 19 { self.late(); }
                let most = match self.faults.has(Defect::Long) { true => n + 7, false => n };
                let holds = match n { 1 => self.faults.has(Defect::Held), _ => false };
                if holds && n > 23 { self.held(); }
                match most { 1 => self.a(), 2 if self.cx.has(Defect::Two) => self.b(), _ => matches!(n, 5 | 6) }
            }
            fn is_slow(&self) -> bool {
                self.faults.has(Defect::Slow) && self.late > 17
            }
        }";

    fn found() -> (Vec<Site>, Vec<Mutant>) {
        let file = syn::parse_file(SOURCE).unwrap();
        let mut known = Known::default();
        known.learn(SOURCE, &file);
        let found = sites::find(SOURCE, &file, &known);
        let sites = ordered(found.sites);
        let mutants = mutants("qp.rs", SOURCE, &sites);
        (sites, mutants)
    }

    fn changes() -> Vec<String> {
        let (_, mutants) = found();
        let name = |mutant: Mutant| mutant.name.strip_prefix("qp.rs Qp::take: ").unwrap().to_owned();
        mutants.into_iter().map(name).collect()
    }

    #[test]
    fn changes_code_of_behaviour() {
        let all = changes();
        for wanted in [
            "at once return true",
            "n < LIMIT -> n <= LIMIT",
            "LIMIT -> (LIMIT + 1)",
            "without self.count(n);",
            "without arm 1",
            "matches!(n, 5 | 6) -> matches!(n, 6)",
        ] {
            assert!(all.iter().any(|change| change == wanted), "no {wanted} in {all:#?}");
        }
    }

    #[test]
    fn leaves_out_code_of_defects() {
        for change in changes() {
            let of_defect = [
                "n + 9", "n + 7", "n + 11", "odd + 1", "even", "17", "19", "23", "Deaf", "self.b()", "arm 2",
            ];
            assert!(!of_defect.iter().any(|part| change.contains(part)), "{change}");
        }
    }

    #[test]
    fn rewrite_contains_each_mutant_once() {
        let (sites, mutants) = found();
        let written = rewrite(SOURCE, &sites, 100, &|_| false);
        syn::parse_file(&written.text).unwrap();
        let mut ids: Vec<_> = written.places.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (100..100 + mutants.len()).collect::<Vec<_>>());
    }

    #[test]
    fn rewrite_without_mutants_changes_nothing() {
        let (sites, _) = found();
        assert_eq!(rewrite(SOURCE, &sites, 0, &|_| true).text, SOURCE);
    }
}
