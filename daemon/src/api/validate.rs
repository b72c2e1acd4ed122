//! Validates a CreateRunRequest: finds every invalid field, each with the expected value.

use verbatim_catalog::{is_exact, select_or_all_errors, wrong_parameters};
use verbatim_proto::v1::{CreateLeaseRequest, CreateRunRequest, Priority, RunSpec};
use verbatim_tester::Test;

use super::errors::Violation;
use super::names;
use crate::store::{AskedRun, StoredLease, StoredRun};
use verbatim_rig::RigFile;

/// The maximum length of a request id in characters.
const LONGEST_ID: usize = 64;
/// The maximum number of parameters in a request. All tests together have fewer parameters.
const MOST_PARAMETERS: usize = 1000;
/// The maximum number of patterns in a request.
const MOST_PATTERNS: usize = 1000;
/// The maximum number of patterns in a request that need a search: words, globs and unknown names.
const MOST_SEARCHES: usize = 50;
/// The maximum length of a pattern in characters.
const LONGEST_PATTERN: usize = 200;

/// Replaces the rig name "rigs/NAME" by NAME.
pub(super) fn plain(mut spec: RunSpec) -> RunSpec {
    if let Some(name) = spec.rig.strip_prefix("rigs/") {
        spec.rig = name.into();
    }
    spec
}

/// Returns the violation of an invalid request id.
pub(super) fn request_id(id: &str) -> Option<Violation> {
    let characters = id.chars().count();
    (characters > LONGEST_ID).then(|| {
        Violation::new(
            "request_id",
            format!("expected at most {LONGEST_ID} characters, such as a UUID; seen {characters}"),
        )
    })
}

/// The tests that a request selects, or its invalid fields.
pub(super) type Chosen = Result<Vec<&'static Test>, Vec<Violation>>;

/// Returns the tests that a request selects, if their parameters are valid. Takes milliseconds.
pub(super) fn chosen(spec: &RunSpec) -> Chosen {
    let count = spec.parameters.len();
    if count > MOST_PARAMETERS {
        let what = format!("expected at most {MOST_PARAMETERS}, seen {count}");
        return Err(vec![Violation::new("spec.parameters", what)]);
    }
    let tests = tests("spec.patterns", &spec.patterns)?;
    let wrong = wrong_parameters(&tests, &spec.parameters).into_iter().map(|parameter| {
        let field = format!("spec.parameters[{:?}]", parameter.name);
        Violation::new(field, parameter.what)
    });
    let wrong: Vec<Violation> = wrong.collect();
    if wrong.is_empty() { Ok(tests) } else { Err(wrong) }
}

/// Returns the tests of a valid request. The rig must be in `rigs`, unless another host has the rig. `sees` tells which
/// rigs the caller sees; others count as absent.
pub(super) fn tests_of(
    request_id: &str,
    spec: &RunSpec,
    chosen: Chosen,
    rigs: &RigFile,
    is_elsewhere: bool,
    sees: impl Fn(&str) -> bool,
) -> Chosen {
    let mut wrong: Vec<Violation> = self::request_id(request_id).into_iter().collect();
    if let Some(too_long) = names::too_long("spec.rig", &spec.rig) {
        wrong.push(too_long);
    } else if !is_elsewhere && let Err(unknown) = rigs.find_seen(&spec.rig, sees) {
        wrong.push(Violation::new("spec.rig", unknown.to_string()));
    }
    match chosen {
        Ok(tests) if wrong.is_empty() => Ok(tests),
        Ok(_) => Err(wrong),
        Err(more) => {
            wrong.extend(more);
            Err(wrong)
        }
    }
}

/// Returns the first field in which a request differs from the request that created `before`. Names every field of
/// the messages, so that the compiler reports a new field that is not compared.
pub(super) fn differs(before: &StoredRun, now: &CreateRunRequest, asked: &AskedRun) -> Option<&'static str> {
    let CreateRunRequest {
        request_id: _,
        spec,
        lease: _,
        priority: _,
        own_lease,
        wait_at_most_s,
        attended,
    } = now;
    let RunSpec {
        rig,
        patterns,
        parameters,
        seed,
        exit_first,
    } = &spec.clone().unwrap_or_default();
    let is_rig_of_lease = rig.is_empty() && asked.lease.is_some();
    let fields = [
        ("rig", *rig != before.spec.rig && !is_rig_of_lease),
        ("patterns", *patterns != before.spec.patterns),
        ("parameters", *parameters != before.spec.parameters),
        ("seed", *seed != before.spec.seed),
        ("exit_first", *exit_first != before.spec.exit_first),
        ("lease", asked.lease != before.asked.lease),
        ("priority", usual(asked.priority) != usual(before.asked.priority)),
        ("own_lease", *own_lease != before.asked.own_lease),
        ("wait_at_most_s", *wait_at_most_s != before.patience.at_most_s),
        ("attended", *attended != before.patience.attended),
    ];
    fields.into_iter().find_map(|(field, differs)| differs.then_some(field))
}

/// Returns the first field in which a request differs from the request that created the lease `before`. Its labels
/// are sorted, and its duration is `lasts_s`.
pub(super) fn lease_differs(before: &StoredLease, now: &CreateLeaseRequest, lasts_s: u64) -> Option<&'static str> {
    let CreateLeaseRequest {
        request_id: _,
        rig,
        labels,
        lasts_s: _,
        priority: _,
        attended,
    } = now;
    let fields = [
        ("rig", *rig != before.asked.rig),
        ("labels", *labels != before.asked.labels),
        ("lasts_s", lasts_s != before.lasts_s),
        ("priority", usual(now.priority()) != usual(before.priority)),
        ("attended", *attended != before.attended),
    ];
    fields.into_iter().find_map(|(field, differs)| differs.then_some(field))
}

fn usual(priority: Priority) -> Priority {
    match priority {
        Priority::Unspecified => Priority::Normal,
        named => named,
    }
}

/// Returns the tests that the patterns in a field select. Takes milliseconds.
pub(super) fn tests(field: &str, patterns: &[String]) -> Chosen {
    let wrong = |what: String| Err(vec![Violation::new(field, what)]);
    if patterns.len() > MOST_PATTERNS {
        return wrong(format!("expected at most {MOST_PATTERNS}, seen {}", patterns.len()));
    }
    let too_long = patterns.iter().enumerate().filter_map(|(place, pattern)| {
        let characters = pattern.chars().count();
        let what = format!("expected at most {LONGEST_PATTERN} characters, seen {characters}");
        (characters > LONGEST_PATTERN).then(|| Violation::new(format!("{field}[{place}]"), what))
    });
    let too_long: Vec<Violation> = too_long.collect();
    if !too_long.is_empty() {
        return Err(too_long);
    }
    let searches = patterns.iter().filter(|pattern| !is_exact(pattern)).count();
    if searches > MOST_SEARCHES {
        return wrong(format!(
            "expected at most {MOST_SEARCHES} patterns that are not the exact name of a test or statement, seen \
             {searches}; ListTests returns the names"
        ));
    }
    let unknown = |(place, error): (usize, verbatim_catalog::SelectError)| {
        Violation::new(format!("{field}[{place}]"), error.to_string())
    };
    select_or_all_errors(patterns).map_err(|errors| errors.into_iter().map(unknown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> RunSpec {
        RunSpec {
            rig: "virtual".into(),
            ..RunSpec::default()
        }
    }

    fn spec_of(rig: &str) -> RunSpec {
        RunSpec {
            rig: rig.into(),
            ..RunSpec::default()
        }
    }

    fn checked(request_id: &str, spec: &RunSpec, sees: impl Fn(&str) -> bool) -> Chosen {
        tests_of(request_id, spec, chosen(spec), &RigFile::built_in(), false, sees)
    }

    fn wrong(request_id: &str, spec: RunSpec) -> Vec<(String, String)> {
        let wrong = checked(request_id, &spec, |_| true).unwrap_err();
        wrong
            .into_iter()
            .map(|violation| (violation.field, violation.what))
            .collect()
    }

    #[test]
    fn error_hides_invisible_rigs() {
        let asked = spec_of("virtal");
        let told = checked("a", &asked, |_| false).unwrap_err();
        assert!(!told[0].what.contains("virtual"), "{told:?}");
        let told = wrong("a", spec_of(&"x".repeat(65)));
        assert!(told[0].1.contains("at most 64"), "{told:?}");
    }

    #[test]
    fn no_pattern_selects_all_tests() {
        let tests = checked("a", &spec(), |_| true).unwrap();
        assert_eq!(tests.len(), verbatim_catalog::TESTS.len());
    }

    #[test]
    fn rejects_too_many_patterns_or_parameters() {
        let patterns = vec!["nonsense".to_string(); MOST_PATTERNS + 1];
        let told = wrong("a", RunSpec { patterns, ..spec() });
        assert_eq!(
            told,
            [("spec.patterns".into(), "expected at most 1000, seen 1001".into())]
        );
        let parameters = (0..200_000).map(|number| (format!("p{number}"), 1)).collect();
        let told = wrong("a", RunSpec { parameters, ..spec() });
        assert_eq!(
            told,
            [("spec.parameters".into(), "expected at most 1000, seen 200000".into())]
        );
    }

    #[test]
    fn one_call_searches_for_few_patterns() {
        let patterns = |count| RunSpec {
            patterns: vec!["c14-wlak".to_string(); count],
            ..spec()
        };
        let told = wrong("a", patterns(MOST_SEARCHES + 1));
        assert_eq!(told.len(), 1);
        assert!(
            told[0].1.contains("at most 50 patterns") && told[0].1.contains("seen 51"),
            "{told:?}"
        );
        let told = wrong("a", patterns(MOST_SEARCHES));
        let suggestions = told.iter().filter(|(_, what)| what.contains("did you mean"));
        assert_eq!((told.len(), suggestions.count()), (MOST_SEARCHES, 1));
        let names: Vec<String> = verbatim_catalog::TESTS.iter().map(|test| test.id.into()).collect();
        let patterns = names.iter().cycle().take(MOST_PATTERNS).cloned().collect();
        let tests = checked("a", &RunSpec { patterns, ..spec() }, |_| true);
        assert_eq!(tests.unwrap().len(), names.len());
    }

    #[test]
    fn accepts_plain_and_resource_rig_names() {
        let named = |rig: &str| RunSpec {
            rig: rig.into(),
            ..spec()
        };
        assert_eq!(plain(named("rigs/virtual")), named("virtual"));
        assert_eq!(plain(named("virtual")), named("virtual"));
    }

    #[test]
    fn reports_every_invalid_field() {
        let told = wrong(
            &"x".repeat(65),
            RunSpec {
                rig: "virtal".into(),
                patterns: vec!["C14-16".into(), "c14-016-get-protekt-2".into()],
                ..spec()
            },
        );
        let fields: Vec<&str> = told.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(fields, ["request_id", "spec.rig", "spec.patterns[1]"]);
        assert!(
            told[1].1.contains("virtual") && told[2].1.contains("did you mean"),
            "{told:?}"
        );
    }

    #[test]
    fn rejects_unknown_or_out_of_range_parameter() {
        let test = verbatim_catalog::TESTS
            .iter()
            .find(|test| !test.parameters.is_empty())
            .unwrap();
        let parameter = test.parameters[0];
        let with = |name: &str, value: u64| RunSpec {
            patterns: vec![test.id.into()],
            parameters: [(name.to_string(), value)].into(),
            ..spec()
        };
        let lowest = with(parameter.name, parameter.range.0);
        assert!(checked("a", &lowest, |_| true).is_ok());
        if parameter.range.1 < u64::MAX {
            let told = wrong("a", with(parameter.name, parameter.range.1 + 1));
            assert!(told[0].1.contains(&format!("to {}", parameter.range.1)), "{told:?}");
        }
        let told = wrong("a", with("nonsense", 1));
        assert_eq!(told[0].0, "spec.parameters[\"nonsense\"]");
        assert!(told[0].1.contains(parameter.name), "{told:?}");
    }
}
