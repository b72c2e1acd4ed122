//! Whether a CreateRunRequest can be run: every field that is wrong, each with what was expected. Pure.

use verbatim_catalog::select;
use verbatim_proto::v1::CreateRunRequest;
use verbatim_tester::Test;

use super::errors::Violation;
use crate::sched::NewRun;
use crate::store::StoredRun;
use verbatim_rig::RigFile;

/// Characters of a request id.
const LONGEST_ID: usize = 64;
/// Patterns of a request.
const MOST_PATTERNS: usize = 1000;
/// Characters of a pattern.
const LONGEST_PATTERN: usize = 200;

/// The run that a request asks for.
pub(super) fn new_run(request: CreateRunRequest, uid: u32, rigs: &RigFile) -> Result<NewRun, Vec<Violation>> {
    let mut wrong = Vec::new();
    let characters = request.request_id.chars().count();
    if characters > LONGEST_ID {
        wrong.push(Violation::new(
            "request_id",
            format!("expected at most {LONGEST_ID} characters, such as a UUID; seen {characters}"),
        ));
    }
    let rig = rig_name(&request.rig);
    match rig {
        None => wrong.push(Violation::new(
            "rig",
            format!("expected \"rigs/NAME\", seen {:?}; ListRigs names them", request.rig),
        )),
        Some(name) => {
            if let Err(unknown) = rigs.find(name) {
                wrong.push(Violation::new("rig", unknown.to_string()));
            }
        }
    }
    let tests = tests(&request.patterns, &mut wrong);
    if let Some(tests) = &tests {
        parameters(&request, tests, &mut wrong);
    }
    match (rig, tests) {
        (Some(rig), Some(tests)) if wrong.is_empty() => Ok(NewRun {
            rig: rig.into(),
            request_id: request.request_id,
            uid,
            patterns: request.patterns,
            parameters: request.parameters,
            seed: request.seed,
            tests,
        }),
        _ => Err(wrong),
    }
}

/// The first field in which a request differs from the run that its id created before.
pub(super) fn differs(run: &StoredRun, request: &CreateRunRequest) -> Option<&'static str> {
    if rig_name(&request.rig) != Some(run.rig.as_str()) {
        Some("rig")
    } else if request.patterns != run.patterns {
        Some("patterns")
    } else if request.parameters != run.parameters {
        Some("parameters")
    } else if request.seed != run.seed {
        Some("seed")
    } else {
        None
    }
}

fn rig_name(name: &str) -> Option<&str> {
    name.strip_prefix("rigs/").filter(|name| !name.is_empty())
}

/// The tests that the patterns name; none when one of them names nothing.
fn tests(patterns: &[String], wrong: &mut Vec<Violation>) -> Option<Vec<&'static Test>> {
    let before = wrong.len();
    if patterns.len() > MOST_PATTERNS {
        let what = format!("expected at most {MOST_PATTERNS}, seen {}", patterns.len());
        wrong.push(Violation::new("patterns", what));
        return None;
    }
    for (place, pattern) in patterns.iter().enumerate() {
        let field = format!("patterns[{place}]");
        let characters = pattern.chars().count();
        if characters > LONGEST_PATTERN {
            let what = format!("expected at most {LONGEST_PATTERN} characters, seen {characters}");
            wrong.push(Violation::new(field, what));
        } else if let Err(error) = select(std::slice::from_ref(pattern)) {
            wrong.push(Violation::new(field, error.to_string()));
        }
    }
    (wrong.len() == before).then(|| select(patterns).ok()).flatten()
}

fn parameters(request: &CreateRunRequest, tests: &[&'static Test], wrong: &mut Vec<Violation>) {
    for (name, value) in &request.parameters {
        let field = format!("parameters[{name:?}]");
        let mut declared = tests
            .iter()
            .flat_map(|test| test.parameters.iter().map(move |parameter| (test.id, parameter)))
            .filter(|(_, parameter)| parameter.name == name)
            .peekable();
        if declared.peek().is_none() {
            let what = format!(
                "expected a parameter of one of the chosen tests, which are: {}",
                known(tests)
            );
            wrong.push(Violation::new(field, what));
            continue;
        }
        if let Some((test, parameter)) =
            declared.find(|(_, parameter)| !(parameter.range.0..=parameter.range.1).contains(value))
        {
            let (least, most) = parameter.range;
            let what = format!(
                "expected {least} to {most} for {test} ({}), seen {value}",
                parameter.about
            );
            wrong.push(Violation::new(field, what));
        }
    }
}

fn known(tests: &[&'static Test]) -> String {
    let mut names: Vec<&str> = tests.iter().flat_map(|test| test.parameters).map(|p| p.name).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> CreateRunRequest {
        CreateRunRequest {
            request_id: "a".into(),
            rig: "rigs/virtual".into(),
            ..CreateRunRequest::default()
        }
    }

    fn wrong(request: CreateRunRequest) -> Vec<(String, String)> {
        let wrong = new_run(request, 0, &RigFile::built_in()).unwrap_err();
        wrong
            .into_iter()
            .map(|violation| (violation.field, violation.what))
            .collect()
    }

    #[test]
    fn no_pattern_means_all_tests() {
        let new = new_run(request(), 7, &RigFile::built_in()).unwrap();
        assert_eq!((new.uid, new.tests.len()), (7, verbatim_catalog::TESTS.len()));
    }

    #[test]
    fn every_wrong_field_is_told_at_once() {
        let told = wrong(CreateRunRequest {
            request_id: "x".repeat(65),
            rig: "rigs/virtal".into(),
            patterns: vec!["C14-16".into(), "c14-016-get-protekt-2".into()],
            ..request()
        });
        let fields: Vec<&str> = told.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(fields, ["request_id", "rig", "patterns[1]"]);
        assert!(
            told[1].1.contains("virtual") && told[2].1.contains("did you mean"),
            "{told:?}"
        );
    }

    #[test]
    fn a_parameter_is_of_a_chosen_test_and_in_its_range() {
        let test = verbatim_catalog::TESTS
            .iter()
            .find(|test| !test.parameters.is_empty())
            .unwrap();
        let parameter = test.parameters[0];
        let with = |name: &str, value: u64| CreateRunRequest {
            patterns: vec![test.id.into()],
            parameters: [(name.to_string(), value)].into(),
            ..request()
        };
        assert!(new_run(with(parameter.name, parameter.range.0), 0, &RigFile::built_in()).is_ok());
        if parameter.range.1 < u64::MAX {
            let told = wrong(with(parameter.name, parameter.range.1 + 1));
            assert!(told[0].1.contains(&format!("to {}", parameter.range.1)), "{told:?}");
        }
        let told = wrong(with("nonsense", 1));
        assert_eq!(told[0].0, "parameters[\"nonsense\"]");
        assert!(told[0].1.contains(parameter.name), "{told:?}");
    }

    #[test]
    fn another_rig_pattern_parameter_or_seed_is_another_request() {
        let new = new_run(request(), 0, &RigFile::built_in()).unwrap();
        let run = StoredRun {
            schema: StoredRun::SCHEMA.into(),
            id: crate::store::RunId::new(0, 0),
            request_id: new.request_id,
            uid: 0,
            rig: new.rig,
            patterns: new.patterns,
            parameters: new.parameters,
            seed: new.seed,
            tests: Vec::new(),
            state: crate::store::RunState::Queued,
            outcome: None,
            cause: None,
            reason: String::new(),
            created_ns: 0,
            started_ns: None,
            ended_ns: None,
        };
        assert_eq!(differs(&run, &request()), None);
        let other = CreateRunRequest { seed: 1, ..request() };
        assert_eq!(differs(&run, &other), Some("seed"));
        let other = CreateRunRequest {
            patterns: vec!["C14-16".into()],
            ..request()
        };
        assert_eq!(differs(&run, &other), Some("patterns"));
    }
}
